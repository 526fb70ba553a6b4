package page

import (
	"bytes"
	"fmt"
	"iter"
	"math"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/xetfs/xetfs/codec"
)

// Limits of the format.
const (
	MaxSize  = 2 << 20 // bytes of a page
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
	last   []byte // key; known once the rows are checked

	// checked has a bit for each link whose page CheckChild found good. Bits are only
	// ever set, and what they say follows from the bytes of the two pages.
	checked []atomic.Uint32

	identify sync.Once
	identity Identity // once identify is done
}

// Decode checks everything about the page b that needs no other page: lengths, counts, keys and
// their order, restart points, values, sums. The Page uses b, which must not change any more.
// Every error is a codec.ErrCorrupt.
//
// DecodeAs and CheckChild compare b with the page that the caller wanted.
func Decode(b []byte) (*Page, error) {
	p, err := split(b)
	if err != nil {
		return nil, err
	}
	if p.level > 0 {
		p.checked = make([]atomic.Uint32, (p.rows+31)/32)
	}
	return p, p.check()
}

// DecodeAs is Decode for bytes from an untrusted place. It compares them with the hash h.
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

// Seek returns the first row whose key is not below key; Len if all are below. In a higher page
// this row links to the page below that may have the key.
func (p *Page) Seek(key string) (row int) {
	row, _ = p.Find(key)
	return row
}

// Find is Seek, and reports whether the row has this very key.
func (p *Page) Find(key string) (row int, ok bool) {
	var buf [keyBuffer]byte
	return p.FindBytes(append(buf[:0], key...))
}

// FindBytes is Find for a key that AppendKey made.
func (p *Page) FindBytes(key []byte) (row int, ok bool) {
	row, _, ok = p.find(key)
	return row, ok
}

// FindEntry returns the entry of a leaf with this key, if there is one.
func (p *Page) FindEntry(key []byte) (e Entry, ok bool) {
	_, b, ok := p.find(key)
	if !ok || p.level != 0 {
		return e, false
	}
	p.readEntry(&e, pathOf(key), b)
	return e, true
}

// FindLink returns the row of a higher page with the page below where a key belongs, and
// the hash of that. It is not ok if all pages below end before the key.
func (p *Page) FindLink(key []byte) (row int, child Hash, ok bool) {
	row, b, _ := p.find(key)
	if row == p.rows || p.level == 0 {
		return row, Hash{}, false
	}
	return row, Hash(b), true
}

// find returns the first row whose key is not below key, its value, and whether it has
// this very key.
func (p *Page) find(key []byte) (row int, value []byte, exact bool) {
	block := sort.Search(p.header.points, func(i int) bool { return bytes.Compare(p.restartKey(i), key) >= 0 })
	if block == 0 {
		if p.rows == 0 {
			return 0, nil, false
		}
		r, _ := p.row(p.point(0)) // Decode has seen that rows are good
		return 0, r.value, bytes.Equal(r.rest, key)
	}
	off, matched := p.point(block-1), 0 // bytes that the row before has in common with key
	for row = (block - 1) * p.restart; row < p.rows; row++ {
		r, _ := p.row(off)
		off = r.end
		switch {
		case row == block*p.restart:
			return row, r.value, bytes.Equal(r.rest, key)
		case r.shared > matched:
			continue // below key where the row before is
		case r.shared < matched:
			return row, r.value, false // above the row before where that is equal to key
		}
		if order := bytes.Compare(r.rest, key[matched:]); order >= 0 {
			return row, r.value, order == 0
		}
		matched += common(r.rest, key[matched:])
	}
	return p.rows, nil, false
}

// Entry returns an entry of a leaf. The entry shares no memory with the page.
func (p *Page) Entry(row int) (e Entry, err error) {
	if p.level != 0 || row < 0 || row >= p.rows {
		return Entry{}, fmt.Errorf("page of level %d with %d rows: no entry %d", p.level, p.rows, row)
	}
	var buf [keyBuffer]byte
	key, b, _ := p.rowAt(buf[:0], row)
	p.readEntry(&e, pathOf(key), b)
	return e, nil
}

