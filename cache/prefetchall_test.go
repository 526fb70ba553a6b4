package cache

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
)

// plan returns a plan of chunks with n bytes each.
func (s xorbSource) plan(n int, all ...codec.ChunkRange) *Plan {
	p := &Plan{}
	for _, r := range all {
		p.Add(s.Hash(), r, int64(n*r.Len()))
	}
	return p
}

// Planned chunks are fetched once, in few requests, and may be read in any order.
func TestPrefetchAllAnyOrder(t *testing.T) {
	x := store(t, false, same(256, 10_000)...)
	src := hook(x.src, nil)
	c := open(t, src, Options{})
	a := c.NewReadahead()
	defer a.Close()
	all := rand.New(rand.NewPCG(1, 2)).Perm(256)
	p := &Plan{}
	for _, i := range all {
		p.Add(x.Hash(), chunks(i, i+1), 10_000)
	}
	a.PrefetchAll(t.Context(), p)
	for _, i := range all {
		x.read(t, c, chunks(i, i+1), 0, 10_000)
	}
	if n, chunks := src.requests.Load(), src.chunks.Load(); n != 256/maxFetch || chunks != 256 {
		t.Errorf("%d requests for %d chunks, want %d for each chunk once", n, chunks, 256/maxFetch)
	}
	if got := c.Stats(); got.AheadBytes != 0 || got.AheadHits != 256 {
		t.Errorf("stats = %+v, want 256 hits and nothing reserved", got)
	}
}

// Unread chunks of a plan are dropped with the third plan after it.
func TestPrefetchAllSkipped(t *testing.T) {
	x := store(t, false, same(400, 1000)...)
	c := open(t, x.src, Options{})
	a := c.NewReadahead()
	defer a.Close()
	for at := 0; at < 400; at += 40 {
		a.PrefetchAll(t.Context(), x.plan(1000, chunks(at, at+10), chunks(at+20, at+30)))
		x.read(t, c, chunks(at, at+2), 0, 2000) // and no others
	}
	if n := len(a.reservations); n > maxReorder+1 {
		t.Errorf("%d reservations are left, want at most %d", n, maxReorder+1)
	}
}

// Plans leave slots at the origin for waiting readers.
func TestPrefetchAllYields(t *testing.T) {
	x := store(t, false, same(800, 1000)...)
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int64
		src := hook(x.src, func(ctx context.Context, r codec.ChunkRange) error {
			n := running.Add(1)
			defer running.Add(-1)
			most.Store(max(most.Load(), n))
			return slow(time.Second)(ctx, r)
		})
		c, done := openHere(t, src, Options{})
		defer done()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		streams := []*Readahead{c.NewReadahead(), c.NewReadahead()}
		for i, a := range streams {
			p := &Plan{}
			for at := 400 * i; at < 400*i+300; at += 6 {
				p.Add(x.Hash(), chunks(at, at+1), 128<<10) // too large for a gap
			}
			go func() {
				a.PrefetchAll(ctx, p)
				ended <- struct{}{}
			}()
		}
		synctest.Wait()
		if n := most.Load(); n != maxPlanned {
			t.Errorf("%d requests at once, want %d", n, maxPlanned)
		}
		start := time.Now()
		x.read(t, c, chunks(799, 800), 0, 1000)
		if took := time.Since(start); took != time.Second {
			t.Errorf("the read of another chunk took %v, want one round trip", took)
		}
		cancel()
		<-ended
		<-ended
		for _, a := range streams {
			a.Close()
		}
	})
}

// The request of a plan is readahead until a reader joins it.
func TestPrefetchAllAwaited(t *testing.T) {
	x := store(t, false, same(4, 1000)...)
	synctest.Test(t, func(t *testing.T) {
		var before, after bool
		src := hook(x.src, func(ctx context.Context, r codec.ChunkRange) error {
			before = origin.IsAwaited(ctx)
			time.Sleep(time.Minute)
			after = origin.IsAwaited(ctx)
			return nil
		})
		c, done := openHere(t, src, Options{})
		defer done()
		a := c.NewReadahead()
		defer a.Close()
		a.PrefetchAll(t.Context(), x.plan(1000, chunks(0, 4)))
		time.Sleep(time.Second)
		x.read(t, c, chunks(2, 3), 0, 1000)
		if before || !after {
			t.Errorf("awaited: %v before the read, %v after it", before, after)
		}
	})
}

// With little room a plan waits for the arrival of its first chunks, which then take less.
func TestPrefetchAllLittleRoom(t *testing.T) {
	x := store(t, false, same(200, 1000)...)
	synctest.Test(t, func(t *testing.T) {
		src := hook(x.src, slow(time.Second))
		c, done := openHere(t, src, Options{AheadBytes: 2 << 20})
		defer done()
		a := c.NewReadahead()
		defer a.Close()
		p := &Plan{}
		for at := 0; at < 200; at += 8 {
			p.Add(x.Hash(), chunks(at, at+1), 100_000) // an estimate
		}
		a.PrefetchAll(t.Context(), p)
		time.Sleep(time.Second)
		for at := 0; at < 200; at += 8 {
			x.read(t, c, chunks(at, at+1), 0, 1000)
		}
		if n := c.Stats().AheadHits; n != 25 {
			t.Errorf("%d chunks were prefetched, want 25", n)
		}
	})
}

// A plan ends with its context and has no effect after Close or for a local origin.
func TestPrefetchAllEnds(t *testing.T) {
	x := store(t, false, same(100, 1000)...)
	src := hook(x.src, slow(time.Hour))
	c := open(t, src, Options{})
	a := c.NewReadahead()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 * maxPlanned {
		a.PrefetchAll(ctx, x.plan(128<<10, chunks(0, 1), chunks(50, 51)))
	}
	a.Close()
	a.PrefetchAll(t.Context(), x.plan(1000, chunks(70, 80)))
	if used := c.budget.inUse(); used != 0 || len(c.planSlots) > maxPlanned {
		t.Errorf("%d bytes and %d slots are in use", used, len(c.planSlots))
	}
	local := store(t, true, same(4, 1000)...)
	src = hook(local.src, nil)
	c = open(t, src, Options{})
	c.NewReadahead().PrefetchAll(t.Context(), local.plan(1000, chunks(0, 4)))
	if n := src.requests.Load(); n != 0 {
		t.Errorf("%d requests to a local origin", n)
	}
}
