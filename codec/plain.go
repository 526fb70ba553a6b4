package codec

import (
	"encoding/binary"
	"slices"
)

// plainTag marks hashes that name content outside Xet: a file in git, for example. A Xet hash ends
// with it by a chance of 2^-48 only. In that case its file cannot be read, and nothing worse.
var plainTag = []byte("plain\x00")

// PlainHash returns the name of content outside Xet, or of a part of it. sum must depend on
// everything that identifies the content, so that equal names mean equal content.
//
//	offset  size  field
//	     0     2  part: 0 for the file, 1 + i for its i-th xorb; little-endian
//	     2    24  start of sum
//	    26     6  plainTag
func PlainHash(sum [32]byte, part uint16) Hash {
	h := Hash(slices.Concat(make([]byte, 2), sum[:24], plainTag))
	return h.PlainPart(part)
}

// IsPlain reports whether h names content outside Xet.
func (h Hash) IsPlain() bool { return string(h[26:]) == string(plainTag) }

// PlainPart returns the name of another part of the same content.
func (h Hash) PlainPart(part uint16) Hash {
	binary.LittleEndian.PutUint16(h[:], part)
	return h
}

// Part returns the part that a plain hash names.
func (h Hash) Part() uint16 { return binary.LittleEndian.Uint16(h[:]) }
