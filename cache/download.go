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

// FileInfos is FileInfo for many files, in fewer requests where the origin can. It calls
// tell for each of ids, once, by several goroutines at a time, and returns when all are told.
func (c *Cache) FileInfos(ctx context.Context, ids []codec.FileID, tell func(i int, fi *shard.FileInfo, err error)) {
	c.src.FileInfos(ctx, ids, tell)
}

// Download asks a far origin for chunks of a xorb, with one request, and puts on disk those
// that are not there, as they come. It is for whoever wants them there, not the bytes: it
// returns when they can be found, however long the disk takes, or ctx ends. It asks for all
// of r, so that whoever calls it must know that some of them are missing. Whatever ends it,
// what has come by then and is what its hash says is kept, a little later if the disk has no
// room for it now. The error is for Again, or says that the disk or ctx ended it.
func (c *Cache) Download(ctx context.Context, x codec.Hash, r codec.ChunkRange) error {
	if c.packed == nil {
		return disk.ErrClosed
	}
	of := c.replicas.current(x)
	d := &download{c: c, xorb: x, next: r.Start, wake: make(chan struct{}, 1), put: c.putWaiting(ctx)}
	keeping := make(chan struct{})
	go func() {
		defer close(keeping)
		for range d.wake {
			d.store(d.latest(), downloadStep)
		}
	}()
	run, err := d.request(ctx, r)
	close(d.wake)
	<-keeping
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

// downloadStep is how many bytes must have come for them to be put on disk before the others.
const downloadStep = 512 << 10

// A download is packed chunks of a xorb on their way to the disk.
type download struct {
	c    *Cache
	xorb codec.Hash
	put  putFunc

	mu      sync.Mutex
	partial *xorb.Run     // the first chunks, as far as they have come; nil: none; guarded by mu
	wake    chan struct{} // something has come

	// Of whoever keeps them, one at a time:
	next    uint32 // those before it are kept, or damaged
	buf     []byte
	corrupt error
	diskErr error // why the disk does not keep them
}

// A putFunc lends chunks of a xorb to the disk, as disk.Store.PutRunNoCopy.
type putFunc func(x codec.Hash, run *xorb.Run, free func()) error

// putWaiting returns a lending that waits for the disk until ctx ends.
func (c *Cache) putWaiting(ctx context.Context) putFunc {
	return func(x codec.Hash, run *xorb.Run, free func()) error {
		return c.packed.PutRunWait(ctx, x, run, free)
	}
}

// request asks the origin for chunks. After an error it returns the first ones, as far as they
// came, or nil.
func (d *download) request(ctx context.Context, r codec.ChunkRange) (run *xorb.Run, err error) {
	d.c.stats.misses.Add(int64(r.Len()))
	run, err = d.c.src.Chunks(ctx, d.xorb, r, origin.ReadOptions{
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

// store puts on disk what of a run is new, if that is so many bytes at least. Where it ends
// because the disk is busy b.next stands at the first chunk that is left.
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
			d.diskErr = d.put(d.xorb, news.Slice(r), func() {})
		}
		if errors.Is(d.diskErr, disk.ErrBusy) {
			d.next = r.Start
			return
		}
	}
	d.next = run.Chunks.End
}

// flush has those chunks of a run kept later that keep has left.
func (d *download) storeLater(run *xorb.Run) {
	if run == nil || run.Chunks.End <= d.next {
		return
	}
	t, rest := &d.c.fetches, run.Slice(codec.ChunkRange{Start: d.next, End: run.Chunks.End})
	later := &download{c: d.c, xorb: d.xorb, next: d.next, put: d.c.putWaiting(t.writes.drainCtx)}
	t.enqueueRun(rest, func() {
		if later.store(rest, 1); errors.Is(later.diskErr, disk.ErrBusy) {
			t.skip(codec.ChunkRange{Start: later.next, End: rest.Chunks.End})
		}
	})
}

// verify returns the first chunks of r, up to one that is damaged.
func (d *download) verify(run *xorb.Run, r codec.ChunkRange) codec.ChunkRange {
	for i := r.Start; i < r.End; i++ {
		if err := run.Unpack(i, d.buf[:run.Size(i)]); err != nil {
			d.corrupt = fmt.Errorf("xorb %s: %w", d.xorb, err)
			r.End = i
		}
	}
	return r
}
