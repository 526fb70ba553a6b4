package index

import (
	"cmp"
	"slices"

	"github.com/xetfs/xetfs/codec"
)

// AddSegment records a new segment.
func (x *Index) AddSegment(s *Segment) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.segments[s.Number] = s
}

// Segment returns a segment, nil if it is absent.
func (x *Index) Segment(number uint32) *Segment {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.segments[number]
}

// Segments returns all segments in no order.
func (x *Index) Segments() []*Segment { return x.filter(func(*Segment) bool { return true }) }

// EmptySegments returns the segments without a chunk that can be found. Segments that are
// being written are no part of the result.
func (x *Index) EmptySegments() []*Segment {
	return x.filter(func(s *Segment) bool { return s.live == 0 && !s.Pinned.Load() })
}

func (x *Index) filter(want func(*Segment) bool) (all []*Segment) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, s := range x.segments {
		if want(s) {
			all = append(all, s)
		}
	}
	return all
}

// Remove forgets a segment and all chunks in it.
func (x *Index) Remove(s *Segment) {
	x.mu.Lock()
	defer x.mu.Unlock()
	var lost []owner
	x.alive(s, func(id uint32, e extent) {
		lost = append(lost, owner{object: id, first: e.first, n: e.n})
	})
	for _, w := range lost {
		x.cut(w.object, codec.ChunkRange{Start: uint32(w.first), End: uint32(w.first) + uint32(w.n)})
	}
	delete(x.segments, s.Number)
}

// decay counts one use less for each chunk of a segment. It locks mu.
func (x *Index) decay(s *Segment) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for i := range s.chunks {
		s.chunks[i].decay()
	}
}

// MarkRedundant marks chunks that are stored in a whole file, too. They are evicted before
// others. A chunk that is read later loses the mark.
func (x *Index) MarkRedundant(k Key, r codec.ChunkRange) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	id, ok := x.ids[k]
	for ok && r.Start < r.End {
		e, stored := x.objects[id].at(r.Start)
		if !stored {
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

// redundantSegments returns the segments of which a share of at least least is redundant or
// forgotten, oldest first. It locks mu.
func (x *Index) redundantSegments(least float64) []*Segment {
	all := x.filter(func(s *Segment) bool {
		size := s.Size.Load()
		return s.redundant > 0 && float64(s.redundant+size-s.live) >= least*float64(size)
	})
	slices.SortFunc(all, func(a, b *Segment) int { return cmp.Compare(a.order, b.order) })
	return all
}

// recountRedundant corrects the count of a segment of which stay bytes are neither redundant nor
// forgotten: marks end when chunks are read. The segment is not listed again for ended marks. It
// locks mu.
func (x *Index) recountRedundant(s *Segment, stay int64) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	s.redundant = s.live - stay
}

// A Row is consecutive chunks of one object.
type Row struct {
	Ref   uint32 // reference of the object in the journal
	First uint32
	N     int
}

// Rows calls yield for the chunks of a segment that can be found, in the order of their
// bytes. AppendInfos describes the chunks. yield runs under the lock of the index.
func (x *Index) Rows(s *Segment, yield func(off, size int64, at uint32, r Row)) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	x.alive(s, func(id uint32, e extent) {
		r := Row{Ref: x.objects[id].ref - 1, First: uint32(e.first), N: int(e.n)}
		yield(s.offset(e.at), s.bytes(e.at, r.N), e.at, r)
	})
}

// Renumber gives every object a new reference for a new journal: 0, 1, 2 and so on. It returns
// their keys in this order.
func (x *Index) Renumber() (keys []Key) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for id := range x.objects {
		o := &x.objects[id]
		o.ref = 0
		if len(o.leaves) > 0 {
			keys = append(keys, o.key)
			o.ref = uint32(len(keys))
		}
	}
	return keys
}

// Totals returns the size of all tables, from which the size of a snapshot follows.
func (x *Index) Totals() (objects, files, segments, owners, chunks int) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, s := range x.segments {
		owners += len(s.owners)
		chunks += len(s.chunks)
	}
	return len(x.objects), x.files.n, len(x.segments), owners, chunks
}
