package cache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/xorb"
)

// A readCall is one Read of a property test.
type readCall struct {
	R       codec.ChunkRange
	Skip, N int
}

// drawRead draws a read of any part of a xorb. Its range may have more chunks than it needs.
func drawRead(x xorbSource) *rapid.Generator[readCall] {
	return rapid.Custom(func(t *rapid.T) readCall {
		start := rapid.IntRange(0, len(x.Chunks)-1).Draw(t, "start")
		end := rapid.IntRange(start+1, len(x.Chunks)).Draw(t, "end")
		size := len(x.Unpacked(chunks(start, end)))
		skip := rapid.IntRange(0, size).Draw(t, "skip")
		return readCall{chunks(start, end), skip, rapid.IntRange(0, size-skip).Draw(t, "n")}
	})
}

// Whatever is read, and whatever was read before or is read at the same time, the bytes
// are those of the chunks.
func TestReadGivesTheBytes(t *testing.T) {
	sizes := []int{1, 2, 3, 1000, 100, 8192, 5000, 1, 700, 131072, 9, 10, 11, 4000, 3000, 2000, 70000, 1}
	local, remote := store(t, true, sizes...), store(t, false, sizes...)
	rapid.Check(t, func(rt *rapid.T) {
		x := remote
		if rapid.Bool().Draw(rt, "local") {
			x = local
		}
		memory := rapid.SampledFrom([]int64{-1, 1, 2000, 1 << 20, 0}).Draw(rt, "memory")
		c, done := openHere(t, x.src, Options{MemoryBytes: memory})
		defer done()
		calls := rapid.SliceOfN(drawRead(x), 1, 12).Draw(rt, "reads")
		readers := rapid.IntRange(1, 4).Draw(rt, "readers")
		var all sync.WaitGroup
		for i := range readers {
			all.Go(func() {
				for j := range calls {
					call := calls[(i*5+j)%len(calls)]
					if err := x.try(t.Context(), c, call.R, call.Skip, call.N); err != nil {
						t.Errorf("Read%+v: %v", call, err)
					}
				}
			})
		}
		all.Wait()
		if t.Failed() {
			rt.FailNow()
		}
	})
}

// Every range of a small xorb.
func TestReadEveryRange(t *testing.T) {
	for _, local := range []bool{true, false} {
		x := store(t, local, 3, 1, 4, 2)
		c := open(t, x.src, Options{})
		for start := range x.Chunks {
			for end := start + 1; end <= len(x.Chunks); end++ {
				size := len(x.Unpacked(chunks(start, end)))
				for skip := range size + 1 {
					for n := range size - skip + 1 {
						x.read(t, c, chunks(start, end), skip, n)
					}
				}
			}
		}
	}
}

func TestReadRefuses(t *testing.T) {
	x := store(t, true, 10, 20)
	c := open(t, x.src, Options{})
	tests := []struct {
		name string
		r    codec.ChunkRange
		skip int64
		n    int
	}{
		{"more bytes than there are", chunks(0, 2), 0, 31},
		{"more bytes than there are behind skip", chunks(0, 2), 25, 6},
		{"nothing behind skip", chunks(0, 1), 11, 1},
		{"no chunks", chunks(1, 1), 0, 0},
		{"backwards", chunks(2, 1), 0, 1},
		{"negative skip", chunks(0, 1), -1, 1},
		{"chunks that are not there", chunks(1, 3), 0, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := c.Read(t.Context(), x.Hash(), tt.r, tt.skip, make([]byte, tt.n)); err == nil {
				t.Error("Read = nil, want an error")
			}
		})
	}
	if err := c.Read(t.Context(), codec.Hash{1}, chunks(0, 1), 0, make([]byte, 1)); !errors.Is(err, origin.ErrNotFound) {
		t.Errorf("Read of no xorb = %v, want %v", err, origin.ErrNotFound)
	}
}