// Link returns a link of a higher page.
func (p *Page) Link(row int) (Link, error) {
	if p.level == 0 || row < 0 || row >= p.rows {
		return Link{}, fmt.Errorf("page of level %d with %d rows: no link %d", p.level, p.rows, row)
	}
	var buf [keyBuffer]byte
	key, b, _ := p.rowAt(buf[:0], row)
	return linkOf(key, b), nil
}

// Child returns the hash of a page below, as the link of that row has it. It panics if
// there is no such row, or the page is a leaf.
func (p *Page) Child(row int) Hash {
	if p.level == 0 {
		panic("page: a leaf has no pages below it")
	}
	return Hash(p.valueAt(row))
}

// Last returns the last key; "" in a page without rows.
func (p *Page) Last() string { return string(p.last) }

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

// CheckChild compares a page with its link: level, size, keys and counts. After Decode of both,
// and DecodeAs with the hash of the link, a reader can trust the page. No pages can form a
// circle. Errors are codec.ErrCorrupt.
//
// A good result is remembered: a page with the hash of the link never changes.
func (p *Page) CheckChild(row int, child *Page) error {
	switch {
	case p.level == 0 || row < 0 || row >= p.rows:
		return fmt.Errorf("page of level %d with %d rows: no link %d", p.level, p.rows, row)
	case child.level != p.level-1:
		return bad(8, "level %d below level %d", child.level, p.level)
	case p.checked[row/32].Load()&(1<<(row%32)) != 0:
		return nil
	case child.rows == 0:
		return bad(12, "a page without rows below another")
	}
	var buf [keyBuffer]byte
	if row > 0 {
		before, _, _ := p.rowAt(buf[:0], row-1)
		if first := child.restartKey(0); bytes.Compare(first, before) <= 0 {
			return bad(headerSize, "first key %.80q is not above %.80q, the last key of the page before", string(first), string(before))
		}
	}
	last, b, _ := p.rowAt(buf[:0], row)
	if err := child.checkLink(last, b); err != nil {
		return err
	}
	p.checked[row/32].Or(1 << (row % 32))
	return nil
}

// ProveChild is CheckChild, and compares the identity of the page with its link. A reader that
// trusts the identity of p, and nothing else, can then trust the page except for the places of
// its files.
func (p *Page) ProveChild(row int, child *Page) error {
	if err := p.CheckChild(row, child); err != nil {
		return err
	}
	return child.CheckIdentity(identityIn(p.valueAt(row)))
}

// CheckIdentity compares the identity of p with the one that a link, a row or a user has. The
// error is codec.ErrCorrupt.
func (p *Page) CheckIdentity(want Identity) error {
	if got := p.Identity(); got != want {
		return bad(0, "its identity is %v, want %v", got, want)
	}
	return nil
}

// checkLink holds p against the link to it, which is a row that Decode found good.
func (p *Page) checkLink(key, b []byte) error {
	l, _ := decodeLink(b, 0)
	switch {
	case len(p.b) != l.Size:
		return bad(0, "a page of %d bytes, its link says %d", len(p.b), l.Size)
	case p.header.entries != l.Entries:
		return bad(16, "%d entries, its link says %d", p.header.entries, l.Entries)
	case p.header.bytes != l.Bytes:
		return bad(24, "files of %d bytes, its link says %d", p.header.bytes, l.Bytes)
	case !bytes.Equal(p.last, key):
		return bad(int64(p.bodyStart()), "last key %.80q, its link says %.80q", string(p.last), string(key))
	}
	return nil
}

// add returns the sum of two counts of a page, and whether it is below 2^63.
func add(a, b int64) (int64, bool) { return a + b, a <= math.MaxInt64-b }

func bad(offset int64, format string, args ...any) error {
	return codec.Corrupt("page", offset, format, args...)
}
