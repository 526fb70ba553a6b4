package reconstruct

import "sync/atomic"

const (
	minBlock  = 64 << 10 // bytes; about one chunk
	maxBlocks = 1 << 16  // of one file, a bit for each
	pageSize  = 4 << 10  // bytes; reads of the kernel have whole pages
	maxPages  = 1 << 24  // of one file, a bit for each
)

// A coverage records which blocks of a file were read, completely or in part.
type coverage struct {
	block int64           // bytes of one
	seen  []atomic.Uint64 // a bit for each
	left  atomic.Int64    // how many were not read
}

// newCoverage returns a coverage of a file of size bytes, in up to most blocks of at least block bytes.
func newCoverage(size, block, most int64) *coverage {
	c := &coverage{block: block}
	for size > most*c.block {
		c.block *= 2
	}
	n := (size + c.block - 1) / c.block
	c.seen = make([]atomic.Uint64, (n+63)/64)
	c.left.Store(n)
	return c
}

// isComplete reports whether all blocks were read. It accepts nil.
func (c *coverage) isComplete() bool { return c != nil && c.left.Load() == 0 }

// note records that n bytes at off were read. It returns true once: when all blocks were read. It
// accepts nil.
func (c *coverage) note(off, n int64) bool {
	if c == nil || n == 0 {
		return false
	}
	news := int64(0)
	for i := off / c.block; i <= (off+n-1)/c.block; i++ {
		word, bit := &c.seen[i/64], uint64(1)<<(i%64)
		if word.Load()&bit == 0 && word.Or(bit)&bit == 0 {
			news++
		}
	}
	return news > 0 && c.left.Add(-news) == 0
}