// TestCosts counts the requests, requested chunks and unpacked chunks of some reads.
func TestCosts(t *testing.T) {
	type cost struct{ requests, chunks, unpacked int64 }
	tests := []struct {
		name          string
		local, remote cost
		reads         func(read func(start, end, skip, n int))
	}{
		{"one chunk", cost{1, 1, 1}, cost{1, 1, 1}, func(read func(start, end, skip, n int)) {
			read(0, 1, 0, 1000)
		}},
		{"parts of one chunk", cost{1, 1, 1}, cost{1, 1, 1}, func(read func(start, end, skip, n int)) {
			for i := range 10 {
				read(3, 4, 100*i, 100)
			}
		}},
		{"one request for all that is missing", cost{1, 10, 10}, cost{1, 10, 10}, func(read func(start, end, skip, n int)) {
			read(0, 10, 0, 10_000)
		}},
		{"the ends stay in memory", cost{2, 3 + 2, 3 + 2}, cost{2, 3 + 2, 3 + 2}, func(read func(start, end, skip, n int)) {
			read(0, 3, 0, 2500)
			read(2, 5, 500, 2000)
		}},
		{"a hole in memory", cost{3, 1 + 2 + 2, 5}, cost{2, 1 + 5, 5}, func(read func(start, end, skip, n int)) {
			read(2, 3, 10, 10)
			read(0, 5, 0, 5000)
		}},
		{"a large hole in memory", cost{8, 6 + 2 + 2, 10}, cost{8, 6 + 2 + 2, 10}, func(read func(start, end, skip, n int)) {
			for i := 2; i < 8; i++ {
				read(i, i+1, 10, 10)
			}
			read(0, 10, 0, 10_000)
		}},
		{"a stream that ends in the middle of chunks", cost{8, 20, 20}, cost{8, 20, 20}, func(read func(start, end, skip, n int)) {
			for off := 0; off < 20_000; off += 2500 {
				start, end := off/1000, (off+2500+999)/1000
				read(start, end, off%1000, 2500)
			}
		}},
		{"long reads are several requests", cost{2, 200, 200}, cost{2, 200, 200}, func(read func(start, end, skip, n int)) {
			read(0, 200, 0, 200_000)
		}},
	}
	for _, tt := range tests {
		for place, want := range map[string]cost{"local": tt.local, "remote": tt.remote} {
			t.Run(tt.name+" "+place, func(t *testing.T) {
				x := store(t, place == "local", same(200, 1000)...)
				src := hook(x.src, nil)
				c := open(t, src, Options{})
				tt.reads(func(start, end, skip, n int) {
					x.read(t, c, chunks(start, end), skip, n)
					c.memory.settle()
				})
				got := cost{src.requests.Load(), src.chunks.Load(), c.stats.unpacked.Load()}
				if got != want {
					t.Errorf("cost %+v, want %+v", got, want)
				}
			})
		}
	}
}

// All chunks that were read from a remote origin stay in memory.
func TestFarKeepsAll(t *testing.T) {
	x := store(t, false, same(50, 1000)...)
	src := hook(x.src, nil)
	c := open(t, src, Options{})
	x.read(t, c, chunks(0, 50), 0, 50_000)
	c.memory.settle()
	x.read(t, c, chunks(0, 50), 0, 50_000)
	if n := src.requests.Load(); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
	if got := c.Stats(); got.MemoryHits != 50 || got.Misses != 50 {
		t.Errorf("stats = %+v, want 50 hits and 50 misses", got)
	}
}

// 100 readers want parts of the same chunks at the same time.
func TestReadersShare(t *testing.T) {
	for _, local := range []bool{true, false} {
		t.Run(fmt.Sprintf("local %v", local), func(t *testing.T) {
			x := store(t, local, same(3, 1000)...)
			synctest.Test(t, func(t *testing.T) {
				src := hook(x.src, slow(time.Second))
				c, done := openHere(t, src, Options{})
				defer done()
				var readers sync.WaitGroup
				for i := range 100 {
					readers.Go(func() { x.read(t, c, chunks(1, 2), i, 800) })
				}
				readers.Wait()
				if n := src.requests.Load(); n != 1 {
					t.Errorf("%d requests for 100 readers, want 1", n)
				}
				if n := c.stats.unpacked.Load(); n != 1 {
					t.Errorf("the chunk was unpacked %d times, want once", n)
				}
				if got := c.Stats(); got.Misses != 1 || got.Shared+got.MemoryHits != 99 {
					t.Errorf("stats = %+v, want 1 miss and 99 shared", got)
				}
			})
		})
	}
}

