package page

import (
	"encoding/binary"

	"github.com/zeebo/blake3"
)

// A form is an identity form in the making: the header, whose fields are filled in last, and
// the rows.
type form struct {
	b      []byte // nil without rows
	points []byte
}

// size returns the length of the form, whose restart points have a number of bytes.
func (f *form) size(points int) int { return max(headerSize, len(f.b)) + points }

// add adds a row. head is the beginning of the row up to the length of its value, which is the
// same in both forms.
func (f *form) add(head, value []byte, restart bool) {
	if len(f.b) == 0 {
		f.b = append(f.b, make([]byte, headerSize)...)
	}
	if restart {
		f.points = binary.LittleEndian.AppendUint32(f.points, uint32(len(f.b)-headerSize))
	}
	f.b = append(f.b, head...)
	f.b = binary.AppendUvarint(f.b, uint64(len(value)))
	f.b = append(f.b, value...)
}

// identity returns the hash of the form of a page with the header h.
func (f *form) identity(h header) Identity {
	if len(f.b) == 0 {
		f.b = append(f.b, make([]byte, headerSize)...)
	}
	h.shards, h.body = 0, len(f.b)-headerSize
	h.append(f.b[:0], identityMagic)
	f.b = append(f.b, f.points...)
	return blake3.Sum256(f.b)
}

func (f *form) reset() { f.b, f.points = f.b[:0], f.points[:0] }

// Identity returns the identity of p. The first call takes about as long as Decode; the result
// is stored in p.
func (p *Page) Identity() Identity {
	p.identify.Do(func() {
		f := p.form()
		p.identity = f.identity(p.header)
	})
	return p.identity
}

// form returns the identity form of p.
func (p *Page) form() form {
	f := form{b: make([]byte, 0, len(p.b)), points: make([]byte, 0, len(p.points))}
	var named []byte
	for i, off := 0, 0; i < p.rows; i++ {
		r, _ := p.row(off) // Decode has seen that it is good
		head := p.body[off : r.at-uvarintSize(len(r.value))]
		named = p.appendNamed(named[:0], r.value)
		f.add(head, named, i%p.restart == 0)
		off = r.end
	}
	return f
}

// appendNamed appends the value of a row as the identity form has it.
func (p *Page) appendNamed(b, value []byte) []byte {
	if p.level == 0 {
		return p.placeIn(value).cut(b, value)
	}
	l, _ := decodeLink(value, 0)
	return l.appendIdentity(b)
}

// uvarintSize returns the length of n as a uvarint.
func uvarintSize(n int) int {
	size := 1
	for ; n >= 0x80; n >>= 7 {
		size++
	}
	return size
}

// A span is the part [start, end) of a value.
type span struct{ start, end int }

// cut appends value without the span to b.
func (s span) cut(b, value []byte) []byte {
	b = append(b, value[:s.start]...)
	return append(b, value[s.end:]...)
}

// placeIn returns the part of a value of a leaf row that names shard and block (s and r). Decode
// has found the value good. The part is empty in a value without a file hash.
func (p *Page) placeIn(value []byte) span {
	r := reader{b: value}
	var e Entry
	flags := p.readHead(&e, &r)
	if e.Type != File || flags&hasInline != 0 || r.uvarint() == 0 {
		return span{} // without a size, there is no hash
	}
	r.bytes(hashSize)
	s := span{start: r.at}
	if r.uvarint() > 0 {
		r.uvarint()
	}
	s.end = r.at
	return s
}
