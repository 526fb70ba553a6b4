package index

import (
	"slices"

	"github.com/xetfs/xetfs/codec"
)

// A Builder makes an Index from the records of a journal, in their order. An error means that
// the record contradicts the records before it.
type Builder struct {
	index   *Index
	queues  EvictionQueues
	refs    []uint32 // reference → position in Index.objects
	last    uint32   // highest number of a segment
	pending []pendingExtent
}

// NewBuilder returns a builder of an empty index.
func NewBuilder() *Builder {
	b := &Builder{index: New()}
	b.index.replay = true
	return b
}

// Name gives an object the next reference.
func (b *Builder) Name(k Key) {
	id := b.index.object(k)
	b.refs = append(b.refs, id)
	b.index.objects[id].ref = uint32(len(b.refs))
}

// Segment adds a segment, or moves it to the end of a queue.
func (b *Builder) Segment(number uint32, q Queue) {
	s := b.index.segments[number]
	if s == nil {
		s = &Segment{Number: number}
		b.index.segments[number] = s
		b.last = max(b.last, number)
	}
	b.queues.Push(q, QueueItem{Segment: s})
}

// Add adds rows of chunks to a segment, from offset off on.
func (b *Builder) Add(number uint32, off int64, rows []Row, infos []ChunkInfo) error {
	s := b.index.segments[number]
	switch {
	case s == nil:
		return invalid("chunks are added to segment %d, which is absent", number)
	case off < s.End():
		return invalid("chunks are added at byte %d of a segment with %d bytes", off, s.End())
	}
	at := s.extend(off, infos)
	for _, w := range rows {
		if int(w.Ref) >= len(b.refs) {
			return invalid("reference %d of %d", w.Ref, len(b.refs))
		}
		id, e := b.refs[w.Ref], extent{segment: s.Number, at: at, first: uint16(w.First), n: uint16(w.N)}
		b.index.own(id, s, e)
		b.pending = append(b.pending, pendingExtent{id, e})
		at += uint32(w.N)
	}
	if len(b.pending) >= maxPending {
		b.place()
	}
	return nil
}

// Drop forgets chunks of an object.
func (b *Builder) Drop(k Key, first uint32, n int) {
	b.place()
	b.index.Drop(k, codec.ChunkRange{Start: first, End: first + uint32(n)})
}

// Evict forgets a segment.
func (b *Builder) Evict(number uint32) error {
	s := b.index.segments[number]
	if s == nil {
		return invalid("segment %d is evicted, but was never added", number)
	}
	b.place()
	b.index.Remove(s)
	s.Gone.Store(true)
	return nil
}

// File adds a whole file, or moves it to the end of its queue.
func (b *Builder) File(hash codec.Hash, size, mtime, ctime int64, crc uint32) {
	w := b.index.files.get(hash)
	if w == nil {
		w = &WholeFile{Hash: hash}
		b.index.files.put(w)
	}
	w.Size, w.MTime, w.CRC = size, mtime, crc
	w.CTime.Store(ctime)
	b.queues.Push(Protected, QueueItem{File: w})
}

// ForgetFile forgets a whole file.
func (b *Builder) ForgetFile(hash codec.Hash) {
	if w := b.index.files.get(hash); w != nil {
		w.order = 0
		b.index.files.remove(hash)
	}
}

// Done returns the index, the queues, the number of references and the highest number of a
// segment.
func (b *Builder) Done() (x *Index, queues EvictionQueues, refs, last uint32) {
	b.place()
	b.pending = nil
	b.index.sweep()
	return b.index, b.queues, uint32(len(b.refs)), b.last
}

func invalid(format string, args ...any) error {
	return codec.Corrupt("cache record", 0, format, args...)
}

// A pendingExtent is an extent that is not yet in the leaves of its object.
type pendingExtent struct {
	object uint32
	extent
}

// maxPending is the number of pending extents that are placed together, object by object. Each
// object then stays in the cache of the processor.
const maxPending = 1 << 19

// fewPending is the number of objects per pending extent from which on extents are placed one
// by one. A pass over all objects would take longer. Between drops only few extents wait.
const fewPending = 16

// manyExtents is the number of extents from which on the leaves of an object are rebuilt.
const manyExtents = 16

// place puts all pending extents into their objects, for each object in the order of the
// journal.
func (b *Builder) place() {
	if len(b.pending) == 0 {
		return
	}
	x := b.index
	if len(b.pending) < len(x.objects)/fewPending {
		for i := range b.pending {
			w := &b.pending[i]
			x.place(w.object, w.extent)
		}
		b.pending = b.pending[:0]
		return
	}
	next := make([]uint32, len(x.objects)+1)
	for i := range b.pending {
		next[b.pending[i].object+1]++
	}
	for i := 1; i < len(next); i++ {
		next[i] += next[i-1]
	}
	order := make([]uint32, len(b.pending))
	for i := range b.pending {
		id := b.pending[i].object
		order[next[id]] = uint32(i)
		next[id]++
	}
	table := new(table)
	for start, end := 0, 0; start < len(order); start = end {
		id := b.pending[order[start]].object
		end = int(next[id])
		if end-start >= manyExtents {
			table.rebuild(x, id, b.pending, order[start:end])
			continue
		}
		for _, i := range order[start:end] {
			w := &b.pending[i]
			x.place(id, w.extent)
		}
	}
	b.pending = b.pending[:0]
}

// A table has a row for every possible chunk of an object.
type table struct {
	cells      [codec.MaxXorbChunks]cell
	start, end uint32 // chunks for which a cell may be set
}

type cell struct {
	segment, at uint32
	set         bool
}

// rebuild makes the leaves of an object anew, with those extents of waiting that order
// names.
func (t *table) rebuild(x *Index, id uint32, waiting []pendingExtent, order []uint32) {
	o := &x.objects[id]
	t.start, t.end = codec.MaxXorbChunks, 0
	for _, l := range o.leaves {
		for _, e := range l.extents {
			t.set(x, e)
		}
	}
	for _, i := range order {
		t.set(x, waiting[i].extent)
	}
	o.leaves = t.leaves()
}

// set records the place of the chunks of e and forgets their former place.
func (t *table) set(x *Index, e extent) {
	t.start, t.end = min(t.start, uint32(e.first)), max(t.end, e.end())
	for i := range uint32(e.n) {
		c := &t.cells[uint32(e.first)+i]
		if c.set {
			s := x.segments[c.segment]
			s.live -= s.bytes(c.at, 1)
			x.chunks--
		}
		*c = cell{e.segment, e.at + i, true}
	}
}

// leaves returns the content of the table and clears the table.
func (t *table) leaves() (leaves []leaf) {
	var extents []extent
	for start := t.start &^ (leafChunks - 1); start < t.end; start += leafChunks {
		extents = extents[:0]
		for i := start; i < min(start+leafChunks, t.end); i++ {
			c := &t.cells[i]
			if !c.set {
				continue
			}
			n := len(extents) - 1
			if n >= 0 && extents[n].end() == i && extents[n].segment == c.segment && extents[n].at+uint32(extents[n].n) == c.at {
				extents[n].n++
			} else {
				extents = append(extents, extent{segment: c.segment, at: c.at, first: uint16(i), n: 1})
			}
			c.set = false
		}
		if len(extents) > 0 {
			leaves = append(leaves, leaf{base: uint16(start / leafChunks), extents: slices.Clone(extents)})
		}
	}
	return leaves
}
