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

// ParseHash is the inverse of String. It takes lower case only: a name of a page is
// part of keys, which have one spelling.
func ParseHash(s string) (Hash, error) {
	raw, err := hex.DecodeString(s)
	if err != nil || len(raw) != len(Hash{}) || Hash(raw).String() != s {
		return Hash{}, fmt.Errorf("hash %.80q: want 64 lower-case hex digits", s)
	}
	return Hash(raw), nil
}
