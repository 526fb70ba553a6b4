package page

import (
	"bytes"
	"encoding/binary"
)

// minRow is the length of the shortest row: three varints, and a value of three.
const minRow = 6

// A row is one encoded row of the body.
type row struct {
	shared int // bytes of the key before that belong to this key too
	rest   []byte
	value  []byte
	at     int // offset of value in the body
	end    int // offset of the next row
}

// row returns the row at an offset of the body.
func (p *Page) row(off int) (row, error) {
	if b := p.body[off:]; len(b) > 2 && b[0]|b[1] < 0x80 {
		// Lengths of one byte, as nearly all are.
		at := 2 + int(b[1])
		if at < len(b) && b[at] < 0x80 {
			if end := at + 1 + int(b[at]); end <= len(b) {
				return row{int(b[0]), b[2:at:at], b[at+1 : end : end], off + at + 1, off + end}, nil
			}
		}
	}
	return p.slowRow(off)
}

func (p *Page) slowRow(off int) (row, error) {
	f := fields{b: p.body, at: off, start: p.bodyStart()}
	r := row{shared: int(f.limited(MaxSize, "shared bytes"))}
	r.rest = f.bytes("key", f.uvarint("length of a key"))
	n := f.uvarint("length of a value")
	r.at = f.at
	r.value = f.bytes("value", n)
	r.end = f.at
	return r, f.err
}

func (p *Page) bodyStart() int { return len(p.b) - len(p.points) - len(p.body) }

// point returns the i-th restart point.
func (p *Page) point(i int) int {
	return int(binary.LittleEndian.Uint32(p.points[pointSize*i:]))
}

// restartKey returns the key of the row at the i-th restart point, in a page that Decode
// found good.
func (p *Page) restartKey(i int) []byte {
	off := p.point(i)
	if b := p.body[off:]; b[1] < 0x80 {
		return b[2 : 2+int(b[1])]
	}
	r, _ := p.slowRow(off)
	return r.rest
}

// A cursor is at a row of a decoded page.
type cursor struct {
	p     *Page
	row   int
	off   int // of the row behind, in the body
	key   []byte
	value []byte
}

// keyBuffer is room for most keys, on the stack of a function that needs one.
const keyBuffer = 256

// rowAt returns the key and the value of an existing row, and the offset of the next row. The
// key is in buf if it fits.
func (p *Page) rowAt(buf []byte, row int) (key, value []byte, end int) {
	block := row / p.restart
	key, end = buf[:0], p.point(block)
	for range row - block*p.restart + 1 {
		r, _ := p.row(end) // Decode has seen that it is good
		key = append(key[:r.shared], r.rest...)
		value, end = r.value, r.end
	}
	return key, value, end
}

// valueAt returns the value of an existing row.
func (p *Page) valueAt(row int) []byte {
	block := row / p.restart
	r, _ := p.row(p.point(block))
	for range row - block*p.restart {
		r, _ = p.row(r.end)
	}
	return r.value
}

// at returns a cursor on an existing row.
func (p *Page) at(row int) cursor {
	c := cursor{p: p, row: row}
	c.key, c.value, c.off = p.rowAt(nil, row)
	return c
}

// next moves to the next row, or behind the last one.
func (c *cursor) next() {
	if c.row++; c.row >= c.p.rows {
		return
	}
	r, _ := c.p.row(c.off) // Decode has seen that it is good
	c.key = append(c.key[:r.shared], r.rest...)
	c.value, c.off = r.value, r.end
}

func (c *cursor) entry() (e Entry) {
	c.p.readEntry(&e, pathOf(c.key), c.value)
	return e
}

func (c *cursor) link() Link { return linkOf(c.key, c.value) }

// linkOf returns the link of a row that Decode found good.
func linkOf(key, b []byte) Link {
	l, _ := decodeLink(b, 0)
	l.Last = string(key)
	return l
}

// A checker goes once over the rows of a page that is not known to be good.
type checker struct {
	p     *Page
	key   []byte
	name  int // where the name begins in key
	used  int // shards of the table that a row referred to so far
	count int64
	bytes int64
}

