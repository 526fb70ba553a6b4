package page

import (
	"bytes"
	"fmt"
	"iter"
	"math"
	"sort"

	"github.com/xetfs/xetfs/codec"
)

// Limits of the format.
const (
	MaxSize  = 1 << 20 // bytes of a page
	MaxLevel = 5       // of the root, so that a tree is at most six pages deep
)

// A Page is a decoded index page: sorted rows of entries or of links. It is safe for
// concurrent use.
type Page struct {
	header
	b      []byte // the whole page
	shards []byte
	body   []byte
	points []byte
}

// Decode checks the page b in every way that does not need another page: lengths,
// counts, keys and their order, restart points, values, sums. The Page uses b, which
// must not change from now on. Every error is a codec.ErrCorrupt.
//
// Whether b is the page that was asked for is for DecodeAs and CheckChild to say.
func Decode(b []byte) (*Page, error) {
	p, err := split(b)
	if err != nil {
		return nil, err
	}
	return p, p.check()
}

// DecodeAs is Decode for bytes that somebody gave for the page h.
func DecodeAs(h Hash, b []byte) (*Page, error) {
	if len(b) > MaxSize {
		return nil, bad(MaxSize, "a page of %d bytes, at most %d are allowed", len(b), MaxSize)
	}
	if got := Sum(b); got != h {
		return nil, bad(0, "its hash is %v, want %v", got, h)
	}
	return Decode(b)
}

// split finds the parts of a page.
func split(b []byte) (*Page, error) {
	h, err := decodeHeader(b)
	if err != nil {
		return nil, err
	}
	body := headerSize + hashSize*h.shards
	points := body + h.body
	return &Page{header: h, b: b, shards: b[headerSize:body], body: b[body:points], points: b[points:]}, nil
}

// Level returns 0 for a leaf, and one more for each level above.
func (p *Page) Level() int { return p.level }

// Len returns the number of rows.
func (p *Page) Len() int { return p.rows }

// Below returns how many entries are in the tree below the page, and the sum of the
// sizes of their files.
func (p *Page) Below() (entries, bytes int64) { return p.header.entries, p.header.bytes }

// Encoded returns the bytes of the page. They must not be changed.
func (p *Page) Encoded() []byte { return p.b }

// Seek returns the first row whose key is not below key, or Len if there is none. In a
// higher page that is the row of the page below where key belongs.
func (p *Page) Seek(key string) (row int) {
	row, _ = p.seek(key)
	return row
}

// Find returns the row of a key, and whether there is one.
func (p *Page) Find(key string) (row int, ok bool) { return p.seek(key) }

func (p *Page) seek(key string) (row int, exact bool) {
	block := sort.Search(p.header.points, func(i int) bool { return string(p.restartKey(i)) >= key })
	if block == 0 {
		return 0, p.rows > 0 && string(p.restartKey(0)) == key
	}
	off, matched := p.point(block-1), 0 // bytes that the row before has in common with key
	for row = (block - 1) * p.restart; row < p.rows; row++ {
		r, err := p.row(off)
		if err != nil {
			break // Decode has seen that this is not so
		}
		off = r.end
		switch {
		case row == block*p.restart:
			return row, string(r.rest) == key
		case r.shared > matched:
			continue // below key where the row before is
		case r.shared < matched:
			return row, false // above the row before where that is equal to key
		}
		if string(r.rest) >= key[matched:] {
			return row, string(r.rest) == key[matched:]
		}
		matched += common(r.rest, key[matched:])
	}
	return p.rows, false
}

// Entry returns an entry of a leaf. What it says shares no memory with the page.
func (p *Page) Entry(row int) (Entry, error) {
	if p.level != 0 || row < 0 || row >= p.rows {
		return Entry{}, fmt.Errorf("page of level %d with %d rows: no entry %d", p.level, p.rows, row)
	}
	c := p.at(row)
	return c.entry(), nil
}

// Link returns a link of a higher page.
func (p *Page) Link(row int) (Link, error) {
	if p.level == 0 || row < 0 || row >= p.rows {
		return Link{}, fmt.Errorf("page of level %d with %d rows: no link %d", p.level, p.rows, row)
	}
	c := p.at(row)
	return c.link(), nil
}

// EntriesFrom yields the entries of a leaf from a row on, which costs less than asking
// for each.
func (p *Page) EntriesFrom(row int) iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		if p.level != 0 || row < 0 || row >= p.rows {
			return
		}
		for c := p.at(row); c.row < p.rows && yield(c.entry()); c.next() {
		}
	}
}

// LinksFrom yields the links of a higher page from a row on.
func (p *Page) LinksFrom(row int) iter.Seq[Link] {
	return func(yield func(Link) bool) {
		if p.level == 0 || row < 0 || row >= p.rows {
			return
		}
		for c := p.at(row); c.row < p.rows && yield(c.link()); c.next() {
		}
	}
}

// CheckChild holds the page that a link leads to against the link: its level, size,
// keys and counts. After Decode of both, and DecodeAs with the link's hash, a reader
// may believe what it sees, and cannot be led in circles. Errors are codec.ErrCorrupt.
func (p *Page) CheckChild(row int, child *Page) error {
	l, err := p.Link(row)
	if err != nil {
		return err
	}
	switch {
	case child.level != p.level-1:
		return bad(8, "level %d below level %d", child.level, p.level)
	case len(child.b) != l.Size:
		return bad(0, "a page of %d bytes, its link says %d", len(child.b), l.Size)
	case child.header.entries != l.Entries:
		return bad(16, "%d entries, its link says %d", child.header.entries, l.Entries)
	case child.header.bytes != l.Bytes:
		return bad(24, "files of %d bytes, its link says %d", child.header.bytes, l.Bytes)
	case child.rows == 0:
		return bad(12, "a page without rows below another")
	}
	if last := child.at(child.rows - 1); string(last.key) != l.Last {
		return bad(int64(last.off), "last key %.80q, its link says %.80q", last.key, l.Last)
	}
	if row == 0 {
		return nil
	}
	before := p.at(row - 1)
	if first := child.restartKey(0); bytes.Compare(first, before.key) <= 0 {
		return bad(headerSize, "first key %.80q is not above %.80q, the last key of the page before", first, before.key)
	}
	return nil
}

// add returns the sum of two counts of a page, and whether it is below 2^63.
func add(a, b int64) (int64, bool) { return a + b, a <= math.MaxInt64-b }

func bad(offset int64, format string, args ...any) error {
	return codec.Corrupt("page", offset, format, args...)
}
