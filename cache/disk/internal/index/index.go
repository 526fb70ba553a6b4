package index

import (
	"fmt"
	"iter"
	"slices"
	"sort"
	"sync"

	"github.com/xetfs/xetfs/codec"
)

// A Kind is the type of the object that a key names.
type Kind uint8

const (
	ChunkKind Kind = iota // the chunks of a xorb
	PageKind              // an index page: chunk 0 of an object with one chunk
	NumKinds
)

// A Key names an object whose chunks are stored.
type Key struct {
	Kind Kind
	Hash codec.Hash
}

// leafChunks is the number of chunks that one leaf of an object spans. An insertion moves at
// most the extents of one leaf.
const leafChunks = 128

// An extent locates consecutive chunks of an object: back to back in a segment.
type extent struct {
	segment uint32
	at      uint32 // position of the first chunk in Segment.chunks
	first   uint16 // index of the first chunk in the object
	n       uint16
}

func (e extent) end() uint32 { return uint32(e.first) + uint32(e.n) }

// from returns the part of e that begins with chunk c. Chunk c must be in e.
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

// find returns the position of the first extent that ends behind chunk c.
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

// An object is a xorb or a page with at least one stored chunk.
type object struct {
	key    Key
	ref    uint32 // its number in the journal plus 1; 0: none
	leaves []leaf // by base; none is empty
}

// leaf returns the position of the leaf for chunk c, and whether the leaf exists.
func (o *object) leaf(c uint32) (i int, ok bool) {
	base := uint16(c / leafChunks)
	if n := len(o.leaves); n > 0 && o.leaves[n-1].base < base {
		return n, false
	}
	i = sort.Search(len(o.leaves), func(i int) bool { return o.leaves[i].base >= base })
	return i, i < len(o.leaves) && o.leaves[i].base == base
}

// at returns the extent of chunk c, from c on.
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

// An Index locates every chunk, page and whole file. Exported methods lock mu; the others
// require it, for writing if they change the index.
type Index struct {
	mu sync.RWMutex // guards all below

	ids      map[Key]uint32 // position in objects
	objects  []object
	unused   []uint32 // positions in objects
	segments map[uint32]*Segment
	files    fileTable // changed with mu
	chunks   int       // that can be found
	replay   bool      // objects keep their positions, also without chunks
}

// New returns an empty index.
func New() *Index {
	return &Index{
		ids:      make(map[Key]uint32),
		segments: make(map[uint32]*Segment),
	}
}

// Len returns the number of chunks and of whole files that can be found.
func (x *Index) Len() (chunks, files int) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.chunks, x.files.n
}

// Has reports whether any chunk of k is stored.
func (x *Index) Has(k Key) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	_, ok := x.ids[k]
	return ok
}

// Missing appends the parts of r that are not stored.
func (x *Index) Missing(k Key, r codec.ChunkRange, gaps []codec.ChunkRange) []codec.ChunkRange {
	x.mu.RLock()
	defer x.mu.RUnlock()
	id, ok := x.ids[k]
	if !ok {
		return append(gaps, r)
	}
	o := &x.objects[id]
	open := false
	for c := r.Start; c < r.End; {
		if e, ok := o.at(c); ok {
			c, open = e.end(), false
			continue
		}
		if !open {
			gaps, open = append(gaps, codec.ChunkRange{Start: c}), true
		}
		c++
		gaps[len(gaps)-1].End = c
	}
	return gaps
}

// Differing returns the parts of a run of chunks of k, from first on, that are not stored with these
// checksums.
func (x *Index) Differing(k Key, first uint32, infos []ChunkInfo) (parts []codec.ChunkRange) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	id, ok := x.ids[k]
	for i := range infos {
		c := first + uint32(i)
		if ok {
			e, stored := x.objects[id].at(c)
			if stored && x.segments[e.segment].chunks[e.at].crc == infos[i].CRC {
				continue
			}
		}
		if n := len(parts) - 1; n >= 0 && parts[n].End == c {
			parts[n].End++
		} else {
			parts = append(parts, codec.ChunkRange{Start: c, End: c + 1})
		}
	}
	return parts
}

// Enter records chunks of k from first on, which are at offset off of s and the bytes behind
// it. refs is the number of objects that the journal has a name for; nil if there is no journal.
// Enter returns the reference of k, and whether the journal needs a name record for it.
func (x *Index) Enter(k Key, first uint32, s *Segment, off int64, infos []ChunkInfo, refs *uint32) (ref uint32, isNew bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	at := s.extend(off, infos)
	id := x.object(k)
	if o := &x.objects[id]; refs != nil {
		if o.ref == 0 {
			*refs++
			o.ref, isNew = *refs, true
		}
		ref = o.ref - 1
	}
	x.add(id, first, s, at, len(infos))
	return ref, isNew
}

// Drop forgets chunks of an object and returns their number.
func (x *Index) Drop(k Key, r codec.ChunkRange) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	id, ok := x.ids[k]
	if !ok {
		return 0
	}
	return x.cut(id, r)
}

