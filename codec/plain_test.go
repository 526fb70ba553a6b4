package codec

import (
	"bytes"
	"crypto/sha256"
	"testing"
)

// The bytes of a plain hash are fixed: the disk cache stores them.
func TestPlainHash(t *testing.T) {
	sum := sha256.Sum256([]byte("content"))
	h := PlainHash(sum, 0x0201)
	want := append([]byte{1, 2}, sum[:24]...)
	want = append(want, 'p', 'l', 'a', 'i', 'n', 0)
	if !bytes.Equal(h[:], want) {
		t.Errorf("hash = % x, want % x", h[:], want)
	}
	if !h.IsPlain() || h.Part() != 0x0201 || h.PlainPart(0) != PlainHash(sum, 0) {
		t.Errorf("IsPlain = %t, Part = %#x", h.IsPlain(), h.Part())
	}
	if Hash(sum).IsPlain() || (Hash{}).IsPlain() {
		t.Error("another hash is plain")
	}
}
