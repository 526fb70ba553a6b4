package cache

import (
	"sync/atomic"

	"github.com/xetfs/xetfs/cache/arena"
	"github.com/xetfs/xetfs/codec/page"
)

// A chunk is an unpacked chunk in memory, or an index page. Whoever has it calls release
// once; those who are handed it by somebody else retain it before. (Pages need neither: they
// are the collector's.)
type chunk struct {
	arena.Bytes
	key   chunkKey
	page  *page.Page // whose bytes they are; nil: a chunk
	from  *arena.Arena
	users atomic.Int32
}

// newChunk returns one of n bytes, which hold anything. It has one user.
func newChunk(a *arena.Arena, key chunkKey, n int) *chunk {
	c := &chunk{key: key, from: a, Bytes: a.Bytes(n)}
	c.users.Store(1)
	return c
}

// copyChunk returns a chunk with some bytes.
func copyChunk(a *arena.Arena, key chunkKey, data []byte) *chunk {
	c := newChunk(a, key, len(data))
	copy(c.Data, data)
	return c
}

// retain makes another user, unless there is none left: then the bytes are gone.
func (c *chunk) retain() bool {
	for {
		n := c.users.Load()
		if n == 0 {
			return false
		}
		if c.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// release ends one use. nil has none.
func (c *chunk) release() {
	if c == nil || c.page != nil || c.users.Add(-1) > 0 {
		return
	}
	if poison {
		spoil(c.Data)
	}
	c.from.Free(c.Bytes)
}

// stays says whether the chunk may be kept for long.
func (c *chunk) stays() bool { return c.from.Stays(c.Bytes) }
