package codec

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
)

// A Hash names a chunk, a xorb, a shard or a file by its content.
//
// Its text form is not plain hex. The 32 bytes are four little-endian 64-bit words, and each
// word is printed as 16 hex digits. Every group of eight bytes therefore appears reversed.
// Hashes sort as their texts do (Compare), which is not the order of the raw bytes.
type Hash [32]byte

// ParseHash is the inverse of String. It also takes upper case, which others
// write; String does not.
func ParseHash(s string) (Hash, error) {
	var raw Hash
	var text [2 * len(raw)]byte
	if len(s) == len(text) {
		copy(text[:], s)
		if _, err := hex.Decode(raw[:], text[:]); err == nil {
			return raw.Swapped(), nil
		}
	}
	return Hash{}, fmt.Errorf("hash %.80q: want 64 hex digits", s)
}

// String returns the text form of h, as used in URLs, JSON and file names.
func (h Hash) String() string {
	swapped := h.Swapped()
	return hex.EncodeToString(swapped[:])
}

// Short returns the first 16 digits of the text form, enough for people to tell
// objects apart in a message.
func (h Hash) Short() string { return h.String()[:16] }

// AppendText appends the text form of h, without allocating if b has room.
func (h Hash) AppendText(b []byte) ([]byte, error) {
	swapped := h.Swapped()
	return hex.AppendEncode(b, swapped[:]), nil
}

// MarshalText makes a Hash appear in its text form in JSON.
func (h Hash) MarshalText() ([]byte, error) { return h.AppendText(nil) }

// UnmarshalText is the inverse of MarshalText.
func (h *Hash) UnmarshalText(text []byte) error {
	var err error
	*h, err = ParseHash(string(text))
	return err
}

// IsZero reports whether h is all zero: the hash of the empty file, and "none" where
// a hash may be absent.
func (h Hash) IsZero() bool { return h == Hash{} }

// Word returns the i-th of the four little-endian words of h. The format picks
// single words: the first is the key of lookup tables, the last decides where the
// trees of hashes are cut.
func (h Hash) Word(i int) uint64 { return binary.LittleEndian.Uint64(h[8*i:]) }

// Compare orders hashes as the format sorts them: by their words, which is the order
// of their texts.
func (h Hash) Compare(other Hash) int {
	for i := range 4 {
		switch a, b := h.Word(i), other.Word(i); {
		case a < b:
			return -1
		case a > b:
			return 1
		}
	}
	return 0
}

// Swapped returns h with every group of eight bytes reversed. It converts a hash to the bytes
// that its text spells, and back. Shards store a SHA-256 in this form: the text form of the
// stored hash is the usual text of the SHA-256.
func (h Hash) Swapped() Hash {
	for i := 0; i < len(h); i += 8 {
		slices.Reverse(h[i : i+8])
	}
	return h
}