// All returns the spans of every object. The lock is not held during an iteration step.
func (x *Index) All() iter.Seq2[Key, []Span] {
	return func(yield func(Key, []Span) bool) {
		for id := 0; ; id++ {
			k, spans, more := x.spansOf(id)
			if !more || len(spans) > 0 && !yield(k, spans) {
				return
			}
		}
	}
}

// spansOf returns the spans of the object at position id, and whether the table has one. It
// locks mu.
func (x *Index) spansOf(id int) (k Key, spans []Span, more bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if id >= len(x.objects) {
		return k, nil, false
	}
	o := &x.objects[id]
	for _, l := range o.leaves {
		for _, e := range l.extents {
			spans = x.join(spans, e)
		}
	}
	measure(spans)
	return o.key, spans, true
}

// object returns the position of an object, and adds the object if it is absent.
func (x *Index) object(k Key) uint32 {
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

// release forgets an object without chunks. During replay the references stay as they are;
// sweep releases the objects afterwards.
func (x *Index) release(id uint32) {
	o := &x.objects[id]
	if len(o.leaves) > 0 || x.replay {
		return
	}
	delete(x.ids, o.key)
	*o = object{}
	x.unused = append(x.unused, id)
}

// sweep ends the replay of a journal.
func (x *Index) sweep() {
	x.replay = false
	for id := range x.objects {
		if o := &x.objects[id]; len(o.leaves) == 0 {
			x.release(uint32(id))
		}
	}
}

// add records that n chunks of an object, from first on, are in s from position at of its
// table on. Their earlier place is forgotten.
func (x *Index) add(id uint32, first uint32, s *Segment, at uint32, n int) {
	e := extent{segment: s.Number, at: at, first: uint16(first), n: uint16(n)}
	x.own(id, s, e)
	x.place(id, e)
}

// own records that chunks of a segment belong to an object.
func (x *Index) own(id uint32, s *Segment, e extent) {
	s.owners = append(s.owners, owner{object: id, at: e.at, first: e.first, n: e.n})
	s.live += s.bytes(e.at, int(e.n))
	x.chunks += int(e.n)
}

// place puts an extent into the leaves of an object.
func (x *Index) place(id uint32, e extent) {
	for border := (uint32(e.first)/leafChunks + 1) * leafChunks; e.end() > border; border += leafChunks {
		x.addToLeaf(&x.objects[id], e.to(border))
		e = e.from(border)
	}
	x.addToLeaf(&x.objects[id], e)
}

func (x *Index) addToLeaf(o *object, e extent) {
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

// cut forgets chunks of an object and returns their number.
func (x *Index) cut(id uint32, r codec.ChunkRange) int {
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

// cutLeaf forgets the chunks start ≤ c < end of one leaf. The leaf may become empty.
func (x *Index) cutLeaf(l *leaf, start, end uint32) {
	i := l.find(start)
	j := i
	var rest [2]extent
	kept := rest[:0]
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

// alive calls yield for the chunks of a segment that can be found, in their order there.
func (x *Index) alive(s *Segment, yield func(id uint32, e extent)) {
	for _, w := range s.owners {
		o := &x.objects[w.object]
		end := uint32(w.first) + uint32(w.n)
		for c := uint32(w.first); c < end; {
			e, ok := o.at(c)
			if !ok || e.segment != s.Number || e.at != w.at+c-uint32(w.first) {
				c++
				continue
			}
			e = e.to(end)
			yield(w.object, e)
			c = e.end()
		}
	}
}

// XorbKey returns the key of the chunks of a xorb.
func XorbKey(h codec.Hash) Key { return Key{Kind: ChunkKind, Hash: h} }

// PageKey returns the key of an index page.
func PageKey(h [32]byte) Key { return Key{Kind: PageKind, Hash: h} }

// CheckInvariants compares the counts of the index with its content. Tests and fuzzing use it.
func (x *Index) CheckInvariants() error {
	chunks, live := 0, make(map[uint32]int64)
	for _, spans := range x.All() {
		for _, p := range spans {
			chunks += p.Chunks.Len()
			live[p.Segment.Number] += p.Size
		}
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	if chunks != x.chunks {
		return fmt.Errorf("%d chunks are counted, %d can be found", x.chunks, chunks)
	}
	for number, s := range x.segments {
		own := int64(0)
		x.alive(s, func(_ uint32, e extent) { own += s.bytes(e.at, int(e.n)) })
		if s.live != live[number] || s.live != own {
			return fmt.Errorf("segment %d: %d bytes are counted, %d are in the index, %d in its table", number, s.live, live[number], own)
		}
	}
	for k, id := range x.ids {
		if x.objects[id].key != k || len(x.objects[id].leaves) == 0 {
			return fmt.Errorf("object %d differs from its key", id)
		}
	}
	return nil
}
