package objects

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/metacache"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// oldFileKey is the key of a File Info block in a cache of the versions before proofs. The
// blocks there were not proven.
func oldFileKey(scope string, id codec.FileID) [32]byte {
	b := binary.LittleEndian.AppendUint64([]byte("xetfs keeps of a store: file"), uint64(len(scope)))
	b = append(append(append(b, scope...), id.File[:]...), id.Shard[:]...)
	return page.Sum(binary.LittleEndian.AppendUint64(b, uint64(id.Block)))
}

// oldFile returns the value under oldFileKey: the present one with another key and sum.
func oldFile(scope string, id codec.FileID, fi metacache.FileEntry) (value []byte) {
	backend := new(origintest.Backend)
	metacache.New(backend, scope, false).PutFile(id, fi)
	for _, v := range backend.Pages() {
		value = slices.Clone(v)
	}
	key := oldFileKey(scope, id)
	copy(value[8:], key[:])
	body := value[:len(value)-len(key)]
	sum := page.Sum(body)
	return append(body, sum[:]...)
}

// bytesStore is a remote store of a few objects, which counts the requests for each.
type bytesStore struct {
	origin.Store
	objects   map[names.Key][]byte
	requested map[names.Key]int
}

func (s *bytesStore) ReadPart(_ context.Context, k names.Key, off int64, n int) (origin.Part, error) {
	b, ok := s.objects[k]
	if !ok {
		return origin.Part{}, origin.ErrNotFound
	}
	s.requested[k]++
	size := int64(len(b))
	if off < 0 {
		off = max(0, size-int64(n))
	}
	off = min(off, size)
	return origin.Part{Bytes: b[off:min(off+int64(n), size)], Off: off, Size: size}, nil
}

// A cache of the version before proofs loses its File Infos, true or false. All else stays: the
// shard is requested once, and the xorb never.
func TestF58_OldCache(t *testing.T) {
	chunks := [][]byte{[]byte("the first file"), []byte("another file..")}
	in := &xorb.Info{Footer: xorb.FooterV1}
	for _, c := range chunks {
		in.Chunks = append(in.Chunks, merkle.Chunk(c))
		in.PackedEnd = append(in.PackedEnd, uint32(len(in.Chunks)*(xorb.ChunkHeaderSize+len(c))))
		in.UnpackedEnd = append(in.UnpackedEnd, uint32(len(in.Chunks)*len(c)))
	}
	in.Xorb = in.Root()
	var w shard.Writer
	var files []*shard.FileInfo
	for i, c := range chunks {
		term := codec.Term{Xorb: in.Xorb, Chunks: codec.ChunkRange{Start: uint32(i), End: uint32(i) + 1}, Size: uint32(len(c))}
		files = append(files, &shard.FileInfo{File: merkle.File([]merkle.Leaf{{Hash: in.Chunks[i], Size: uint64(len(c))}}), Terms: []codec.Term{term}})
		w.AddFile(files[i])
	}
	encoded, err := w.Encode()
	if err != nil {
		t.Fatal(err)
	}
	s := merkle.Chunk(encoded)
	ids := []codec.FileID{{File: files[0].File, Shard: s}, {File: files[1].File, Shard: s}}

	const scope = "https://example.org/store"
	backend := new(origintest.Backend)
	old := metacache.New(backend, scope, false)
	old.PutInfo(in.Xorb, old.EncodeInfo(in.Xorb, in))
	for i, id := range ids {
		lie := *files[i]
		lie.Terms = files[1-i].Terms
		backend.Replace(oldFileKey(scope, id), oldFile(scope, id, metacache.FileEntry{FileInfo: &lie, Shard: s}))
	}
	for _, named := range []bool{true, false} {
		store := &bytesStore{objects: map[names.Key][]byte{names.ShardKey(s): encoded}, requested: map[names.Key]int{}}
		for range 2 {
			src := New(store, Options{Backend: backend, Scope: scope, Named: named})
			for i, id := range ids {
				fi, err := src.FileInfo(t.Context(), id)
				if err != nil || !slices.Equal(fi.Terms, files[i].Terms) {
					t.Errorf("FileInfo = %v, %v, want %v", fi, err, files[i])
				}
				if _, _, err := src.Narrow(t.Context(), id, files[i].Terms[0], codec.Piece{Size: 1}); err != nil {
					t.Error(err)
				}
			}
		}
		if n := store.requested[names.ShardKey(s)]; n != 1 || len(store.requested) != 1 {
			t.Errorf("named %v: requests %v, want one for the shard", named, store.requested)
		}
	}
}

// The hashes of a shard are cached: after a remount a File Info block costs its bytes only.
func TestShardHashesAreCached(t *testing.T) {
	var w shard.Writer
	var last codec.Hash
	for i := range 1000 {
		last = codec.Hash{byte(i), byte(i >> 8), 1}
		w.AddFile(&shard.FileInfo{File: last, Terms: []codec.Term{{Xorb: codec.Hash{1}, Chunks: codec.ChunkRange{End: 1}, Size: 1}}})
	}
	encoded, err := w.Encode()
	if err != nil {
		t.Fatal(err)
	}
	s := merkle.Chunk(encoded)
	store := &countedBytes{bytesStore: bytesStore{objects: map[names.Key][]byte{names.ShardKey(s): encoded}, requested: map[names.Key]int{}}}
	backend := new(origintest.Backend)
	get := func(block int64) (*shard.FileInfo, error) {
		fi, err := shard.ReadFileInfo(bytes.NewReader(encoded), block)
		if err != nil {
			t.Fatal(err)
		}
		src := New(store, Options{Backend: backend, Named: true})
		return src.FileInfo(t.Context(), codec.FileID{File: fi.File, Shard: s, Block: block})
	}
	const block = 2 * 48 // a header and a term
	if _, err := get(48); err != nil {
		t.Fatal(err)
	}
	store.read = 0
	if _, err := get(48 + 500*block); err != nil {
		t.Fatal(err)
	}
	if store.read == 0 || store.read > 3*shardBlock || store.requested[names.ShardKey(s)] != 1 {
		t.Errorf("%d bytes read after a remount", store.read)
	}
	store.objects[names.ShardKey(s)] = slices.Clone(encoded)
	store.objects[names.ShardKey(s)][48+600*block+60] ^= 1
	if fi, err := get(48 + 600*block); err == nil {
		t.Errorf("FileInfo of a changed record = %v", fi)
	}
}

// countedBytes counts the bytes that are read.
type countedBytes struct {
	bytesStore
	read int64
}

func (s *countedBytes) ReadAt(_ context.Context, k names.Key, p []byte, off int64) error {
	s.read += int64(len(p))
	_, err := bytes.NewReader(s.objects[k]).ReadAt(p, off)
	return err
}
