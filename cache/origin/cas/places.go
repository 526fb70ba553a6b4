package cas

import (
	"context"
	"encoding/binary"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/xetfs/xetfs/cache/flight"
	"github.com/xetfs/xetfs/cache/lru"
	"github.com/xetfs/xetfs/cache/origin/metacache"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/xorb"
)

// kindStarts is the kind of values with the starts of chunks in a xorb.
const kindStarts = "starts of chunks of a xorb"

// storePlaces is how long new places stay in memory only.
const storePlaces = 2 * time.Second

// places are what plans and chunk headers have shown of xorbs: where chunks begin, and how long
// they are. Places prove nothing. Wrong ones lead to chunks with wrong hashes, and Reject drops
// them.
type places struct {
	meta *metacache.Cache

	storing sync.Mutex // held while values are stored or dropped; locked before mu

	mu    sync.Mutex
	xorbs *lru.Cache[codec.Hash, *xorbPlaces] // guarded by mu
	dirty map[codec.Hash]*xorbPlaces          // not stored yet; guarded by mu
	timer *time.Timer                         // nil: nothing is dirty; guarded by mu
}

// xorbPlaces are the known places of one xorb.
type xorbPlaces struct {
	starts []uint32          // 1 + the first byte of a chunk; 0: unknown. The end of a chunk is the start of the next
	sizes  []uint32          // unpacked, with provenBit; 0: unknown
	marks  map[uint32][]mark // by the first chunk of a term; in order
}

// provenBit is set in a size that is proven.
const provenBit = 1 << 31

// A mark is the place of a chunk in the unpacked bytes of a term.
type mark struct{ chunk, off uint32 }

func (m mark) offset() int64 { return int64(m.off) }

// maxMarks bounds the marks of one term.
const maxMarks = codec.MaxXorbChunks

func (ps *places) init(meta *metacache.Cache, maxBytes int64) {
	ps.meta, ps.dirty = meta, map[codec.Hash]*xorbPlaces{}
	ps.xorbs = lru.New[codec.Hash, *xorbPlaces](maxBytes, nil)
}

// ofLocked returns the places of a xorb. The caller may change them, and then calls changedLocked, or
// resizedLocked if no start has changed.
func (ps *places) ofLocked(x codec.Hash) *xorbPlaces {
	if xp, ok := ps.xorbs.Get(x); ok {
		return xp
	}
	xp, ok := ps.dirty[x]
	if !ok {
		xp = &xorbPlaces{marks: map[uint32][]mark{}}
		if b, ok := ps.meta.Value(context.Background(), kindStarts, x[:]); ok {
			xp.decode(b)
		}
	}
	return ps.xorbs.Add(x, xp, xp.bytes())
}

// resizedLocked counts the memory of new places of a xorb.
func (ps *places) resizedLocked(x codec.Hash, xp *xorbPlaces) {
	ps.xorbs.Remove(x)
	ps.xorbs.Add(x, xp, xp.bytes())
}

// changedLocked is resizedLocked that also stores the starts of the xorb soon.
func (ps *places) changedLocked(x codec.Hash, xp *xorbPlaces) {
	ps.resizedLocked(x, xp)
	ps.dirty[x] = xp
	if ps.timer == nil {
		ps.timer = time.AfterFunc(storePlaces, ps.store)
	}
}

// store stores the new places in the disk cache.
func (ps *places) store() {
	var err error
	defer flight.Guard(&err)
	ps.storing.Lock()
	defer ps.storing.Unlock()
	ps.mu.Lock()
	values := make(map[codec.Hash][]byte, len(ps.dirty))
	for x, xp := range ps.dirty {
		values[x] = xp.encode()
	}
	ps.dirty, ps.timer = map[codec.Hash]*xorbPlaces{}, nil
	ps.mu.Unlock()
	for x, b := range values {
		ps.meta.PutValue(kindStarts, x[:], b)
	}
}

// close stores the new places.
func (ps *places) close() {
	ps.mu.Lock()
	if ps.timer != nil {
		ps.timer.Stop()
	}
	ps.mu.Unlock()
	ps.store()
}

// drop drops the places of a xorb. It waits for store, which would bring them back.
func (ps *places) drop(x codec.Hash) {
	ps.storing.Lock()
	defer ps.storing.Unlock()
	ps.mu.Lock()
	ps.xorbs.Remove(x)
	delete(ps.dirty, x)
	ps.mu.Unlock()
	ps.meta.DropValue(kindStarts, x[:])
}

