package cache

import (
	"math/bits"
	"sync"
)

// A buffer holds packed chunks. Buffers are pooled by size class, so that reads produce little
// garbage.
type buffer struct {
	b     []byte
	class int // of pools; len(pools): none
}

const (
	minBuffer = 64 << 10
	maxBuffer = 8 << 20
)

// pools has four classes for each power of two, so at most a fifth of a buffer is unused.
var pools [4 * 24]sync.Pool

// classOf returns the smallest class of buffers with n bytes, and their size.
func classOf(n int) (class, size int) {
	n = max(n, minBuffer)
	if n > maxBuffer {
		return len(pools), n
	}
	power := bits.Len(uint(n - 1))
	quarter := 1 << (power - 3)
	quarters := (n + quarter - 1) / quarter // from 5 to 8
	return 4*power + quarters - 5, quarters * quarter
}

// newBuffer returns a buffer of n bytes with undefined content.
func newBuffer(n int) *buffer {
	class, size := classOf(n)
	if class < len(pools) {
		if b, ok := pools[class].Get().(*buffer); ok {
			b.b = b.b[:n]
			return b
		}
	}
	return &buffer{b: make([]byte, n, size), class: class}
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
	if b.class < len(pools) {
		pools[b.class].Put(b)
	}
}
