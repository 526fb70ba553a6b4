package cache

import (
	"context"
	"errors"
	"sync"
)

// unpackGroup lets readers that need a part of the same chunk share one unpacking of it. It
// also keeps the chunks that were unpacked last, so that the next read of a stream,
// which begins in the chunk where this one ended, finds it for certain: the memory
// cache behind may refuse or delay what it is offered.
type unpackGroup struct {
	max int64 // bytes of finished chunks that are kept

	mu    sync.Mutex
	byKey map[chunkKey]*unpackCall // guarded by mu
	done  []*unpackCall            // finished ones, oldest first; guarded by mu
	bytes int64                    // of those; guarded by mu
}

// A unpackCall is one chunk that one reader unpacks, and others wait for.
type unpackCall struct {
	key  chunkKey
	done chan struct{} // closed once chunk and err are final

	// Guarded by calls.mu until done is closed:
	waiting int // readers for whom the chunk will be retained
	chunk   *chunk
	err     error
}

// errRetry tells those who wait that whoever led the call has gone without a result.
var errRetry = errors.New("the reader that led has gone")

func (c *unpackGroup) init(max int64) {
	c.max, c.byKey = max, map[chunkKey]*unpackCall{}
}

// join returns a chunk that was unpacked a moment ago, which the caller must release, or
// else the call for it. lead says that it is new: the caller must finish it. Otherwise the
// caller must wait for it or leave it.
func (c *unpackGroup) join(key chunkKey) (ch *chunk, cl *unpackCall, lead bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cl, ok := c.byKey[key]
	switch {
	case !ok:
		cl = &unpackCall{key: key, done: make(chan struct{})}
		c.byKey[key] = cl
		return nil, cl, true
	case cl.chunk != nil:
		cl.chunk.retain()
		return cl.chunk, nil, false
	}
	cl.waiting++
	return nil, cl, false
}

// leave is called instead of wait by who will not wait.
func (c *unpackGroup) leave(cl *unpackCall) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cl.waiting--
	cl.chunk.release() // if it came meanwhile
}

// finish ends a call that the caller leads. A result is kept for a while; an error is
// for those who wait now, and nobody who comes later may find it.
func (c *unpackGroup) finish(cl *unpackCall, ch *chunk, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cl.chunk, cl.err = ch, err
	if err != nil {
		close(cl.done)
		delete(c.byKey, cl.key)
		return
	}
	ch.users.Add(int32(cl.waiting) + 1) // and this list; before anybody can release it
	close(cl.done)
	c.done = append(c.done, cl)
	c.bytes += roomOf(len(ch.Data))
	for c.bytes > c.max && len(c.done) > 0 {
		old := c.done[0]
		c.done[0] = nil
		c.done = c.done[1:]
		c.bytes -= roomOf(len(old.chunk.Data))
		delete(c.byKey, old.key)
		old.chunk.release()
	}
}

// close gives back what is kept.
func (c *unpackGroup) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cl := range c.done {
		cl.chunk.release()
	}
	c.done = nil
}

// held returns the bytes of finished chunks that are kept.
func (c *unpackGroup) held() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}

// has says whether the chunk is there, or is being unpacked by somebody.
func (c *unpackGroup) has(key chunkKey) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.byKey[key]
	return ok
}

// wait returns the chunk that another reader unpacks, which the caller must release.
func (c *unpackGroup) wait(ctx context.Context, cl *unpackCall) (*chunk, error) {
	select {
	case <-cl.done:
		return cl.chunk, cl.err
	case <-ctx.Done():
		c.leave(cl)
		return nil, ctx.Err()
	}
}
