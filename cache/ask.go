package cache

import (
	"context"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/xorb"
)

// run gets the chunks of a fetch that the caller owns, from disk or from the origin, in a goroutine: the
// fetch may outlive the reader that began it, and a reader that is killed must not wait
// even for a near origin, whose disk may hang.
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

func (c *Cache) get(ctx context.Context, there *fetch) (run *xorb.Run, err error) {
	defer guard(&err)
	if run, ok := c.keptFetch(ctx, there); ok {
		return c.trusted(run), nil
	}
	c.stats.misses.Add(int64(there.chunks.Len()))
	return c.ask(ctx, there)
}

// ask is one request to the origin.
func (c *Cache) ask(ctx context.Context, there *fetch) (run *xorb.Run, err error) {
	there.copy = c.copies.current(there.xorb)
	if c.borrow == nil {
		run, err = c.src.Chunks(ctx, there.xorb, there.chunks)
	} else {
		into := origin.Into{Buffer: there.lend}
		if c.fetches.piece {
			into.Came = func(some *xorb.Run) { c.fetches.came(there, c.trusted(some)) }
		}
		run, err = c.borrow.ChunksIn(ctx, there.xorb, there.chunks, into)
	}
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