// learnRanges learns the ends of signed ranges.
func (ps *places) learnRanges(x codec.Hash, all []signedRange) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	xp, changed := ps.ofLocked(x), false
	for _, s := range all {
		a := xp.setStart(s.Chunks.Start, s.Start)
		b := xp.setStart(s.Chunks.End, s.End)
		changed = changed || a || b
	}
	if changed {
		ps.changedLocked(x, xp)
	}
}

// learnChunks learns the places of consecutive chunks by their headers. The first one begins at a
// byte of its xorb.
func (ps *places) learnChunks(x codec.Hash, first uint32, start int64, headers []xorb.ChunkHeader) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	xp := ps.ofLocked(x)
	changed := xp.setStart(first, start)
	for i, h := range headers {
		chunk := first + uint32(i)
		start += xorb.ChunkHeaderSize + int64(h.Packed)
		a, b := xp.setSize(chunk, uint32(h.Unpacked)), xp.setStart(chunk+1, start)
		changed = changed || a || b
	}
	if changed {
		ps.changedLocked(x, xp)
	}
}

// confirm replaces the sizes of consecutive chunks by proven ones. Marks of their terms may be wrong,
// too. Their place follows from the sizes.
func (ps *places) confirm(x codec.Hash, first uint32, leaves []merkle.Leaf) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	xp := ps.ofLocked(x)
	for i, leaf := range leaves {
		if chunk := first + uint32(i); chunk < codec.MaxXorbChunks {
			delete(xp.marks, chunk)
			xp.confirm(chunk, int64(leaf.Size))
		}
	}
	ps.resizedLocked(x, xp)
}

// confirm sets the proven size of a chunk; 0: it is not proven any more.
func (xp *xorbPlaces) confirm(i uint32, size int64) {
	xp.sizes = grow(xp.sizes, int(i)+1)
	if xp.sizes[i] = uint32(size); size > 0 {
		xp.sizes[i] |= provenBit
	}
}

// learnTerm learns the place of chunk r.Start in a term, and of r.End behind size bytes.
func (ps *places) learnTerm(t codec.Term, r codec.ChunkRange, off, size int64) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	xp := ps.ofLocked(t.Xorb)
	a := xp.setMark(t.Chunks.Start, mark{r.Start, uint32(off)})
	b := xp.setMark(t.Chunks.Start, mark{r.End, uint32(off + size)})
	if a || b {
		ps.resizedLocked(t.Xorb, xp)
	}
}

// setStart sets where a chunk begins, and reports whether that is new.
func (xp *xorbPlaces) setStart(i uint32, at int64) bool { return xp.set(&xp.starts, i, uint32(at)+1) }

// setSize sets the size of a chunk, unless it is proven, and reports whether that is new.
func (xp *xorbPlaces) setSize(i, size uint32) bool {
	return xp.provenSize(i) == 0 && xp.set(&xp.sizes, i, size)
}

// set sets an element of starts or sizes, and reports whether that is new. A contradiction shows
// that earlier places were wrong: it drops all.
func (xp *xorbPlaces) set(list *[]uint32, i, v uint32) bool {
	*list = grow(*list, int(i)+1)
	if (*list)[i] == v {
		return false
	}
	if (*list)[i] != 0 {
		xp.clear()
		*list = grow(*list, int(i)+1)
	}
	(*list)[i] = v
	return true
}

func (xp *xorbPlaces) clear() { xp.starts, xp.sizes, xp.marks = nil, nil, map[uint32][]mark{} }

// setMark sets the place of a chunk in the term from a chunk on. A contradiction drops the marks
// of the term.
func (xp *xorbPlaces) setMark(term uint32, m mark) bool {
	all := xp.marks[term]
	i := sort.Search(len(all), func(i int) bool { return all[i].chunk >= m.chunk })
	if i < len(all) && all[i] == m {
		return false
	}
	isWrong := i < len(all) && (all[i].chunk == m.chunk || all[i].off <= m.off) || i > 0 && all[i-1].off >= m.off
	switch {
	case isWrong:
		xp.marks[term] = []mark{m}
	case len(all) >= maxMarks:
		return false
	default:
		xp.marks[term] = slices.Insert(all, i, m)
		xp.learnSizes(xp.marks[term][max(0, i-1):min(len(all)+1, i+2)])
	}
	return true
}

// learnSizes learns the sizes of chunks that have a mark and are followed by one. The chunk at the
// border of two plans has two such marks before it arrives.
func (xp *xorbPlaces) learnSizes(marks []mark) {
	for i := 1; i < len(marks); i++ {
		from, to := marks[i-1], marks[i]
		if n := to.off - from.off; to.chunk == from.chunk+1 && n <= codec.MaxChunkSize {
			xp.setSize(from.chunk, n)
		}
	}
}

