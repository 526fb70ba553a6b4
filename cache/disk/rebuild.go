package disk

import (
	"slices"

	"github.com/xetfs/xetfs/codec"
)

// A pendingExtent is an extent that is still to be put into the leaves of its object.
type pendingExtent struct {
	object uint32
	extent
}

// maxPending is how many wait before they are put there together, object by object: then
// each finds what it needs in the cache of the processor.
const maxPending = 1 << 19

// fewPending is for how many objects there must be one that waits, or to look at all objects
// would take longer than to place what waits as it comes: where drops stand between what is
// added, little waits each time.
const fewPending = 16

// manyExtents is from how many extents on the leaves of an object are made anew.
const manyExtents = 16

// place puts all that waits where it belongs, for each object in the order of the journal.
func (r *recovered) place() {
	if len(r.pending) == 0 {
		return
	}
	x := r.index
	if len(r.pending) < len(x.objects)/fewPending {
		for i := range r.pending {
			w := &r.pending[i]
			x.place(w.object, w.extent)
		}
		r.pending = r.pending[:0]
		return
	}
	next := make([]uint32, len(x.objects)+1)
	for i := range r.pending {
		next[r.pending[i].object+1]++
	}
	for i := 1; i < len(next); i++ {
		next[i] += next[i-1]
	}
	order := make([]uint32, len(r.pending))
	for i := range r.pending {
		id := r.pending[i].object
		order[next[id]] = uint32(i)
		next[id]++
	}
	table := new(table)
	for start, end := 0, 0; start < len(order); start = end {
		id := r.pending[order[start]].object
		end = int(next[id])
		if end-start >= manyExtents {
			table.rebuild(x, id, r.pending, order[start:end])
			continue
		}
		for _, i := range order[start:end] {
			w := &r.pending[i]
			x.place(id, w.extent)
		}
	}
	r.pending = r.pending[:0]
}

// A table has a row for every chunk that an object can have.
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
func (t *table) rebuild(x *index, id uint32, waiting []pendingExtent, order []uint32) {
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

// set says where the chunks of e are, and forgets where they were.
func (t *table) set(x *index, e extent) {
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

// leaves returns what the table says, and clears it.
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
