package disk

import (
	"slices"
	"sort"
	"sync"

	"github.com/xetfs/xetfs/codec"
)

// A kind says what a key names.
type kind uint8

const (
	chunkKind kind = iota // the chunks of a xorb
	pageKind              // an index page: chunk 0 of an object that has no others
	numKinds
)

// A key names an object of which chunks are kept.
type key struct {
	kind kind
	hash codec.Hash
}

// leafChunks is how many chunks one leaf of an object spans. An insertion moves no more
// than the extents of a leaf.
const leafChunks = 128

// An extent says where consecutive chunks of an object lie: back to back in a segment.
type extent struct {
	segment uint32
	at      uint32 // place of the first in segment.chunks
	first   uint16 // index of the first in the object
	n       uint16
}

func (e extent) end() uint32 { return uint32(e.first) + uint32(e.n) }

// from returns the part of e that begins with chunk c, which is in it.
func (e extent) from(c uint32) extent {
	skip := c - uint32(e.first)
	e.at += skip
	e.first += uint16(skip)
	e.n -= uint16(skip)
	return e
}

// to returns the part of e that ends before chunk c.
func (e extent) to(c uint32) extent {
	e.n = uint16(min(c, e.end()) - uint32(e.first))
	return e
}

// A leaf holds the extents of leafChunks chunks, in order and without overlap.
type leaf struct {
	base    uint16 // index of the first chunk, divided by leafChunks
	extents []extent
}

