package shard

import (
	"cmp"
	"fmt"
	"io"
	"math/bits"
	"slices"
	"sort"
	"sync"

	"github.com/xetfs/xetfs/codec"
)

// Entries of the lookup tables. All tables are sorted by key; equal keys stand in
// any order.
//
//	offset  size  field, for files and xorbs
//	     0     8  key: the first word of the hash
//	     8     4  record of the header, counted from the start of the section
//
//	offset  size  field, for chunks
//	     0     8  key: the first word of the chunk hash as stored
//	     8     4  record of the xorb's header
//	    12     4  index of the chunk in the xorb
const (
	lookupEntrySize = 12
	chunkEntrySize  = 16

	// window is how many entries a search reads at once. maxInterpolations is how often it
	// interpolates before it halves. Keys are hashes, so two interpolations usually suffice. A
	// hostile table can defeat them.
	window            = 128
	maxInterpolations = 6

	// maxEqual is how many different hashes may share a key. Honest hashes never do.
	maxEqual = 8
)

// A place is a block: the first word of its hash, and its offset in the shard.
type place struct {
	key uint64
	off int64
}

// A section finds its blocks by hash, through its table. Without a table, the first lookup builds
// an index.
type section struct {
	r          io.ReaderAt
	what       string // inFile or inXorb
	table      Table
	start, end int64 // of the section, bookend included
	walk       func(*records, int64) *walk

	mu    sync.Mutex
	built bool    // guarded by mu
	index []place // sorted by key, then offset; guarded by mu until built, then constant
}

// find returns the first block of hash h, its header just handed out, or nil.
func (s *section) find(h codec.Hash) (*records, []byte, error) {
	found, believe, err := s.candidates(h.Word(0))
	if err != nil {
		return nil, nil, err
	}
	for _, p := range found {
		rec, head, err := s.open(p, lookupBuffer)
		if err != nil {
			return nil, nil, err
		}
		if codec.Hash(head) == h {
			return rec, head, nil
		}
	}
	// An empty result is only valid if the neighbouring entries of the table are right.
	for _, p := range believe {
		if _, _, err := s.open(p, recordSize); err != nil {
			return nil, nil, err
		}
	}
	return nil, nil, nil
}

// open reads the header at p, which must be a block whose hash has p's key.
func (s *section) open(p place, buffer int) (*records, []byte, error) {
	if p.off >= s.end-recordSize {
		return nil, nil, s.astray("points to byte %d, behind the section", p.off)
	}
	rec := recordsAt(s.r, p.off, s.end, buffer)
	head, err := rec.need(s.what, recordSize)
	if err != nil {
		return nil, nil, err
	}
	if le.Uint64(head) != p.key || isBookend(head) {
		return nil, nil, s.astray("puts key %016x at byte %d, where no such block begins", p.key, p.off)
	}
	return rec, head, nil
}

// candidates returns the blocks with a key in the order of the shard. If none exists, it
// returns neighbours, which the caller must check first.
func (s *section) candidates(key uint64) (found, neighbours []place, err error) {
	if s.table.Count > 0 {
		return s.fromTable(key)
	}
	index, err := s.places()
	if err != nil {
		return nil, nil, err
	}
	i := sort.Search(len(index), func(i int) bool { return index[i].key >= key })
	end := i
	for end < len(index) && index[end].key == key {
		end++
	}
	return index[i:end], nil, nil
}

// places returns the index, which is made once. A failure is not kept: it may have
// been the reader's.
func (s *section) places() ([]place, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.built {
		return s.index, nil
	}
	index, err := s.walk(recordsAt(s.r, s.start, s.end, scanBuffer), s.end).places()
	if err != nil {
		return nil, err
	}
	slices.SortFunc(index, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.off, b.off))
	})
	s.index, s.built = index, true
	return index, nil
}

// fromTable searches the table.
func (s *section) fromTable(key uint64) (found, neighbours []place, err error) {
	at, err := s.search(key)
	if err != nil {
		return nil, nil, err
	}
	from := max(at, 1) - 1
	near, err := s.entries(make([]byte, 0, (maxEqual+2)*lookupEntrySize), from, min(at+maxEqual+1, s.table.Count))
	if err != nil {
		return nil, nil, err
	}
	for _, p := range near {
		if p.key == key {
			found = append(found, p)
		}
	}
	if len(found) == 0 {
		return nil, near[:min(2, len(near))], nil
	}
	if len(found) > maxEqual {
		return nil, nil, s.bad(at, "more than %d entries have key %016x", maxEqual, key)
	}
	slices.SortFunc(found, func(a, b place) int { return cmp.Compare(a.off, b.off) })
	return found, nil, nil
}

