package cache

import (
	"sync/atomic"

	"github.com/xetfs/xetfs/cache/arena"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/page"
)

// A chunk is an unpacked chunk in memory, or an index page. Each user calls release once. A
// user that shares a chunk with another one calls retain before. Pages need neither: the
// garbage collector frees them.
type chunk struct {
	arena.Bytes
	key   chunkKey
	hash  codec.Hash // of the bytes; zero: a page, or not verified
	page  *page.Page // the page with these bytes; nil: a chunk
	from  *arena.Arena
	users atomic.Int32
}

// newChunk returns a chunk of n bytes with undefined content. It has one user.
func newChunk(a *arena.Arena, key chunkKey, n int) *chunk {
	c := &chunk{key: key, from: a, Bytes: a.Bytes(n)}
	c.users.Store(1)
	return c
}

// copyChunk returns a chunk with a copy of data.
func copyChunk(a *arena.Arena, key chunkKey, hash codec.Hash, data []byte) *chunk {
	c := newChunk(a, key, len(data))
	c.hash = hash
	copy(c.Data, data)
	return c
}

// retain adds a user. It returns false if the last user has released the bytes.
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

// release removes a user. nil has none.
func (c *chunk) release() {
	if c == nil || c.page != nil || c.users.Add(-1) > 0 {
		return
	}
	if poison {
		spoil(c.Data)
	}
	c.from.Free(c.Bytes)
}

// stays reports whether the chunk may stay in memory for long.
func (c *chunk) stays() bool { return c.from.Stays(c.Bytes) }