// check checks the rows of a page whose header is good.
func (p *Page) check() error {
	c := checker{p: p}
	off, next := 0, 0 // row with the next restart point
	for i := range p.rows {
		r, err := p.row(off)
		if err != nil {
			return err
		}
		restart := i == next
		if restart {
			next += p.restart
		}
		if err := c.checkKey(i, off, &r, restart); err != nil {
			return err
		}
		if err := c.checkValue(i, &r); err != nil {
			return err
		}
		off = r.end
	}
	p.last = c.key
	switch at := int64(p.bodyStart()); {
	case off != len(p.body):
		return bad(at+int64(off), "%d bytes behind the last row", len(p.body)-off)
	case c.count != p.header.entries:
		return bad(16, "%d entries, the rows have %d", p.header.entries, c.count)
	case c.bytes != p.header.bytes:
		return bad(24, "files of %d bytes, the rows have %d", p.header.bytes, c.bytes)
	case c.used != p.header.shards:
		return bad(40, "%d shards, the rows use %d", p.header.shards, c.used)
	}
	return c.checkShards()
}

// checkKey checks the key of row i, which begins at off.
func (c *checker) checkKey(i, off int, r *row, restart bool) error {
	at := int64(c.p.bodyStart() + off)
	switch {
	case restart && r.shared != 0:
		return bad(at, "row %d shares %d bytes at a restart point", i, r.shared)
	case restart && c.p.point(i/c.p.restart) != off:
		return bad(int64(len(c.p.b)-len(c.p.points)+pointSize*(i/c.p.restart)), "restart point %d, row %d is at %d", c.p.point(i/c.p.restart), i, off)
	case r.shared > len(c.key):
		return bad(at, "row %d shares %d bytes with a key of %d", i, r.shared, len(c.key))
	case i == 0:
	case restart && bytes.Compare(r.rest, c.key) <= 0,
		!restart && len(r.rest) == 0,
		!restart && r.shared < len(c.key) && r.rest[0] < c.key[r.shared]:
		return bad(at, "key of row %d is not above the one before", i)
	case !restart && r.shared < len(c.key) && r.rest[0] == c.key[r.shared]:
		return bad(at, "row %d shares more than %d bytes with the key before", i, r.shared)
	}
	c.key = append(c.key[:r.shared], r.rest...)
	reason := ""
	if r.shared > 0 && r.shared >= c.name && bytes.IndexByte(r.rest, 0) < 0 && len(c.key) <= MaxPath {
		reason = badName(c.key[c.name:]) // in the same directory as the row before
	} else {
		reason = badKey(c.key)
		c.name = bytes.LastIndexByte(c.key, 0) + 1
	}
	if reason != "" {
		return bad(at, "key of row %d: %s", i, reason)
	}
	return nil
}

// checkValue checks the value of row i, whose key has been checked.
func (c *checker) checkValue(i int, r *row) error {
	at := int64(c.p.bodyStart() + r.at)
	if len(c.key)+len(r.value) > maxRow {
		return bad(at, "row %d of %d bytes, at most %d are allowed", i, len(c.key)+len(r.value), maxRow)
	}
	entries, size := int64(1), int64(0)
	if c.p.level > 0 {
		l, err := decodeLink(r.value, at)
		if err != nil {
			return err
		}
		entries, size = l.Entries, l.Bytes
	} else {
		var v value
		if err := v.decode(c.p, r.value, at); err != nil {
			return err
		}
		if err := c.checkEntry(i, at, &v); err != nil {
			return err
		}
		size = v.size
	}
	var ok, ok2 bool
	c.count, ok = add(c.count, entries)
	c.bytes, ok2 = add(c.bytes, size)
	if !ok || !ok2 {
		return bad(at, "the sum of the rows passes 2^63 at row %d", i)
	}
	return nil
}

// checkEntry checks what a value says against the rows before it.
func (c *checker) checkEntry(i int, at int64, v *value) error {
	switch {
	case i == 0 && v.sec != c.p.base:
		return bad(at, "the base time is not that of the first entry")
	case len(c.key) == 0 && v.kind() != Dir:
		return bad(at, "the root is not a directory")
	case v.shard > c.used+1:
		return bad(at, "shard %d before shard %d", v.shard-1, c.used)
	}
	c.used = max(c.used, v.shard)
	return nil
}

// checkShards checks that every shard of the table is valid and unique.
func (c *checker) checkShards() error {
	var seen map[Hash]bool
	if c.p.header.shards > 1 {
		seen = make(map[Hash]bool, c.p.header.shards)
	}
	for i := range c.p.header.shards {
		h := Hash(c.p.shards[hashSize*i:])
		switch at := int64(headerSize + hashSize*i); {
		case h.IsZero():
			return bad(at, "shard %d has no hash", i)
		case seen[h]:
			return bad(at, "shard %d is in the table twice", i)
		case seen != nil:
			seen[h] = true
		}
	}
	return nil
}

// common returns how many bytes a and b begin with in common.
func common[T []byte | string](a []byte, b T) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
