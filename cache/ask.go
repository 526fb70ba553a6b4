package cache

import (
	"context"

	"github.com/xetfs/xetfs/cache/flight"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/xorb"
)

// run gets the chunks of a fetch that the caller owns, from disk or from the origin, in a
// goroutine: the fetch may outlive the reader that began it, and a reader that is killed
// must not wait even for a near origin, whose disk may hang.
func (c *Cache) run(ctx context.Context, there *fetch) {
	ctx = context.WithoutCancel(ctx)
	if !c.near {
		// Reading a file cannot be taken back, so there is nothing to cancel near by.
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		c.fetches.mu.Lock()
		there.cancel = cancel
		c.fetches.mu.Unlock()
	}
	c.fetches.going.Go(func() {
		run, err := c.get(ctx, there)
		c.fetches.finish(there, run, err)
		if there.cancel != nil {
			there.cancel()
		}
	})
}

// runNow gets the chunks of a fetch that the caller owns if they are in memory, and says
// whether it did. There is nothing to wait for then, and to hand it to another goroutine
// takes longer than to do it.
func (c *Cache) runNow(ctx context.Context, there *fetch) bool {
	run, err := c.getNow(ctx, there)
	if run == nil && err == nil {
		return false
	}
	c.fetches.finish(there, run, err)
	return true
}

// getNow returns neither a run nor an error if something must be waited for.
func (c *Cache) getNow(ctx context.Context, there *fetch) (run *xorb.Run, err error) {
	defer flight.Guard(&err)
	if !c.near {
		run, _ = c.keptFetch(ctx, there, true)
		return run, nil
	}
	there.copy = c.copies.current(there.xorb)
	run, ok := c.src.TryChunks(there.xorb, there.chunks, there.lend)
	if !ok {
		there.buf.free()
		there.buf = nil
		return nil, nil
	}
	c.stats.misses.Add(int64(there.chunks.Len()))
	return c.trusted(run), nil
}

func (c *Cache) get(ctx context.Context, there *fetch) (run *xorb.Run, err error) {
	defer flight.Guard(&err)
	if run, ok := c.keptFetch(ctx, there, false); ok {
		return run, nil
	}
	c.stats.misses.Add(int64(there.chunks.Len()))
	return c.ask(ctx, there)
}

// ask is one request to the origin.
func (c *Cache) ask(ctx context.Context, there *fetch) (run *xorb.Run, err error) {
	there.copy = c.copies.current(there.xorb)
	o := origin.ReadOptions{Buffer: there.lend}
	if c.fetches.piece {
		o.OnPartial = func(some *xorb.Run) { c.fetches.came(there, c.trusted(some)) }
	}
	run, err = c.src.Chunks(ctx, there.xorb, there.chunks, o)
	if err != nil {
		return nil, &copyError{there.copy, err}
	}
	there.known = run
	return c.trusted(run), nil
}

// lend gives the origin a buffer for the packed chunks.
func (there *fetch) lend(n int) []byte {
	there.buf = newBuffer(n)
	return there.buf.b
}
