package dedup_test

import (
	"context"
	"encoding/binary"
	"flag"
	"iter"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dedup"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/shard"
)

var knownLarge = flag.Bool("known-large", false, "look chunks up in a store of 10,000,000, which takes 700 MB of disk")

// The chunks of the large store: a hash for each number.
const (
	largeChunks   = 10_000_000
	chunksOfXorb  = 1000
	chunksOfShard = 100_000
)

func largeHash(i int) codec.Hash {
	return merkle.Chunk(binary.LittleEndian.AppendUint64(nil, uint64(i)))
}

// largeXorb describes the xorb that begins with some chunk.
func largeXorb(start int) *shard.XorbInfo {
	x := &shard.XorbInfo{Unpacked: chunksOfXorb}
	var leaves []merkle.Leaf
	for i := range chunksOfXorb {
		h := largeHash(start + i)
		x.Chunks = append(x.Chunks, shard.Chunk{Hash: h, Start: uint32(i), Size: 1})
		leaves = append(leaves, merkle.Leaf{Hash: h, Size: 1})
	}
	x.Xorb = merkle.Xorb(leaves)
	return x
}

// largeStore is shards on disk, of xorbs that are only said to be there.
type largeStore struct {
	origin.WriteStore
	xorbs []codec.Hash
}

// putShard stores the shard of some chunks.
func (s *largeStore) putShard(t testing.TB, first, chunks int) {
	t.Helper()
	var w shard.Writer
	for start := first; start < first+chunks; start += chunksOfXorb {
		x := largeXorb(start)
		s.xorbs = append(s.xorbs, x.Xorb)
		w.AddXorb(x)
	}
	if _, err := origin.Sink(s.WriteStore).PutShard(t.Context(), &w); err != nil {
		t.Fatal(err)
	}
}

func (s largeStore) List(ctx context.Context, prefix string, after names.Key) iter.Seq2[origin.Item, error] {
	if prefix != names.XorbPrefix {
		return s.WriteStore.List(ctx, prefix, after)
	}
	return func(yield func(origin.Item, error) bool) {
		for _, x := range s.xorbs {
			if !yield(origin.Item{Key: names.XorbKey(x), Size: 1 << 26}, nil) {
				return
			}
		}
	}
}

// A store of 10,000,000 chunks is looked up with little memory, and quickly.
func TestKnownLarge(t *testing.T) {
	if !*knownLarge {
		t.Skip("takes a minute; -known-large")
	}
	s, err := dir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	origintest.Close(t, s)
	large := &largeStore{WriteStore: s}
	for first := 0; first < largeChunks; first += chunksOfShard {
		large.putShard(t, first, chunksOfShard)
	}
	before := heap()
	began := time.Now()
	k, err := dedup.Open(t.Context(), large, dedup.Options{
		TempFile: func() (dedup.TempFile, error) { return os.CreateTemp(t.TempDir(), "") },
	})
	if err != nil {
		t.Fatal(err)
	}
	origintest.Close(t, k)
	t.Logf("%d chunks: opened in %v, %d MiB of heap", largeChunks, time.Since(began), (heap()-before)>>20)
	lookUp := func(what string, hash func(i int) codec.Hash, want bool) {
		hashes := make([]codec.Hash, 100_000)
		for i := range hashes {
			hashes[i] = hash(i)
		}
		began := time.Now()
		for _, h := range hashes {
			if _, _, ok := k.Lookup(h); ok != want {
				t.Fatalf("%s: found %t", what, ok)
			}
		}
		took := time.Since(began)
		t.Logf("100,000 %s: %v, %v each, %d MiB of heap", what, took, took/100_000, (heap()-before)>>20)
	}
	lookUp("chunks in a row", func(i int) codec.Hash { return largeHash(i) }, true)
	lookUp("chunks from all over", func(i int) codec.Hash { return largeHash(i * 99) }, true)
	lookUp("that are not there", func(i int) codec.Hash { return largeHash(largeChunks + i) }, false)
	if mib := (heap() - before) >> 20; mib > 96 {
		t.Errorf("%d MiB of heap, want at most 96", mib)
	}
	runtime.KeepAlive(k)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse)
}