// search returns the position of the first entry whose key is key or larger.
func (s *section) search(key uint64) (uint64, error) {
	buf := make([]byte, 0, window*lookupEntrySize)
	lo, hi := uint64(0), s.table.Count // the answer is lo ≤ i ≤ hi
	loKey, hiKey := uint64(0), ^uint64(0)
	for round := 0; lo < hi; round++ {
		from := guess(lo, hi, loKey, hiKey, key, round < maxInterpolations)
		p, err := s.keys(buf, from, min(from+window, hi), loKey, hiKey)
		if err != nil {
			return 0, err
		}
		last := p.at(p.n - 1)
		switch {
		case p.at(0) >= key:
			hi, hiKey = from, p.at(0)
		case last < key:
			lo, loKey = from+uint64(p.n), last
		default:
			return from + uint64(sort.Search(p.n, func(i int) bool { return p.at(i) >= key })), nil
		}
	}
	return lo, nil
}

// guess returns the start of the next window. It assumes that the keys between lo and hi are
// evenly spread, or takes the middle.
func guess(lo, hi, loKey, hiKey, key uint64, interpolate bool) uint64 {
	n := hi - lo
	if n <= window {
		return lo
	}
	mid := n / 2
	if width := hiKey - loKey; interpolate && width > 0 && key-loKey < width {
		h, l := bits.Mul64(n, key-loKey)
		mid, _ = bits.Div64(h, l, width)
	}
	return lo + min(max(mid, window/2)-window/2, n-window)
}

// A keyWindow is consecutive entries of a table, still encoded.
type keyWindow struct {
	b []byte
	n int
}

func (w keyWindow) at(i int) uint64 { return le.Uint64(w.b[i*lookupEntrySize:]) }

// keys reads the entries from ≤ i < to, whose keys must ascend between loKey and hiKey.
func (s *section) keys(buf []byte, from, to, loKey, hiKey uint64) (keyWindow, error) {
	b, err := s.readTable(buf, from, to)
	if err != nil {
		return keyWindow{}, err
	}
	w := keyWindow{b, int(to - from)}
	for i := range w.n {
		k := w.at(i)
		if k < loKey || k > hiKey {
			return keyWindow{}, s.bad(from+uint64(i), "key %016x is out of order", k)
		}
		if e := i * lookupEntrySize; i > 0 && k == loKey && le.Uint32(b[e+8:]) == le.Uint32(b[e-4:]) {
			return keyWindow{}, s.bad(from+uint64(i), "repeats the entry before it")
		}
		loKey = k
	}
	return w, nil
}

// entries decodes the entries from ≤ i < to.
func (s *section) entries(buf []byte, from, to uint64) ([]place, error) {
	b, err := s.readTable(buf, from, to)
	if err != nil {
		return nil, err
	}
	p := make([]place, 0, to-from)
	for ; len(b) > 0; b = b[lookupEntrySize:] {
		p = append(p, s.entry(b))
	}
	return p, nil
}

func (s *section) entry(b []byte) place {
	return place{key: le.Uint64(b), off: s.start + int64(le.Uint32(b[8:]))*recordSize}
}

// readTable reads the entries from ≤ i < to into buf.
func (s *section) readTable(buf []byte, from, to uint64) ([]byte, error) {
	b := buf[:(to-from)*lookupEntrySize]
	off := int64(s.table.Offset + from*lookupEntrySize)
	if n, err := s.r.ReadAt(b, off); n < len(b) {
		return nil, shortRead(s.tableName(), off, n, len(b), err)
	}
	return b, nil
}

func (s *section) tableName() string {
	if s.what == inFile {
		return "file lookup table"
	}
	return "CAS lookup table"
}

// astray is the error about an entry that points to a wrong place.
func (s *section) astray(format string, args ...any) error {
	return codec.Corrupt(s.tableName(), int64(s.table.Offset), format, args...)
}

// bad is the error about entry i of the table.
func (s *section) bad(i uint64, format string, args ...any) error {
	return codec.Corrupt(s.tableName(), int64(s.table.Offset+i*lookupEntrySize),
		"entry %d: %s", i, fmt.Sprintf(format, args...))
}
