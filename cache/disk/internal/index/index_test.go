package index

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/codectest"
)

// hashOf returns a hash for the nth xorb of a test.
func hashOf(n int) (h codec.Hash) {
	seed := uint64(n)
	for i := 0; i < len(h); i += 8 {
		binary.LittleEndian.PutUint64(h[i:], codectest.SplitMix64(&seed))
	}
	return h
}

func chunks(start, end uint32) codec.ChunkRange { return codec.ChunkRange{Start: start, End: end} }

// TestIndexAgainstAMap does random things to an index and to a plain map.
func TestIndexAgainstAMap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	x := New()
	type place struct{ segment, at uint32 }
	model := make(map[Key]map[uint32]place)
	for i := range 3000 {
		k := XorbKey(hashOf(rng.IntN(4)))
		start := uint32(rng.IntN(700))
		r := chunks(start, start+1+uint32(rng.IntN(200)))
		switch rng.IntN(8) {
		case 0:
			x.Drop(k, r)
			for c := r.Start; c < r.End; c++ {
				delete(model[k], c)
			}
		case 1:
			number := uint32(rng.IntN(i + 1))
			if s := x.segments[number]; s != nil {
				x.Remove(s)
			}
			for _, chunks := range model {
				for c, p := range chunks {
					if p.segment == number {
						delete(chunks, c)
					}
				}
			}
		default:
			s := &Segment{Number: uint32(i)}
			x.segments[s.Number] = s
			at := s.extend(int64(rng.IntN(2)*100), make([]ChunkInfo, r.Len()))
			x.add(x.object(k), r.Start, s, at, r.Len())
			if model[k] == nil {
				model[k] = make(map[uint32]place)
			}
			for c := r.Start; c < r.End; c++ {
				model[k][c] = place{s.Number, at + c - r.Start}
			}
		}
	}
	if err := x.CheckInvariants(); err != nil {
		t.Error(err)
	}
	for n := range 4 {
		k := XorbKey(hashOf(n))
		for c := range uint32(1000) {
			want, there := model[k][c]
			var got place
			parts := x.Find(k, chunks(c, c+1), nil)
			if len(parts) == 1 {
				got = place{parts[0].Segment.Number, parts[0].at}
			}
			if (len(parts) == 1) != there || got != want {
				t.Fatalf("chunk %d of object %d: %v, want %v", c, n, got, want)
			}
		}
	}
}

// TestRedundantRecount reads most of the redundant chunks of a segment. Only the first pass over the
// redundant segments examines it.
func TestRedundantRecount(t *testing.T) {
	x, k, all := New(), XorbKey(hashOf(1)), chunks(0, 10)
	s := &Segment{Number: 1, Queue: Probation}
	x.AddSegment(s)
	x.Enter(k, 0, s, 0, slices.Repeat([]ChunkInfo{{Size: 100}}, 10), nil)
	s.Size.Store(1000)
	p := NewPolicy(x, EvictionQueues{})
	p.Push(Probation, QueueItem{Segment: s})
	x.MarkRedundant(k, all)
	x.Touch(x.Find(k, chunks(0, 9), nil))
	if p.evictRedundant(nil, 100) {
		t.Fatal("a segment in use was evicted")
	}
	if again := x.redundantSegments(redundantShare); len(again) > 0 {
		t.Error("the segment is examined again")
	}
	x.MarkRedundant(k, all)
	if again := x.redundantSegments(redundantShare); len(again) != 1 {
		t.Error("the segment is not examined after new marks")
	}
}
