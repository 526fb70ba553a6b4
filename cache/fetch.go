package cache

import (
	"context"

	"github.com/xetfs/xetfs/cache/flight"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/xorb"
)

// startFetch gets the chunks of a new fetch from disk or from the origin, in a goroutine. The
// fetch may outlive its first reader. A killed reader must not wait even for a local origin,
// because a disk may hang.
func (c *Cache) startFetch(ctx context.Context, f *fetch) {
	ctx = context.WithoutCancel(ctx)
	if !c.local {
		// A read of a local file cannot be canceled.
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
		if f.onEnd != nil {
			f.onEnd()
		}
	})
}

// tryRun gets the chunks of a new fetch if they are in memory, and reports whether it did. This
// needs no waiting, and is faster than another goroutine.
func (c *Cache) tryRun(ctx context.Context, f *fetch) bool {
	run, err := c.tryGet(ctx, f)
	if run == nil && err == nil {
		return false
	}
	c.fetches.finish(f, run, err)
	return true
}

// tryGet returns neither a run nor an error if it would have to wait.
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
	return run, nil
}

func (c *Cache) get(ctx context.Context, f *fetch) (run *xorb.Run, err error) {
	defer flight.Guard(&err)
	if run, ok := c.readDisk(ctx, f, false); ok {
		return run, nil
	}
	return c.request(ctx, f)
}

// request requests chunks that are not on disk.
func (c *Cache) request(ctx context.Context, f *fetch) (run *xorb.Run, err error) {
	f.replica = c.replicas.current(f.xorb)
	o := origin.ReadOptions{Buffer: f.allocate}
	if !c.local { // readers may get the first chunks before the others
		o.OnPartial = func(run *xorb.Run) { c.fetches.setPartial(f, run) }
	}
	run, copied, err := c.chunksWithCopies(ctx, f.xorb, f.chunks, o)
	if len(copied) > 0 { // no part was reported, so no reader looks at it yet
		f.copied = copied
	}
	if err != nil {
		return nil, &replicaError{f.replica, err}
	}
	f.annotated = run
	return run, nil
}

// allocate returns a buffer for the packed chunks.
func (f *fetch) allocate(n int) []byte {
	f.buf = newBuffer(n)
	return f.buf.b
}