// find returns which of the extents is the first that ends behind chunk c.
func (l *leaf) find(c uint32) int {
	lo, hi := 0, len(l.extents)
	for lo < hi {
		if mid := (lo + hi) / 2; l.extents[mid].end() > c {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

// An object is a xorb or a page of which something is kept.
type object struct {
	key    key
	ref    uint32 // its number in the journal plus 1; 0: it has none. The writer's alone.
	leaves []leaf // by base; none is empty
}

// leaf returns which leaf holds chunk c, or would.
func (o *object) leaf(c uint32) (i int, ok bool) {
	base := uint16(c / leafChunks)
	if n := len(o.leaves); n > 0 && o.leaves[n-1].base < base {
		return n, false
	}
	i = sort.Search(len(o.leaves), func(i int) bool { return o.leaves[i].base >= base })
	return i, i < len(o.leaves) && o.leaves[i].base == base
}

// at returns where chunk c lies, and those of the same extent behind it.
func (o *object) at(c uint32) (extent, bool) {
	i, ok := o.leaf(c)
	if !ok {
		return extent{}, false
	}
	l := &o.leaves[i]
	j := l.find(c)
	if j == len(l.extents) || uint32(l.extents[j].first) > c {
		return extent{}, false
	}
	return l.extents[j].from(c), true
}

// An index knows where every chunk, page and whole file is. The methods in lower case
// want mu to be held, for writing where they change something.
type index struct {
	mu sync.RWMutex // guards all below

	ids      map[key]uint32 // place in objects
	objects  []object
	unused   []uint32 // places in objects
	segments map[uint32]*segment
	files    map[codec.Hash]*wholeFile
	chunks   int // that can be found
	replay   bool
}

func newIndex() *index {
	return &index{
		ids:      make(map[key]uint32),
		segments: make(map[uint32]*segment),
		files:    make(map[codec.Hash]*wholeFile),
	}
}

// object returns the place of an object and makes it if need be.
func (x *index) object(k key) uint32 {
	if id, ok := x.ids[k]; ok {
		return id
	}
	id := uint32(len(x.objects))
	if n := len(x.unused); n > 0 {
		id = x.unused[n-1]
		x.unused = x.unused[:n-1]
		x.objects[id] = object{key: k}
	} else {
		x.objects = append(x.objects, object{key: k})
	}
	x.ids[k] = id
	return id
}

// release forgets an object of which nothing is left. While a journal is read its
// references must stay what they are; sweep makes up for it.
func (x *index) release(id uint32) {
	o := &x.objects[id]
	if len(o.leaves) > 0 || x.replay {
		return
	}
	delete(x.ids, o.key)
	*o = object{}
	x.unused = append(x.unused, id)
}

// sweep ends the reading of a journal.
func (x *index) sweep() {
	x.replay = false
	for id := range x.objects {
		if o := &x.objects[id]; len(o.leaves) == 0 {
			x.release(uint32(id))
		}
	}
}

// add says that n chunks of an object, from first on, now lie in a segment, from place
// at of its table on. Where they lay before is forgotten.
func (x *index) add(id uint32, first uint32, s *segment, at uint32, n int) {
	e := extent{segment: s.number, at: at, first: uint16(first), n: uint16(n)}
	x.own(id, s, e)
	x.place(id, e)
}

// own says that chunks of a segment belong to an object.
func (x *index) own(id uint32, s *segment, e extent) {
	s.owners = append(s.owners, owner{object: id, at: e.at, first: e.first, n: e.n})
	s.live += s.bytes(e.at, int(e.n))
	x.chunks += int(e.n)
}

// place puts an extent into the leaves of an object.
func (x *index) place(id uint32, e extent) {
	for border := (uint32(e.first)/leafChunks + 1) * leafChunks; e.end() > border; border += leafChunks {
		x.addToLeaf(&x.objects[id], e.to(border))
		e = e.from(border)
	}
	x.addToLeaf(&x.objects[id], e)
}

func (x *index) addToLeaf(o *object, e extent) {
	i, ok := o.leaf(uint32(e.first))
	if !ok {
		o.leaves = slices.Insert(o.leaves, i, leaf{base: e.first / leafChunks, extents: []extent{e}})
		return
	}
	l := &o.leaves[i]
	x.cutLeaf(l, uint32(e.first), e.end())
	j := l.find(uint32(e.first))
	if j > 0 {
		last := &l.extents[j-1]
		if last.segment == e.segment && last.at+uint32(last.n) == e.at && last.end() == uint32(e.first) {
			last.n += e.n
			return
		}
	}
	l.extents = slices.Insert(l.extents, j, e)
}

// cut forgets chunks of an object and returns how many there were.
func (x *index) cut(id uint32, r codec.ChunkRange) int {
	before := x.chunks
	o := &x.objects[id]
	empty := false
	for i := range o.leaves {
		l := &o.leaves[i]
		x.cutLeaf(l, r.Start, r.End)
		empty = empty || len(l.extents) == 0
	}
	if empty {
		o.leaves = slices.DeleteFunc(o.leaves, func(l leaf) bool { return len(l.extents) == 0 })
		x.release(id)
	}
	return before - x.chunks
}

// cutLeaf forgets the chunks start ≤ c < end of one leaf, which may become empty.
func (x *index) cutLeaf(l *leaf, start, end uint32) {
	i := l.find(start)
	j := i
	var keep [2]extent
	kept := keep[:0]
	for ; j < len(l.extents) && uint32(l.extents[j].first) < end; j++ {
		e := l.extents[j]
		if uint32(e.first) < start {
			kept = append(kept, e.to(start))
			e = e.from(start)
		}
		if e.end() > end {
			kept = append(kept, e.from(end))
			e = e.to(end)
		}
		s := x.segments[e.segment]
		s.live -= s.bytes(e.at, int(e.n))
		x.chunks -= int(e.n)
	}
	if i < j {
		l.extents = slices.Replace(l.extents, i, j, kept...)
	}
}

// remove forgets a segment and all that lies in it.
func (x *index) remove(s *segment) {
	var lost []owner
	x.alive(s, func(id uint32, e extent) {
		lost = append(lost, owner{object: id, first: e.first, n: e.n})
	})
	for _, w := range lost {
		x.cut(w.object, codec.ChunkRange{Start: uint32(w.first), End: uint32(w.first) + uint32(w.n)})
	}
	delete(x.segments, s.number)
}