// grow returns s with at least n elements.
func grow(s []uint32, n int) []uint32 {
	if n > len(s) {
		s = append(s, make([]uint32, n-len(s))...)
	}
	return s
}

func (xp *xorbPlaces) bytes() int64 {
	n := 256 + 4*int64(cap(xp.starts)+cap(xp.sizes))
	for _, all := range xp.marks {
		n += 64 + 8*int64(cap(all))
	}
	return n
}

func (xp *xorbPlaces) start(i uint32) (int64, bool) {
	if int(i) >= len(xp.starts) || xp.starts[i] == 0 {
		return 0, false
	}
	return int64(xp.starts[i] - 1), true
}

func (xp *xorbPlaces) size(i uint32) int64 {
	if int(i) >= len(xp.sizes) {
		return 0
	}
	return int64(xp.sizes[i] &^ provenBit)
}

func (xp *xorbPlaces) provenSize(i uint32) int64 {
	if int(i) >= len(xp.sizes) || xp.sizes[i]&provenBit == 0 {
		return 0
	}
	return xp.size(i)
}

// span returns the bytes of chunks r of xorb x, if they are known.
func (ps *places) span(x codec.Hash, r codec.ChunkRange) (start, end int64, ok bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	xp := ps.ofLocked(x)
	start, ok = xp.start(r.Start)
	end, ok2 := xp.start(r.End)
	return start, end, ok && ok2 && end-start >= int64(leastChunk*r.Len())
}

// around returns the smallest known range of chunks in a signed range that has all of r.
func (ps *places) around(x codec.Hash, r codec.ChunkRange, in FetchRange) FetchRange {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	xp, out := ps.ofLocked(x), in
	for i := r.Start; i > in.Chunks.Start; i-- {
		if at, ok := xp.start(i); ok {
			out.Chunks.Start, out.Start = i, at
			break
		}
	}
	for i := r.End; i < in.Chunks.End; i++ {
		if at, ok := xp.start(i); ok {
			out.Chunks.End, out.End = i, at
			break
		}
	}
	if out.Start < in.Start || out.End > in.End || out.Start >= out.End || out.problem() != "" {
		return in
	}
	return out
}

// narrow returns the chunks of a term that have n bytes from off on, and the bytes to skip, if
// the lengths are known. sizes returns proven lengths, or 0. A term that ends too early is
// codec.ErrCorrupt.
func (ps *places) narrow(t codec.Term, off, n int64, sizes func(i uint32) int64) (r codec.ChunkRange, skip int64, ok bool, err error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	xp := ps.ofLocked(t.Xorb)
	m := xp.before(t, off)
	size := func(i uint32) int64 {
		if s := xp.provenSize(i); s > 0 {
			return s
		}
		if s := sizes(i); s > 0 {
			was := cap(xp.sizes)
			if xp.confirm(i, s); cap(xp.sizes) != was {
				ps.resizedLocked(t.Xorb, xp)
			}
			return s
		}
		return xp.size(i)
	}
	i, at, from := m.chunk, int64(m.off), m.chunk
	for s := size(i); at+s <= off; s = size(i) {
		if s == 0 {
			return r, 0, false, nil
		}
		if i, at = i+1, at+s; i == t.Chunks.End {
			return r, 0, false, short(t, at)
		}
	}
	r.Start, skip = i, off-at
	for at < off+n {
		if i == t.Chunks.End {
			return r, 0, false, short(t, at)
		}
		s := size(i)
		if i, at = i+1, at+s; s == 0 {
			return r, 0, false, nil
		}
	}
	if r.End = i; r.Start-from > markEach && xp.setMark(t.Chunks.Start, mark{r.Start, uint32(off - skip)}) {
		ps.resizedLocked(t.Xorb, xp)
	}
	return r, skip, true, nil
}

// markEach is the number of chunks after which a walk leaves a mark for the next one.
const markEach = 32

// short is the error of a term whose chunks have fewer bytes.
func short(t codec.Term, size int64) error {
	return codec.Corrupt("term", 0, "says that chunks %v are %d bytes, they are %d", t.Chunks, t.Size, size)
}

// before returns the last mark of a term at or before an offset.
func (xp *xorbPlaces) before(t codec.Term, off int64) mark {
	all := xp.marks[t.Chunks.Start]
	i := countUpTo(all, off, mark.offset)
	if i == 0 || all[i-1].chunk >= t.Chunks.End {
		return mark{chunk: t.Chunks.Start}
	}
	return all[i-1]
}

