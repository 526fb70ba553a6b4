package cache

import (
	"context"
	"errors"
	"sync"
)

// calls lets readers that need a part of the same chunk share one unpacking of it. It
// also keeps the chunks that were unpacked last, so that the next read of a stream,
// which begins in the chunk where this one ended, finds it for certain: the memory
// cache behind may refuse or delay what it is offered.
type calls struct {
	max int64 // bytes of finished chunks that are kept

	mu    sync.Mutex
	byKey map[chunkKey]*call // guarded by mu
	done  []*call            // finished ones, oldest first; guarded by mu
	bytes int64              // of those; guarded by mu
}

// A call is one chunk that one reader unpacks, and others wait for.
type call struct {
	key  chunkKey
	done chan struct{} // closed once data and err are final
	data []byte
	err  error
}

// errAgain tells those who wait that whoever led the call has gone without a result.
var errAgain = errors.New("the reader that led has gone")

func (c *calls) init(max int64) {
	c.max, c.byKey = max, map[chunkKey]*call{}
}

// join returns the call for a chunk. lead says that it is new: the caller must finish it.
func (c *calls) join(key chunkKey) (cl *call, lead bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cl, ok := c.byKey[key]; ok {
		return cl, false
	}
	cl = &call{key: key, done: make(chan struct{})}
	c.byKey[key] = cl
	return cl, true
}

// finish ends a call that the caller leads. A result is kept for a while; an error is
// for those who wait now, and nobody who comes later may find it.
func (c *calls) finish(cl *call, data []byte, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cl.data, cl.err = data, err
	close(cl.done)
	if err != nil {
		delete(c.byKey, cl.key)
		return
	}
	c.done = append(c.done, cl)
	c.bytes += roomOf(len(data))
	for c.bytes > c.max && len(c.done) > 0 {
		old := c.done[0]
		c.done[0] = nil
		c.done = c.done[1:]
		c.bytes -= roomOf(len(old.data))
		delete(c.byKey, old.key)
	}
}

// held returns the bytes of finished chunks that are kept.
func (c *calls) held() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}

// has says whether the chunk is there, or is being unpacked by somebody.
func (c *calls) has(key chunkKey) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.byKey[key]
	return ok
}

// finished says whether the result is there already.
func (cl *call) finished() bool {
	select {
	case <-cl.done:
		return true
	default:
		return false
	}
}

// wait returns the chunk that another reader unpacks.
func (cl *call) wait(ctx context.Context) ([]byte, error) {
	select {
	case <-cl.done:
		return cl.data, cl.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
