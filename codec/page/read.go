package page

import (
	"encoding/binary"
	"time"

	"github.com/xetfs/xetfs/codec"
)

// A reader takes a value apart that Decode found good. It checks nothing, so that a
// listing takes half the time that it would with fields.
type reader struct {
	b  []byte
	at int
}

func (r *reader) uvarint() uint64 {
	if c := r.b[r.at]; c < 0x80 {
		r.at++
		return uint64(c)
	}
	return r.longUvarint()
}

func (r *reader) longUvarint() uint64 {
	if b := r.b[r.at:]; b[1] < 0x80 {
		r.at += 2
		return uint64(b[0]&0x7f) | uint64(b[1])<<7
	}
	v, n := binary.Uvarint(r.b[r.at:])
	r.at += n
	return v
}

func (r *reader) svarint() int64 {
	v := r.uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

func (r *reader) bytes(n int) []byte {
	r.at += n
	return r.b[r.at-n : r.at : r.at]
}

func (r *reader) text() string { return string(r.bytes(int(r.uvarint()))) }

// readEntry fills in e, which is zero, from a value of the leaf p.
func (p *Page) readEntry(e *Entry, path string, b []byte) {
	r := reader{b: b}
	e.Path = path
	flags := p.readHead(e, &r)
	if e.Type == File {
		p.readContent(e, &r, flags&hasInline != 0)
	}
	if flags&hasSHA256 != 0 {
		sum := [32]byte(r.bytes(32))
		e.SHA256 = &sum
	}
	if e.Type == Symlink {
		e.Target = r.text()
	}
	if flags&hasXattrs != 0 {
		e.Xattrs = r.xattrs()
	}
}

// readHead fills in the fields of every type, and returns the flags.
func (p *Page) readHead(e *Entry, r *reader) (flags uint64) {
	flags = r.uvarint()
	e.Type = Type(flags & typeMask)
	e.Mode = uint32(r.uvarint())
	sec, nanos := p.base+r.svarint(), int64(0)
	if flags&hasNanos != 0 {
		nanos = int64(r.uvarint())
	}
	e.ModTime = time.Unix(sec, nanos).UTC()
	if flags&hasOwner != 0 {
		uid := uint32(r.uvarint())
		e.Owner = &Owner{uid, uint32(r.uvarint())}
	}
	return flags
}

func (p *Page) readContent(e *Entry, r *reader, inline bool) {
	e.Size = int64(r.uvarint())
	switch {
	case inline:
		e.Inline = append([]byte(nil), r.bytes(int(e.Size))...)
	case e.Size > 0:
		copy(e.ID.File[:], r.bytes(hashSize))
		if shard := int(r.uvarint()); shard > 0 {
			e.ID.Shard = codec.Hash(p.shards[hashSize*(shard-1):])
			e.ID.Block = int64(r.uvarint()) * blockUnit
		}
	}
}

func (r *reader) xattrs() map[string]string {
	n := int(r.uvarint())
	pairs := make(map[string]string, n) // as many as Decode has counted
	for range n {
		name := r.text()
		pairs[name] = r.text()
	}
	return pairs
}
