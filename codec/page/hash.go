package page

import (
	"encoding/hex"
	"fmt"

	"github.com/zeebo/blake3"
)

// A Hash names a page: plain BLAKE3 of its bytes, not a Xet hash.
type Hash [32]byte

// Sum returns the name of a page.
func Sum(page []byte) Hash { return blake3.Sum256(page) }

// String returns the text form of h: 64 lower-case hex digits, in the order of the
// bytes.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// IsZero reports whether h is all zero, which means no page.
func (h Hash) IsZero() bool { return h == Hash{} }

// An Identity names the content of a page, wherever the content of its files is stored. It is
// the BLAKE3 hash of the identity form of the page, which the package comment describes. Equal
// subtrees have equal identities in all stores with the same Sizes.
type Identity [32]byte

// String returns the text form of id, as Hash.String.
func (id Identity) String() string { return Hash(id).String() }

// IsZero reports whether id is all zero, which means no page.
func (id Identity) IsZero() bool { return id == Identity{} }

// ParseIdentity is the inverse of String. It takes lower case only.
func ParseIdentity(s string) (Identity, error) {
	h, err := ParseHash(s)
	return Identity(h), err
}

// ParseHash is the inverse of String. It takes lower case only: a name of a page is
// part of keys, which have one spelling.
func ParseHash(s string) (Hash, error) {
	var h Hash
	var text, spelled [2 * len(h)]byte
	if len(s) == len(text) {
		copy(text[:], s)
		if _, err := hex.Decode(h[:], text[:]); err == nil && string(hex.AppendEncode(spelled[:0], h[:])) == s {
			return h, nil
		}
	}
	return Hash{}, fmt.Errorf("hash %.80q: want 64 lower-case hex digits", s)
}
