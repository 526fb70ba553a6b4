package disk

import (
	"cmp"
	"slices"

	"github.com/xetfs/xetfs/codec"
)

// redundantShare is the part of a segment that must be spare, or gone already, for the rest of it
// to be moved away.
const redundantShare = 0.7

// MarkRedundant says that chunks are kept elsewhere, too: in a whole file. They are the first to go
// when room is needed, and no trace of them is kept. A chunk that is read after that is one
// like any other again. It does not last: after the next Open they are new ones that nobody has
// read.
func (s *Store) MarkRedundant(terms []codec.Term) {
	if wr := s.writer.Load(); wr != nil {
		wr.later(func() { wr.markRedundant(terms) }) // behind what was put before
	}
}

func (wr *writer) markRedundant(terms []codec.Term) {
	for _, t := range terms {
		wr.markRedundantRun(key{chunkKind, t.Xorb}, t.Chunks)
	}
}

func (wr *writer) markRedundantRun(o key, r codec.ChunkRange) {
	x := wr.d.index
	x.mu.RLock()
	defer x.mu.RUnlock()
	id, ok := x.ids[o]
	for ok && r.Start < r.End {
		e, there := x.objects[id].at(r.Start)
		if !there {
			r.Start++
			continue
		}
		e = e.to(r.End)
		s := x.segments[e.segment]
		for at := e.at; at < e.at+uint32(e.n); at++ {
			if s.chunks[at].markRedundant() {
				s.redundant += s.bytes(at, 1)
			}
		}
		r.Start = e.end()
	}
}

// evictRedundant deletes the oldest segment in which most is spare, and moves away the rest; false:
// there is none.
func (wr *writer) evictRedundant() bool {
	for _, s := range wr.redundantSegments() {
		stay, bytes := wr.survivors(s, func(c *chunk) (queue, bool) {
			if c.uses() > 0 {
				return protected, true
			}
			return s.queue, !c.isRedundant()
		})
		if float64(bytes) > (1-redundantShare)*float64(s.size.Load()) {
			continue
		}
		if s == wr.heads[s.queue] {
			wr.seal(s.queue)
		}
		wr.cleanSegment(s, stay, bytes)
		return true
	}
	return false
}

// redundantSegments returns the segments in which enough may be spare, oldest first.
func (wr *writer) redundantSegments() (all []*segment) {
	x := wr.d.index
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, s := range x.segments {
		size := s.size.Load()
		if s.redundant > 0 && float64(s.redundant+size-s.live) >= redundantShare*float64(size) {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b *segment) int { return cmp.Compare(a.order, b.order) })
	return all
}
