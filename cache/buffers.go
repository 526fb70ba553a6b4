package cache

import (
	"math/bits"
	"sync"
)

// A buffer holds packed chunks. Buffers are pooled by size class, so that reads produce little
// garbage.
type buffer struct {
	b     []byte
	class int
}

const minClass, maxClass = 16, 23 // 64 KiB to 8 MiB

var pools [maxClass + 1]sync.Pool

// newBuffer returns a buffer of n bytes with undefined content.
func newBuffer(n int) *buffer {
	class := max(minClass, bits.Len(uint(max(n, 1)-1)))
	if class > maxClass {
		return &buffer{b: make([]byte, n), class: class}
	}
	if b, ok := pools[class].Get().(*buffer); ok {
		b.b = b.b[:n]
		return b
	}
	return &buffer{b: make([]byte, n, 1<<class), class: class}
}

// poison makes free and release overwrite the bytes, so that tests detect a use after free.
var poison bool

func spoil(b []byte) {
	for i := 0; i < len(b); {
		i += copy(b[i:], "freed freed freed freed freed freed freed freed freed freed freed")
	}
}

// free returns the buffer to its pool. No caller may use its bytes any more.
func (b *buffer) free() {
	if b == nil {
		return
	}
	if poison {
		spoil(b.b)
	}
	if b.class <= maxClass {
		pools[b.class].Put(b)
	}
}
