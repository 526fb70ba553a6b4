package cache

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/xorb"
)

func slow(d time.Duration) func(context.Context, codec.ChunkRange) error {
	return func(ctx context.Context, _ codec.ChunkRange) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Prefetched chunks are present when they are read, and were requested once.
func TestPrefetch(t *testing.T) {
	x := store(t, false, same(20, 1000)...)
	synctest.Test(t, func(t *testing.T) {
		src := hook(x.src, slow(time.Second))
		c, done := openHere(t, src, Options{})
		defer done()
		a := c.NewReadahead()
		defer a.Close()
		start := time.Now()
		if !a.Prefetch(x.Hash(), chunks(0, 10), 0) || !a.Prefetch(x.Hash(), chunks(5, 20), 0) {
			t.Error("Prefetch = false")
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("Prefetch took %v", took)
		}
		time.Sleep(2 * time.Second)
		if got := c.Stats().AheadBytes; got <= 0 || got > 1<<20 {
			t.Errorf("%d bytes are held", got)
		}
		start = time.Now()
		for i := 0; i < 20; i += 2 {
			x.read(t, c, chunks(i, i+2), 0, 2000)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("the reads took %v", took)
		}
		if n := src.chunks.Load(); n != 20 {
			t.Errorf("%d chunks were requested, want each once", n)
		}
		if got := c.Stats(); got.AheadHits != 20 || got.AheadBytes != 0 {
			t.Errorf("stats = %+v, want 20 hits and nothing held", got)
		}
		if len(c.fetches.byXorb) != 0 {
			t.Errorf("%d fetches are left", len(c.fetches.byXorb))
		}
	})
}

// A reader that comes while the chunks are on their way waits for them and no longer.
func TestPrefetchInProgress(t *testing.T) {
	x := store(t, false, same(20, 1000)...)
	synctest.Test(t, func(t *testing.T) {
		src := hook(x.src, slow(10*time.Second))
		c, done := openHere(t, src, Options{})
		defer done()
		a := c.NewReadahead()
		defer a.Close()
		a.Prefetch(x.Hash(), chunks(4, 20), 0)
		time.Sleep(9 * time.Second)
		start := time.Now()
		x.read(t, c, chunks(4, 6), 0, 2000)
		if took := time.Since(start); took != time.Second {
			t.Errorf("the read took %v, want 1s", took)
		}
		start = time.Now()
		x.read(t, c, chunks(0, 4), 0, 4000) // not wanted: no read gets slower
		if took := time.Since(start); took != 10*time.Second {
			t.Errorf("the other read took %v, want 10s", took)
		}
	})
}

// Reads of one stream overtake each other, also at the end of what was fetched.
func TestReadsOvertakeEachOther(t *testing.T) {
	x := store(t, false, same(40, 1000)...)
	src := hook(x.src, nil)
	c := open(t, src, Options{MemoryBytes: -1})
	a := c.NewReadahead()
	defer a.Close()
	for i := 0; i < 40; i += 10 {
		a.Prefetch(x.Hash(), chunks(i, i+10), 0)
	}
	for _, i := range []int{2, 0, 4, 8, 6, 12, 10, 18, 16, 14, 20, 28, 26, 24, 22, 38, 36, 30, 32, 34} {
		x.read(t, c, chunks(i, i+2), 0, 2000)
	}
	if n := src.chunks.Load(); n != 40 {
		t.Errorf("%d chunks were requested, want each once", n)
	}
	if got := c.Stats().AheadBytes; got != 0 {
		t.Errorf("%d bytes are held", got)
	}
}

// A request whose first chunks were read continues, although readers overtake it. The other chunks
// are not requested again.
func TestReadsOvertakeSlowRequest(t *testing.T) {
	x := store(t, false, same(60, 1000)...)
	synctest.Test(t, func(t *testing.T) {
		src := hook(stallingSource{x.src}, nil)
		c, done := openHere(t, src, Options{MemoryBytes: -1})
		defer done()
		a := c.NewReadahead()
		defer a.Close()
		for i := 0; i < 60; i += 10 {
			a.Prefetch(x.Hash(), chunks(i, i+10), 0)
		}
		x.read(t, c, chunks(0, 4), 0, 4000)
		for i := 10; i < 60; i += 2 {
			x.read(t, c, chunks(i, i+2), 0, 2000)
		}
		x.read(t, c, chunks(4, 10), 0, 6000)
		if n := src.chunks.Load(); n != 60 {
			t.Errorf("%d chunks were requested, want each once", n)
		}
		if got := c.Stats().AheadBytes; got != 0 {
			t.Errorf("%d bytes are held", got)
		}
	})
}

// A stallingSource delivers the first half of the chunks from 0 on an hour before the others.
type stallingSource struct{ origin.Source }

func (s stallingSource) Chunks(ctx context.Context, x codec.Hash, r codec.ChunkRange, o origin.ReadOptions) (*xorb.Run, error) {
	run, err := s.Source.Chunks(ctx, x, r, o)
	if err != nil || r.Start > 0 {
		return run, err
	}
	o.OnPartial(run.Slice(codec.ChunkRange{Start: r.Start, End: r.Start + uint32(r.Len()/2)}))
	return run, slow(time.Hour)(ctx, r)
}

// A fetch that has ended does not keep a partial run, which may be a part of a large transfer.
func TestPartialIsDropped(t *testing.T) {
	x := store(t, false, same(20, 1000)...)
	c := open(t, partialSource{x.src}, Options{})
	a := c.NewReadahead()
	defer a.Close()
	a.Prefetch(x.Hash(), chunks(0, 20), 0)
	x.read(t, c, chunks(0, 1), 0, 1000) // the fetch stays for the other chunks
	c.fetches.running.Wait()
	c.fetches.mu.Lock()
	defer c.fetches.mu.Unlock()
	if f := c.fetches.byXorb[x.Hash()]; f == nil || f.partial != nil {
		t.Errorf("the fetch is %+v", f)
	}
}

// A partialSource delivers all chunks but the last one before the others.
type partialSource struct{ origin.Source }

func (s partialSource) Chunks(ctx context.Context, x codec.Hash, r codec.ChunkRange, o origin.ReadOptions) (*xorb.Run, error) {
	run, err := s.Source.Chunks(ctx, x, r, o)
	if err == nil && r.Len() > 1 {
		o.OnPartial(run.Slice(codec.ChunkRange{Start: r.Start, End: r.End - 1}))
	}
	return run, err
}

// A reader that skips chunks does not hold what it skipped.
func TestSkippedChunks(t *testing.T) {
	x := store(t, false, same(100, 1000)...)
	c := open(t, x.src, Options{})
	a := c.NewReadahead()
	defer a.Close()
	for i := 0; i < 100; i += 10 {
		a.Prefetch(x.Hash(), chunks(i, i+10), 0)
		x.read(t, c, chunks(i, i+2), 0, 2000) // and not the other eight
	}
	if n := len(a.reservations); n > maxReorder+2 {
		t.Errorf("%d holds are left, want %d at most", n, maxReorder+2)
	}
}

// Chunks that are in memory are not requested again.
func TestPrefetchInMemory(t *testing.T) {
	x := store(t, false, same(20, 1000)...)
	src := hook(x.src, nil)
	c := open(t, src, Options{})
	x.read(t, c, chunks(0, 5), 0, 4500)
	c.memory.settle()
	a := c.NewReadahead()
	defer a.Close()
	a.Prefetch(x.Hash(), chunks(3, 8), 0)
	for i := 0; i < 8; i++ {
		x.read(t, c, chunks(i, i+1), 0, 1000)
	}
	if n := src.chunks.Load(); n != 8 {
		t.Errorf("%d chunks were requested, want each once", n)
	}
}

// Close drops unread chunks, ends running fetches, and is final.
func TestAheadClose(t *testing.T) {
	x := store(t, false, same(40, 1000)...)
	synctest.Test(t, func(t *testing.T) {
		src := hook(x.src, slow(time.Hour))
		c, done := openHere(t, src, Options{})
		defer done()
		a := c.NewReadahead()
		a.Prefetch(x.Hash(), chunks(0, 20), 0)
		synctest.Wait()
		start := time.Now()
		a.Close()
		synctest.Wait()
		if n := len(c.fetches.byXorb); n != 0 || c.Stats().AheadBytes != 0 {
			t.Errorf("%d fetches and %d bytes are left", n, c.Stats().AheadBytes)
		}
		if a.Prefetch(x.Hash(), chunks(20, 40), 0) {
			t.Error("Prefetch after Close = true")
		}
		if n := src.requests.Load(); n != 1 {
			t.Errorf("%d requests, want 1: none after Close", n)
		}
		c.fetches.running.Wait()
		if took := time.Since(start); took != 0 {
			t.Errorf("the request went on for %v", took)
		}
	})
}

// Closing does not take from a reader what it waits for.
func TestAheadCloseWhileRead(t *testing.T) {
	x := store(t, false, same(4, 1000)...)
	synctest.Test(t, func(t *testing.T) {
		c, done := openHere(t, origintest.Fail(x.src, "chunks: slow 1s"), Options{})
		defer done()
		a := c.NewReadahead()
		a.Prefetch(x.Hash(), chunks(0, 4), 0)
		var reader sync.WaitGroup
		reader.Go(func() { x.read(t, c, chunks(0, 4), 0, 4000) })
		synctest.Wait()
		a.Close()
		reader.Wait()
	})
}

// A failed prefetch takes no room, and the reader sends its own request.
func TestPrefetchFails(t *testing.T) {
	for _, rule := range []string{"chunks 1: unavailable", "chunks 1: panic", "chunks 1: corrupt"} {
		t.Run(rule, func(t *testing.T) {
			x := store(t, false, same(4, 1000)...)
			c := open(t, origintest.Fail(x.src, rule), Options{})
			a := c.NewReadahead()
			defer a.Close()
			a.Prefetch(x.Hash(), chunks(0, 4), 0)
			c.fetches.running.Wait()
			x.try(t.Context(), c, chunks(0, 4), 0, 4000)
			x.read(t, c, chunks(0, 4), 0, 4000)
			if got := c.Stats().AheadBytes; got != 0 || len(a.reservations) != 0 {
				t.Errorf("%d bytes and %d holds are left", got, len(a.reservations))
			}
		})
	}
}

// A damaged chunk far ahead does not harm the reads before it.
func TestPrefetchDamaged(t *testing.T) {
	x := store(t, false, same(20, 1000)...)
	c := open(t, copiesOf(t, x.Xorb, false, []int{15}), Options{})
	a := c.NewReadahead()
	defer a.Close()
	a.Prefetch(x.Hash(), chunks(0, 20), 0)
	for i := range 20 {
		err := x.try(t.Context(), c, chunks(i, i+1), 0, 1000)
		if (i == 15) != errors.Is(err, codec.ErrCorrupt) || (i != 15) != (err == nil) {
			t.Errorf("chunk %d: %v", i, err)
		}
	}
}

// Concurrent streams never exceed the budget.
func TestBudget(t *testing.T) {
	x := store(t, false, same(512, 1000)...)
	for _, budget := range []int64{-1, 1, maxPacked, 1 << 20, 8 << 20} {
		t.Run(fmt.Sprint(budget), func(t *testing.T) {
			c := open(t, x.src, Options{AheadBytes: budget, MemoryBytes: 1 << 20})
			var streams sync.WaitGroup
			for i := range 16 {
				streams.Go(func() {
					a := c.NewReadahead()
					defer a.Close()
					for at := 32 * i; at < 32*i+32; at += 2 {
						a.Prefetch(x.Hash(), chunks(at+2, min(at+20, 512)), 0)
						if used := c.budget.inUse(); used > max(0, budget) {
							t.Errorf("%d bytes of %d are in use", used, budget)
						}
						x.read(t, c, chunks(at, at+2), 0, 2000)
					}
				})
			}
			streams.Wait()
			c.fetches.running.Wait() // canceled ones have no stream
			if used := c.budget.inUse(); used != 0 || len(c.budget.streams) != 0 {
				t.Errorf("%d bytes and %d streams are left", used, len(c.budget.streams))
			}
			if n := len(c.fetches.byXorb); n != 0 {
				t.Errorf("%d fetches are left", n)
			}
		})
	}
}

// A stream at rest gives its part back when others need it.
func TestIdleStreamHoldsNothing(t *testing.T) {
	x := store(t, false, same(600, 10_000)...)
	c := open(t, x.src, Options{AheadBytes: 4 << 20})
	idle, busy := c.NewReadahead(), c.NewReadahead()
	defer idle.Close()
	defer busy.Close()
	for at := 0; idle.Prefetch(x.Hash(), chunks(at, at+8), 0); at += 8 {
		c.fetches.running.Wait()
	}
	held := func(a *Readahead) int64 {
		c.budget.mu.Lock()
		defer c.budget.mu.Unlock()
		return a.reservedLocked()
	}
	if held(idle) < 2<<20 {
		t.Fatalf("the first stream holds %d bytes", held(idle))
	}
	for at := 400; at < 600; at += 4 {
		for ahead := at + 4; ahead+4 <= min(at+100, 600) && busy.Prefetch(x.Hash(), chunks(ahead, ahead+4), 0); ahead += 4 {
			c.fetches.running.Wait()
		}
		x.read(t, c, chunks(at, at+4), 0, 40_000)
	}
	if n := held(idle); n > 2<<20 {
		t.Errorf("the idle stream still holds %d bytes", n)
	}
}

// Streams that are all in use share the room, and nothing is fetched twice.
func TestFairShares(t *testing.T) {
	x := store(t, false, same(512, 1000)...)
	src := hook(x.src, nil)
	c := open(t, src, Options{AheadBytes: 16 << 20})
	var streams [16]*Readahead
	for i := range streams {
		streams[i] = c.NewReadahead()
		defer streams[i].Close()
	}
	for step := range 32 {
		for i, a := range streams {
			at := 32*i + step
			a.Prefetch(x.Hash(), chunks(at, min(at+8, 32*i+32)), 0)
			x.read(t, c, chunks(at, at+1), 0, 1000)
		}
	}
	if n := src.chunks.Load(); n != 512 {
		t.Errorf("%d chunks were requested, want 512: each once", n)
	}
}

// A local origin has no readahead.
func TestPrefetchNear(t *testing.T) {
	x := store(t, true, same(4, 1000)...)
	src := hook(x.src, nil)
	c := open(t, src, Options{})
	a := c.NewReadahead()
	defer a.Close()
	if !a.Prefetch(x.Hash(), chunks(0, 4), 0) || src.requests.Load() != 0 {
		t.Errorf("%d requests, want none", src.requests.Load())
	}
}

// Closing the cache ends what is still on its way.
func TestCloseEndsFetches(t *testing.T) {
	x := store(t, false, same(4, 1000)...)
	synctest.Test(t, func(t *testing.T) {
		c, done := openHere(t, origintest.Fail(x.src, "chunks: hang"), Options{})
		c.NewReadahead().Prefetch(x.Hash(), chunks(0, 4), 0)
		synctest.Wait()
		done()
	})
}
