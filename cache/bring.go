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

// Bring asks a far origin for chunks of a xorb, with one request, and puts on disk those
// that are not there, as they come. It is for whoever wants them there, not the bytes: it
// returns when they can be found, however long the disk takes, or ctx ends. It asks for all
// of r, so that whoever calls it must know that some of them are missing. Whatever ends it,
// what has come by then and is what its hash says is kept, a little later if the disk has no
// room for it now. The error is for Again, or says that the disk or ctx ended it.
func (c *Cache) Bring(ctx context.Context, x codec.Hash, r codec.ChunkRange) error {
	if c.packed == nil {
		return disk.ErrClosed
	}
	of := c.copies.current(x)
	b := &bringing{c: c, xorb: x, next: r.Start, wake: make(chan struct{}, 1), lend: c.patiently(ctx)}
	keeping := make(chan struct{})
	go func() {
		defer close(keeping)
		for range b.wake {
			b.keep(b.latest(), bringStep)
		}
	}()
	run, err := b.ask(ctx, r)
	close(b.wake)
	<-keeping
	b.keep(run, 1)
	b.handOver(run)
	if b.refused == nil {
		b.refused = c.packed.Flush(ctx)
	}
	if err = errors.Join(err, b.damaged); err != nil {
		return &copyError{of, err}
	}
	return b.refused
}

// bringStep is how many bytes must have come for them to be put on disk before the others.
const bringStep = 512 << 10

// A bringing is packed chunks of a xorb on their way to the disk.
type bringing struct {
	c    *Cache
	xorb codec.Hash
	lend lending

	mu   sync.Mutex
	some *xorb.Run     // the first chunks, as far as they have come; nil: none; guarded by mu
	wake chan struct{} // something has come

	// Of whoever keeps them, one at a time:
	next    uint32 // those before it are kept, or damaged
	buf     []byte
	damaged error
	refused error // why the disk does not keep them
}

// A lending lends chunks of a xorb to the disk, as disk.Store.PutRunNoCopy.
type lending func(x codec.Hash, run *xorb.Run, free func()) error

// patiently returns a lending that waits for the disk until ctx ends.
func (c *Cache) patiently(ctx context.Context) lending {
	return func(x codec.Hash, run *xorb.Run, free func()) error {
		return c.packed.PutRunWait(ctx, x, run, free)
	}
}

// ask asks the origin for chunks. After an error it returns the first ones, as far as they
// came, or nil.
func (b *bringing) ask(ctx context.Context, r codec.ChunkRange) (run *xorb.Run, err error) {
	b.c.stats.misses.Add(int64(r.Len()))
	run, err = b.c.src.Chunks(ctx, b.xorb, r, origin.ReadOptions{
		Buffer:    func(n int) []byte { return make([]byte, n) },
		OnPartial: b.came,
	})
	if err != nil {
		return b.latest(), err
	}
	return run, nil
}

func (b *bringing) came(run *xorb.Run) {
	b.mu.Lock()
	b.some = run
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *bringing) latest() *xorb.Run {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.some
}

// keep puts on disk what of a run is new, if that is so many bytes at least. Where it ends
// because the disk is busy b.next stands at the first chunk that is left.
func (b *bringing) keep(run *xorb.Run, least int) {
	defer flight.Guard(&b.damaged)
	if run == nil || run.Chunks.End <= b.next {
		return
	}
	news := run.Slice(codec.ChunkRange{Start: b.next, End: run.Chunks.End})
	if len(news.Packed) < least {
		return
	}
	if b.buf == nil {
		b.buf = make([]byte, codec.MaxChunkSize)
	}
	good := func(r codec.ChunkRange) codec.ChunkRange { return b.good(news, r) }
	for r := range b.c.absentVerified(b.xorb, news.Chunks, good) {
		if b.refused == nil {
			b.refused = b.lend(b.xorb, news.Slice(r), func() {})
		}
		if errors.Is(b.refused, disk.ErrBusy) {
			b.next = r.Start
			return
		}
	}
	b.next = run.Chunks.End
}

// flush has those chunks of a run kept later that keep has left.
func (b *bringing) handOver(run *xorb.Run) {
	if run == nil || run.Chunks.End <= b.next {
		return
	}
	t, rest := &b.c.fetches, run.Slice(codec.ChunkRange{Start: b.next, End: run.Chunks.End})
	later := &bringing{c: b.c, xorb: b.xorb, next: b.next, lend: b.c.patiently(t.writes.drainCtx)}
	t.enqueueRun(rest, func() {
		if later.keep(rest, 1); errors.Is(later.refused, disk.ErrBusy) {
			t.skip(codec.ChunkRange{Start: later.next, End: rest.Chunks.End})
		}
	})
}

// good returns the first chunks of r, up to one that is damaged.
func (b *bringing) good(run *xorb.Run, r codec.ChunkRange) codec.ChunkRange {
	for i := r.Start; i < r.End; i++ {
		if err := run.Unpack(i, b.buf[:run.Size(i)]); err != nil {
			b.damaged = fmt.Errorf("xorb %s: %w", b.xorb, err)
			r.End = i
		}
	}
	return r
}
