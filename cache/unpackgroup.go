package cache

import (
	"context"
	"errors"
	"sync"
)

// unpackGroup lets readers that need a part of the same chunk share one unpacking. It also
// retains the chunks that were unpacked last. The next read of a stream starts in the last
// chunk, and finds it even if the memory cache refuses or delays chunks.
type unpackGroup struct {
	max int64 // limit of bytes

	mu    sync.Mutex
	byKey map[chunkKey]*unpackCall // guarded by mu
	done  []*unpackCall            // finished calls, oldest first; guarded by mu
	bytes int64                    // of finished chunks; guarded by mu
}

// An unpackCall is one chunk that one reader unpacks while others wait.
type unpackCall struct {
	key  chunkKey
	done chan struct{} // closed once chunk and err are final

	// Guarded by unpackGroup.mu until done is closed:
	waiting int // readers that will retain the chunk
	chunk   *chunk
	err     error
}

// errRetry is the error for waiting readers if the leader of a call ended without a result.
var errRetry = errors.New("the leading reader ended early")

func (c *unpackGroup) init(max int64) {
	c.max, c.byKey = max, map[chunkKey]*unpackCall{}
}

// join returns a recently unpacked chunk, which the caller must release, or else the call for
// it. If lead is true the call is new and the caller must finish it. Otherwise the caller must
// wait for it or leave it.
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

// leave ends the wait of one reader.
func (c *unpackGroup) leave(cl *unpackCall) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cl.waiting--
	cl.chunk.release() // if the call has finished meanwhile
}

// finish ends a call that the caller leads. A chunk stays available for a while. An error is
// only for readers that wait now.
func (c *unpackGroup) finish(cl *unpackCall, ch *chunk, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cl.chunk, cl.err = ch, err
	if err != nil {
		close(cl.done)
		delete(c.byKey, cl.key)
		return
	}
	ch.users.Add(int32(cl.waiting) + 1) // one for the list; before another reader can release it
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

// close releases all chunks.
func (c *unpackGroup) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cl := range c.done {
		cl.chunk.release()
	}
	c.done = nil
}

// held returns the bytes of finished chunks.
func (c *unpackGroup) held() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}

// has reports whether the chunk is finished or a reader unpacks it.
func (c *unpackGroup) has(key chunkKey) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.byKey[key]
	return ok
}

// wait returns the chunk that another reader unpacks. The caller must release the chunk.
func (c *unpackGroup) wait(ctx context.Context, cl *unpackCall) (*chunk, error) {
	select {
	case <-cl.done:
		return cl.chunk, cl.err
	case <-ctx.Done():
		c.leave(cl)
		return nil, ctx.Err()
	}
}
