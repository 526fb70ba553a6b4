package cache

import (
	"context"

	"github.com/xetfs/xetfs/cache/flight"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/xorb"
)

// startFetch gets the chunks of a fetch that the caller owns, from disk or from the origin, in a
// goroutine: the fetch may outlive the reader that began it, and a reader that is killed
// must not wait even for a near origin, whose disk may hang.
func (c *Cache) startFetch(ctx context.Context, f *fetch) {
	ctx = context.WithoutCancel(ctx)
	if !c.local {
		// Reading a file cannot be taken back, so there is nothing to cancel near by.
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		c.fetches.mu.Lock()
		f.cancel = cancel
		c.fetches.mu.Unlock()
	}
	c.fetches.running.Go(func() {
		run, err := c.get(ctx, f)
		c.fetches.finish(f, run, err)
		if f.cancel != nil {
			f.cancel()
		}
	})
}

// tryRun gets the chunks of a fetch that the caller owns if they are in memory, and says
// whether it did. There is nothing to wait for then, and to hand it to another goroutine
// takes longer than to do it.
func (c *Cache) tryRun(ctx context.Context, f *fetch) bool {
	run, err := c.tryGet(ctx, f)
	if run == nil && err == nil {
		return false
	}
	c.fetches.finish(f, run, err)
	return true
}

// tryGet returns neither a run nor an error if something must be waited for.
func (c *Cache) tryGet(ctx context.Context, f *fetch) (run *xorb.Run, err error) {
	defer flight.Guard(&err)
	if !c.local {
		run, _ = c.readDisk(ctx, f, true)
		return run, nil
	}
	f.replica = c.replicas.current(f.xorb)
	run, ok := c.src.TryChunks(f.xorb, f.chunks, f.allocate)
	if !ok {
		f.buf.free()
		f.buf = nil
		return nil, nil
	}
	c.stats.misses.Add(int64(f.chunks.Len()))
	return c.verifiable(run), nil
}

func (c *Cache) get(ctx context.Context, f *fetch) (run *xorb.Run, err error) {
	defer flight.Guard(&err)
	if run, ok := c.readDisk(ctx, f, false); ok {
		return run, nil
	}
	c.stats.misses.Add(int64(f.chunks.Len()))
	return c.request(ctx, f)
}

// request is one request to the origin.
func (c *Cache) request(ctx context.Context, f *fetch) (run *xorb.Run, err error) {
	f.replica = c.replicas.current(f.xorb)
	o := origin.ReadOptions{Buffer: f.allocate}
	if c.fetches.reportPartial {
		o.OnPartial = func(some *xorb.Run) { c.fetches.setPartial(f, c.verifiable(some)) }
	}
	run, err = c.src.Chunks(ctx, f.xorb, f.chunks, o)
	if err != nil {
		return nil, &replicaError{f.replica, err}
	}
	f.annotated = run
	return c.verifiable(run), nil
}

// allocate gives the origin a buffer for the packed chunks.
func (f *fetch) allocate(n int) []byte {
	f.buf = newBuffer(n)
	return f.buf.b
}
