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
	t := &transfer{c: c, xorb: x, wake: make(chan struct{}, 1)}
	s := &runStorer{c: c, xorb: x, drops: c.drops.Count(), next: r.Start, put: c.putWaiting(ctx)}
	storing := make(chan struct{})
	go func() {
		defer close(storing)
		for range t.wake {
			s.store(t.latest(), downloadStep)
		}
	}()
	run, err := t.request(ctx, r)
	close(t.wake)
	<-storing
	s.store(run, 1)
	s.storeLater(run)
	if s.diskErr == nil {
		s.diskErr = c.packed.Flush(ctx)
	}
	if err = errors.Join(err, s.corrupt); err != nil {
		return &replicaError{of, err}
	}
	return s.diskErr
}

// downloadStep is how many bytes must arrive before they are stored ahead of the others.
const downloadStep = 512 << 10

// A transfer requests packed chunks of a xorb that are not on disk.
type transfer struct {
	c    *Cache
	xorb codec.Hash
	wake chan struct{} // partial has changed; nil: no goroutine waits

	mu      sync.Mutex
	partial *xorb.Run // the first chunks so far; may be nil; guarded by mu
}

// request requests chunks. After an error it returns the first ones that arrived, or nil.
func (t *transfer) request(ctx context.Context, r codec.ChunkRange) (run *xorb.Run, err error) {
	run, _, err = t.c.chunksWithCopies(ctx, t.xorb, r, origin.ReadOptions{
		Buffer:    func(n int) []byte { return make([]byte, n) },
		OnPartial: t.setPartial,
	})
	if err != nil {
		return t.latest(), err
	}
	return run, nil
}

func (t *transfer) setPartial(run *xorb.Run) {
	t.mu.Lock()
	t.partial = run
	t.mu.Unlock()
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

func (t *transfer) latest() *xorb.Run {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.partial
}

// A runStorer stores a run of chunks of a xorb in the disk cache, in order. One goroutine uses it at a time.
type runStorer struct {
	c     *Cache
	xorb  codec.Hash
	put   putFunc
	drops int64 // of the Cache, when the chunks were requested

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

// store stores the new chunks of a run if they have at least least bytes. If the disk is busy,
// s.next is the first chunk that is left.
func (s *runStorer) store(run *xorb.Run, least int) {
	defer flight.Guard(&s.corrupt)
	if run == nil || run.Chunks.End <= s.next {
		return
	}
	news := run.Slice(codec.ChunkRange{Start: s.next, End: run.Chunks.End})
	if len(news.Packed) < least {
		return
	}
	if s.buf == nil {
		s.buf = make([]byte, codec.MaxChunkSize)
	}
	good := func(r codec.ChunkRange) codec.ChunkRange { return s.verify(news, r) }
	for r := range verifiedParts(s.c.packed.Missing(s.xorb, news.Chunks), good) {
		if s.diskErr == nil {
			part := news.Slice(r)
			s.diskErr = s.c.put(s.drops, s.xorb, part, func() error { return s.put(s.xorb, part, func() {}) })
		}
		if errors.Is(s.diskErr, disk.ErrBusy) {
			s.next = r.Start
			return
		}
	}
	s.next = run.Chunks.End
}

// storeLater queues the chunks of a run that store has left.
func (s *runStorer) storeLater(run *xorb.Run) {
	if run == nil || run.Chunks.End <= s.next {
		return
	}
	t, rest := &s.c.fetches, run.Slice(codec.ChunkRange{Start: s.next, End: run.Chunks.End})
	later := &runStorer{c: s.c, xorb: s.xorb, drops: s.drops, next: s.next, put: s.c.putWaiting(t.writes.drainCtx)}
	t.enqueueRun(rest, func() {
		if later.store(rest, 1); errors.Is(later.diskErr, disk.ErrBusy) {
			t.skip(codec.ChunkRange{Start: later.next, End: rest.Chunks.End})
		}
	})
}

// verify returns the first chunks of r, up to a corrupt one.
func (s *runStorer) verify(run *xorb.Run, r codec.ChunkRange) codec.ChunkRange {
	for i := r.Start; i < r.End; i++ {
		if _, err := s.c.verify(s.xorb, run, i, s.buf[:run.Size(i)], false); err != nil {
			s.corrupt = fmt.Errorf("xorb %s: %w", s.xorb, err)
			r.End = i
		}
	}
	return r
}
