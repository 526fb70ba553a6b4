package cache

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/xetfs/xetfs/cache/disk"
	"github.com/xetfs/xetfs/cache/flight"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// FileInfos is FileInfo for many files, in fewer requests where the origin supports it. It
// calls yield concurrently, once for each id, and returns after all calls.
func (c *Cache) FileInfos(ctx context.Context, ids []codec.FileID, yield func(i int, fi *shard.FileInfo, err error)) {
	c.src.FileInfos(ctx, ids, yield)
}

// Download requests chunks r of xorb x from a remote origin and stores the missing ones in the
// disk cache while they arrive. It costs one request, so the caller should know that some
// chunks are missing. Download returns when a reader can find the chunks on disk, or when ctx
// ends. Chunks that arrived before and match their hashes are stored, if necessary later. The
// error is for ShouldRetry, or of the disk or ctx.
func (c *Cache) Download(ctx context.Context, x codec.Hash, r codec.ChunkRange) error {
	if c.packed == nil {
		return disk.ErrClosed
	}
	of := c.replicas.current(x)
	d := &download{c: c, xorb: x, drops: c.drops.Count(), next: r.Start, wake: make(chan struct{}, 1), put: c.putWaiting(ctx)}
	storing := make(chan struct{})
	go func() {
		defer close(storing)
		for range d.wake {
			d.store(d.latest(), downloadStep)
		}
	}()
	run, err := d.request(ctx, r)
	close(d.wake)
	<-storing
	d.store(run, 1)
	d.storeLater(run)
	if d.diskErr == nil {
		d.diskErr = c.packed.Flush(ctx)
	}
	if err = errors.Join(err, d.corrupt); err != nil {
		return &replicaError{of, err}
	}
	return d.diskErr
}

// downloadStep is how many bytes must arrive before they are stored ahead of the others.
const downloadStep = 512 << 10

// A download is packed chunks of a xorb in transfer to the disk.
type download struct {
	c    *Cache
	xorb codec.Hash
	put  putFunc

	drops int64 // of the Cache, at the start

	mu      sync.Mutex
	partial *xorb.Run     // the first chunks so far; may be nil; guarded by mu
	wake    chan struct{} // partial has changed

	// Used by one goroutine at a time:
	next    uint32 // chunks before it are stored or corrupt
	buf     []byte
	corrupt error
	diskErr error // of the disk cache
}

// A putFunc gives chunks of a xorb to the disk, as disk.Store.PutRunNoCopy.
type putFunc func(x codec.Hash, run *xorb.Run, free func()) error

// putWaiting returns a putFunc that waits for the disk until ctx ends.
func (c *Cache) putWaiting(ctx context.Context) putFunc {
	return func(x codec.Hash, run *xorb.Run, free func()) error {
		return c.packed.PutRunWait(ctx, x, run, free)
	}
}

// request requests chunks that are not on disk. After an error it returns the first chunks that
// arrived, or nil.
func (d *download) request(ctx context.Context, r codec.ChunkRange) (run *xorb.Run, err error) {
	run, _, err = d.c.chunksWithCopies(ctx, d.xorb, r, origin.ReadOptions{
		Buffer:    func(n int) []byte { return make([]byte, n) },
		OnPartial: d.setPartial,
	})
	if err != nil {
		return d.latest(), err
	}
	return run, nil
}

func (d *download) setPartial(run *xorb.Run) {
	d.mu.Lock()
	d.partial = run
	d.mu.Unlock()
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

func (d *download) latest() *xorb.Run {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.partial
}

// store stores the new chunks of a run if they have at least least bytes. If the disk is busy,
// d.next is the first chunk that is left.
func (d *download) store(run *xorb.Run, least int) {
	defer flight.Guard(&d.corrupt)
	if run == nil || run.Chunks.End <= d.next {
		return
	}
	news := run.Slice(codec.ChunkRange{Start: d.next, End: run.Chunks.End})
	if len(news.Packed) < least {
		return
	}
	if d.buf == nil {
		d.buf = make([]byte, codec.MaxChunkSize)
	}
	good := func(r codec.ChunkRange) codec.ChunkRange { return d.verify(news, r) }
	for r := range d.c.absentVerified(d.xorb, news.Chunks, good) {
		if d.diskErr == nil {
			part := news.Slice(r)
			d.diskErr = d.c.put(d.drops, d.xorb, part, func() error { return d.put(d.xorb, part, func() {}) })
		}
		if errors.Is(d.diskErr, disk.ErrBusy) {
			d.next = r.Start
			return
		}
	}
	d.next = run.Chunks.End
}

// storeLater queues the chunks of a run that store has left.
func (d *download) storeLater(run *xorb.Run) {
	if run == nil || run.Chunks.End <= d.next {
		return
	}
	t, rest := &d.c.fetches, run.Slice(codec.ChunkRange{Start: d.next, End: run.Chunks.End})
	later := &download{c: d.c, xorb: d.xorb, drops: d.drops, next: d.next, put: d.c.putWaiting(t.writes.drainCtx)}
	t.enqueueRun(rest, func() {
		if later.store(rest, 1); errors.Is(later.diskErr, disk.ErrBusy) {
			t.skip(codec.ChunkRange{Start: later.next, End: rest.Chunks.End})
		}
	})
}

// verify returns the first chunks of r, up to a corrupt one.
func (d *download) verify(run *xorb.Run, r codec.ChunkRange) codec.ChunkRange {
	for i := r.Start; i < r.End; i++ {
		if _, err := d.c.verify(d.xorb, run, i, d.buf[:run.Size(i)], false); err != nil {
			d.corrupt = fmt.Errorf("xorb %s: %w", d.xorb, err)
			r.End = i
		}
	}
	return r
}
