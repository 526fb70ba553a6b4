package pack

import (
	"encoding/binary"
	"runtime"
	"testing"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/codectest"
	"github.com/xetfs/xetfs/codec/shard"
)

// An emptyLedger is a Ledger that learns everything and finds nothing.
type emptyLedger struct{}

func (emptyLedger) Lookup(codec.Hash) (codec.Hash, uint32, bool) { return codec.Hash{}, 0, false }
func (emptyLedger) Chunk(codec.Hash, uint32) (codec.Hash, bool)  { return codec.Hash{}, false }
func (emptyLedger) File(codec.Hash) (*shard.FileInfo, codec.Hash, bool) {
	return nil, codec.Hash{}, false
}
func (emptyLedger) Learn(codec.Hash) bool { return true }

// A session with a Ledger remembers nothing of a new chunk once it is stored. Without a Ledger
// it remembers little, and only the last maxKept chunks.
func TestSessionMemory(t *testing.T) {
	if codectest.Race {
		t.Skip("the race detector takes memory of its own")
	}
	const first, second, third = 20_000, 100_000, 100_000
	for _, tt := range []struct {
		name        string
		o           Options
		grows, then int64 // bytes a chunk, at most
	}{
		{"with a ledger", Options{Known: emptyLedger{}}, 10, 10},
		{"alone", Options{}, 100, 100},
		{"alone, and full", Options{maxKept: first + second}, 100, 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.o.ShardBytes = 1 << 18
			s := newDirectDeduper(tt.o)
			s.add(first)
			began := heapInUse()
			s.add(second)
			grown := heapInUse()
			s.add(third)
			end := heapInUse()
			grows, then := (grown-began)/second, (end-grown)/third
			if grows > tt.grows || then > tt.then {
				t.Errorf("%d bytes for each chunk, later %d, want at most %d, %d", grows, then, tt.grows, tt.then)
			}
			runtime.KeepAlive(s)
		})
	}
}

// A directDeduper is a deduper without the rest of the pipeline: what is to be stored is
// stored at once.
type directDeduper struct {
	*deduper
	n     uint64
	b     batch
	xorbs []*openXorb
}

func newDirectDeduper(o Options) *directDeduper {
	o.fill()
	w := &Writer{o: o}
	w.ledger, _ = o.Known.(Ledger)
	return &directDeduper{deduper: newDeduper(w)}
}

// add adds files of 100 chunks that are all different.
func (s *directDeduper) add(chunks int) {
	for at := 0; at < chunks; at += 100 {
		if at%2000 == 0 {
			s.send()
		}
		f := new(file)
		for range 100 {
			s.n++
			state := s.n
			s.b.buf = append(s.b.buf, "chunk"...)
			s.b.add(f, 5)
			c := &s.b.chunks[len(s.b.chunks)-1]
			for i := range 4 {
				binary.LittleEndian.PutUint64(c.hash[8*i:], codectest.SplitMix64(&state))
			}
		}
		s.b.finish(f)
	}
	s.send()
}

func (s *directDeduper) send() {
	s.batch(&s.b)
	for _, o := range s.b.ops {
		switch o.kind {
		case opCut:
			s.xorbs = append(s.xorbs, o.xorb)
		case opFlush:
			s.w.storedShards.put(storedShard{xorbs: s.xorbs})
			s.xorbs = nil
		case opAdd, opJoin, opFile:
		}
	}
	s.b.reset()
}

func heapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