// Readers of whole chunks share the request, and unpack for themselves.
func TestReadersShareWholeChunks(t *testing.T) {
	x := store(t, false, same(10, 1000)...)
	synctest.Test(t, func(t *testing.T) {
		src := hook(x.src, slow(time.Second))
		c, done := openHere(t, src, Options{})
		defer done()
		var readers sync.WaitGroup
		for i := range 20 {
			readers.Go(func() { x.read(t, c, chunks(i%5, 10), 0, 1000*(10-i%5)) })
		}
		readers.Wait()
		if n := src.chunks.Load(); n != 10 {
			t.Errorf("%d chunks were requested, want each once", n)
		}
	})
}

// Two readers each unpack what the other waits for.
func TestReadersWaitForEachOther(t *testing.T) {
	x := store(t, false, same(64, 500)...)
	synctest.Test(t, func(t *testing.T) {
		src := hook(x.src, func(_ context.Context, r codec.ChunkRange) error {
			time.Sleep(time.Duration(r.Start%7) * time.Millisecond)
			return nil
		})
		c, done := openHere(t, src, Options{MemoryBytes: 1})
		defer done()
		var readers sync.WaitGroup
		for i := range 32 {
			readers.Go(func() {
				random := rand.New(rand.NewPCG(uint64(i), 1))
				for range 50 {
					start := random.IntN(60)
					x.read(t, c, chunks(start, start+4), 1+random.IntN(400), 1000)
				}
			})
		}
		readers.Wait()
	})
}

// A reader that gives up leaves at once, and the others have what they wanted.
func TestOneReaderGivesUp(t *testing.T) {
	for name, read := range map[string]readCall{
		"in the middle of a chunk": {chunks(1, 2), 10, 100},
		"whole chunks":             {chunks(0, 3), 0, 3000},
	} {
		for first := range 3 { // which of the readers it is
			t.Run(name, func(t *testing.T) {
				x := store(t, false, same(3, 1000)...)
				synctest.Test(t, func(t *testing.T) {
					c, done := openHere(t, origintest.Fail(x.src, "chunks: slow 10s"), Options{})
					defer done()
					var readers sync.WaitGroup
					for i := range 3 {
						time.Sleep(time.Millisecond)
						ctx := t.Context()
						if i == first {
							var cancel context.CancelFunc
							ctx, cancel = context.WithTimeout(ctx, time.Second)
							defer cancel()
						}
						readers.Go(func() {
							start := time.Now()
							err := x.try(ctx, c, read.R, read.Skip, read.N)
							switch took := time.Since(start); {
							case i != first && (err != nil || took > 10*time.Second):
								t.Errorf("reader %d, who stays: %v after %v", i, err, took)
							case i == first && (!errors.Is(err, context.DeadlineExceeded) || took != time.Second):
								t.Errorf("reader %d, who gives up: %v after %v", i, err, took)
							}
						})
					}
					readers.Wait()
				})
			})
		}
	}
}

// Without waiting readers the request is canceled.
func TestLastReaderGivesUp(t *testing.T) {
	x := store(t, false, same(3, 1000)...)
	synctest.Test(t, func(t *testing.T) {
		var cancelled time.Duration
		start := time.Now()
		src := hook(x.src, func(ctx context.Context, _ codec.ChunkRange) error {
			<-ctx.Done()
			cancelled = time.Since(start)
			return ctx.Err()
		})
		c, done := openHere(t, src, Options{})
		defer done()
		var readers sync.WaitGroup
		for i := range 3 {
			readers.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i+1)*time.Second)
				defer cancel()
				if err := x.try(ctx, c, chunks(0, 3), 5*i, 100); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("reader %d: %v", i, err)
				}
			})
		}
		readers.Wait()
		synctest.Wait()
		if cancelled != 3*time.Second {
			t.Errorf("cancelled after %v, want 3s", cancelled)
		}
		src.before = nil
		x.read(t, c, chunks(0, 3), 0, 3000) // and a later reader is served
		if len(c.fetches.byXorb) != 0 {
			t.Errorf("%d fetches are left", len(c.fetches.byXorb))
		}
	})
}