// An estimate is the place of unpacked bytes of a term, in the packed bytes of its xorb.
type estimate struct {
	low, high mark    // the nearest marks with known bytes
	from, to  int64   // bytes of the xorb between the marks
	exact     bool    // from is the place of the first mark, else about
	at        int64   // the estimated byte of the offset
	each      float64 // packed bytes per unpacked byte
}

// estimate estimates where an offset of a term is, in a signed range that has all its chunks.
func (ps *places) estimate(t codec.Term, off int64, in FetchRange) estimate {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	xp := ps.ofLocked(t.Xorb)
	e := estimate{low: mark{chunk: t.Chunks.Start}, high: mark{t.Chunks.End, t.Size}, from: in.Start, to: in.End}
	if e.from, e.exact = xp.start(t.Chunks.Start); !e.exact {
		e.from = in.Start + in.need(int(t.Chunks.Start-in.Chunks.Start))
	}
	var ok bool
	if e.to, ok = xp.start(t.Chunks.End); !ok {
		e.to = in.End - in.need(int(in.Chunks.End-t.Chunks.End))
	}
	all := xp.marks[t.Chunks.Start]
	i := countUpTo(all, off, mark.offset)
	for j := i - 1; j >= 0; j-- {
		if at, ok := xp.start(all[j].chunk); ok && all[j].chunk >= t.Chunks.Start {
			e.low, e.from, e.exact = all[j], at, true
			break
		}
	}
	for j := i; j < len(all); j++ {
		if at, ok := xp.start(all[j].chunk); ok && all[j].chunk <= t.Chunks.End {
			e.high, e.to = all[j], at
			break
		}
	}
	if e.exact {
		e.low, e.from = xp.walk(t, e.low, e.from, off)
	}
	e.each = float64(e.to-e.from) / float64(max(1, e.high.off-e.low.off))
	e.at = e.from + int64(float64(off-int64(e.low.off))*e.each)
	return e
}

// about returns where chunks r are in the unpacked bytes of a term that has them. Unless the lengths are
// known, the range is larger than it probably has to be.
func (ps *places) about(t codec.Term, r codec.ChunkRange) (off, n int64, isExact bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	xp := ps.ofLocked(t.Xorb)
	low, high := mark{chunk: t.Chunks.Start}, mark{t.Chunks.End, t.Size}
	for _, m := range xp.marks[t.Chunks.Start] {
		switch {
		case m.chunk <= r.Start:
			low = m
		case m.chunk >= r.End && m.chunk < high.chunk:
			high = m
		}
	}
	for ; low.chunk < r.Start && xp.size(low.chunk) > 0; low.chunk++ {
		low.off += uint32(xp.size(low.chunk))
	}
	end := low
	for ; low.chunk == r.Start && end.chunk < r.End && xp.size(end.chunk) > 0; end.chunk++ {
		end.off += uint32(xp.size(end.chunk))
	}
	if high.off <= low.off || end.off > t.Size { // wrong lengths
		low, high, end = mark{chunk: t.Chunks.Start}, mark{t.Chunks.End, t.Size}, mark{chunk: t.Chunks.Start}
	}
	if end.chunk == r.End {
		return int64(low.off), int64(end.off - low.off), true
	}
	each := float64(high.off-low.off) / float64(high.chunk-low.chunk)
	slack := each*float64(r.Len())/4 + codec.MaxChunkSize
	from := max(int64(low.off), int64(float64(low.off)+each*float64(r.Start-low.chunk)-slack))
	to := min(int64(high.off), int64(float64(low.off)+each*float64(r.End-low.chunk)+slack))
	return from, to - from, false
}

// walk moves a mark over known chunks as far as the offset.
func (xp *xorbPlaces) walk(t codec.Term, m mark, at, off int64) (mark, int64) {
	for m.chunk < t.Chunks.End {
		size := xp.size(m.chunk)
		next, ok := xp.start(m.chunk + 1)
		if size == 0 || !ok || int64(m.off)+size > off {
			break
		}
		m, at = mark{m.chunk + 1, m.off + uint32(size)}, next
	}
	return m, at
}

// encode encodes the starts for the disk cache, 4 bytes each. Sizes and marks are not stored: a later
// process would read other bytes by wrong ones. It has the sizes of proven chunks with their hashes.
func (xp *xorbPlaces) encode() (b []byte) {
	for _, v := range xp.starts {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return b
}

// decode is the inverse of encode. It ignores a value that cannot be.
func (xp *xorbPlaces) decode(b []byte) {
	if len(b)%4 != 0 || len(b) > 4*(codec.MaxXorbChunks+1) {
		return
	}
	for ; len(b) > 0; b = b[4:] {
		xp.starts = append(xp.starts, binary.LittleEndian.Uint32(b))
	}
}