// The last reader may leave, and its buffer may be reused, at the moment when the fetch ends.
// The race detector checks this.
func TestLastReaderLeavesAtTheEnd(t *testing.T) {
	var f fetchTable
	f.init()
	for range 10_000 {
		parts, _ := f.join(nil, codec.Hash{}, chunks(0, 1), 0)
		p := parts[0]
		p.allocate(1000)
		var both sync.WaitGroup
		both.Go(func() { f.finish(p.fetch, &xorb.Run{}, nil) })
		both.Go(func() {
			f.release(p, nil)
			newBuffer(500).free()
		})
		both.Wait()
	}
}

// A failure is only for waiting readers, not for later ones.
func TestFailureIsNotKept(t *testing.T) {
	for _, local := range []bool{true, false} {
		rules := []string{"chunks 1: unavailable", "chunks 1: notfound", "chunks 1: corrupt", "chunks 1: panic"}
		if !local {
			rules[2] = "chunks 1-2: corrupt" // once may have been the way
		}
		for _, rule := range rules {
			t.Run(rule, func(t *testing.T) {
				x := store(t, local, same(3, 1000)...)
				c := open(t, origintest.Fail(x.src, rule), Options{})
				if err := x.try(t.Context(), c, chunks(0, 3), 7, 2000); err == nil {
					t.Error("the first Read = nil, want an error")
				}
				x.read(t, c, chunks(0, 3), 7, 2000)
				if len(c.fetches.byXorb) != 0 {
					t.Errorf("%d fetches are left", len(c.fetches.byXorb))
				}
			})
		}
	}
}

// Data that arrives corrupt from a remote origin is requested once more in total, not once per
// reader.
func TestDamageOnTheWay(t *testing.T) {
	tests := []struct {
		rule string
		err  error
	}{
		{"chunks 1: corrupt", nil},
		{"chunks 1-2: corrupt", codec.ErrCorrupt},
		{"chunks: corrupt", codec.ErrCorrupt},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			x := store(t, false, same(3, 1000)...)
			fresh := 0
			src := hook(origintest.Fail(x.src, tt.rule), func(ctx context.Context, _ codec.ChunkRange) error {
				if origin.IsNoCache(ctx) {
					fresh++
				}
				return nil
			})
			c := open(t, src, Options{})
			if err := x.try(t.Context(), c, chunks(0, 3), 7, 2900); !errors.Is(err, tt.err) {
				t.Errorf("Read = %v, want %v", err, tt.err)
			}
			if fresh != 1 {
				t.Errorf("%d requests went past caches, want 1", fresh)
			}
		})
	}
}

// A panic below becomes the error of all waiting readers.
func TestPanicsBecomeErrors(t *testing.T) {
	x := store(t, false, same(3, 1000)...)
	synctest.Test(t, func(t *testing.T) {
		c, done := openHere(t, origintest.Fail(x.src, "chunks: slow 1s; chunks 1: panic"), Options{})
		defer done()
		var readers sync.WaitGroup
		for i := range 10 {
			readers.Go(func() {
				if err := x.try(t.Context(), c, chunks(0, 1), i, 900); err == nil {
					t.Error("Read = nil, want the panic as an error")
				}
			})
		}
		readers.Wait()
		x.read(t, c, chunks(0, 3), 0, 3000)
	})
}

// A panic while unpacking is an error, and no reader waits forever.
func TestPanicWhileUnpacking(t *testing.T) {
	x := store(t, false, same(8, 1000)...)
	src := hook(x.src, nil)
	c := open(t, panickingSource{src}, Options{})
	for range 2 {
		for _, n := range []int{500, 8000} {
			if err := x.try(t.Context(), c, chunks(0, 8), 0, n); err == nil {
				t.Errorf("Read of %d bytes = nil, want an error", n)
			}
		}
	}
	if len(c.unpacking.byKey) != 0 || len(c.fetches.byXorb) != 0 {
		t.Errorf("%d calls and %d fetches are left", len(c.unpacking.byKey), len(c.fetches.byXorb))
	}
}
