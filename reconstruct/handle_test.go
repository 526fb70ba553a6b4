package reconstruct

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xetfs/xetfs/cache"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
)

// Which reads are followed as a stream. A read is its offset and its length in KiB; the
// windows are those of the streams afterwards, in KiB, newest use last.
func TestStreams(t *testing.T) {
	b, f := small(t, origintest.Form{})
	tests := []struct {
		name  string
		reads string
		want  string
	}{
		{"one read is no stream", "0+128", "0"},
		{"two are", "0+128 128+128", "128"},
		{"the window doubles", "0+128 128+128 256+128 384+128", "512"},
		{"up to its limit", "0+128 128+128 256+128 384+128 512+128 640+128 768+128", "2048"},
		{"from anywhere", "5000+4 5004+4 5008+4", "8"},
		{"reads that overtake each other", "0+128 128+128 384+128 256+128 512+128", "512"},
		{"from the second on", "0+128 256+128 128+128 384+128", "0 256"},
		{"backwards", "1000+4 996+4 992+4 988+4", "0 0 0 0"},
		{"far apart", "0+4 9000+4 3000+4 6000+4", "0 0 0 0"},
		{"a gap", "0+128 128+128 320+128", "256"},
		{"jumps shrink it", "0+128 128+128 256+128 384+128 1412+128", "256"},
		{"until nothing is left", "0+128 128+128 256+128 1284+128 2312+128", "0"},
		{"two at once", "0+128 5000+128 128+128 5128+128 256+128 5256+128", "256 256"},
		{"the same again and again", "0+128 0+128 0+128", "0 0 0"},
		{"a stream reads something twice", "0+128 128+128 128+128 256+128", "256"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			file := openFrom(t, spyOn(b.LocalStore()), Options{Window: 2 << 20}, f.ID())
			h := file.Handle()
			defer h.Close()
			for read := range strings.FieldsSeq(tt.reads) {
				var off, n int64
				fmt.Sscanf(read, "%d+%d", &off, &n)
				h.track(off<<10, n<<10)
			}
			var got []string
			for _, s := range h.streams {
				got = append(got, fmt.Sprint(s.window>>10))
			}
			if got := strings.Join(got, " "); got != tt.want {
				t.Errorf("windows %s, want %s", got, tt.want)
			}
		})
	}
}

func TestStreamsAreBounded(t *testing.T) {
	s, f := large(t, 4)
	file := open(t, s, f.ID())
	h := file.Handle()
	defer h.Close()
	for i := range int64(1000) {
		h.track(i*100<<20, 4096)
	}
	if n := len(h.streams); n != maxStreams {
		t.Errorf("%d streams are followed, want %d", n, maxStreams)
	}
}

// A remoteHandle is a handle on a file in a bubble. Each request takes some time.
type remoteHandle struct {
	*Handle
	spy  *spy
	want []byte
	c    *cache.Cache
}

func inBubble(t *testing.T, chunks int, delay time.Duration, co cache.Options, do func(t *testing.T, f remoteHandle)) {
	t.Helper()
	s, stored := large(t, chunks)
	want := stored.Bytes()
	synctest.Test(t, func(t *testing.T) {
		src := spyOn(s)
		src.before = func(ctx context.Context, _ codec.Hash, _ codec.ChunkRange) error {
			select {
			case <-time.After(delay):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		c, err := cache.New(src, co)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		file, err := New(c, Options{}).Open(t.Context(), stored.ID())
		if err != nil {
			t.Fatal(err)
		}
		h := file.Handle()
		defer h.Close()
		do(t, remoteHandle{h, src, want, c})
	})
}

// read reads, compares, and returns how long that took.
func (f remoteHandle) read(t *testing.T, off int64, n int) time.Duration {
	t.Helper()
	start := time.Now()
	if err := tryRead(t.Context(), f, f.want, off, n); err != nil {
		t.Errorf("ReadAt(%d bytes at %d): %v", n, off, err)
	}
	return time.Since(start)
}

// A scan from beginning to end fetches every byte once, however large its reads are.
func TestScanFetchesOnce(t *testing.T) {
	for _, n := range []int{128 << 10, 100_000, 4096, 1 << 20, 1<<20 + 1} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			inBubble(t, 300, 20*time.Millisecond, cache.Options{}, func(t *testing.T, f remoteHandle) {
				waits := 0
				for off := int64(0); off < int64(len(f.want)); off += int64(n) {
					if f.read(t, off, n) > 0 {
						waits++
					}
					time.Sleep(5 * time.Millisecond)
				}
				requests, different, all := f.spy.counts()
				if different != 300 || all != 300 {
					t.Errorf("%d chunks, %d in all were asked for, want 300 once each", different, all)
				}
				if waits > 20 {
					t.Errorf("%d reads waited", waits)
				}
				if requests > 60 {
					t.Errorf("%d requests", requests)
				}
				if got := f.c.Stats().AheadBytes; got != 0 {
					t.Errorf("%d bytes are held at the end", got)
				}
			})
		})
	}
}

// The kernel has several reads of one stream on their way, and they overtake each other.
func TestReadsOvertake(t *testing.T) {
	inBubble(t, 300, 20*time.Millisecond, cache.Options{}, func(t *testing.T, f remoteHandle) {
		random := rand.New(rand.NewPCG(1, 1))
		const n, group = 128 << 10, 8
		for off := int64(0); off < int64(len(f.want)); off += n * group {
			var reads sync.WaitGroup
			for _, i := range random.Perm(group) {
				reads.Go(func() { f.read(t, off+int64(i)*n, n) })
				time.Sleep(100 * time.Microsecond)
			}
			reads.Wait()
		}
		if _, different, all := f.spy.counts(); different != 300 || all != 300 {
			t.Errorf("%d chunks, %d in all were asked for, want 300 once each", different, all)
		}
	})
}

// Sixteen streams through one handle: each is recognised, and after its first reads
// finds everything there.
func TestInterleavedStreams(t *testing.T) {
	inBubble(t, 512, 20*time.Millisecond, cache.Options{}, func(t *testing.T, f remoteHandle) {
		const streams, n = 16, 128 << 10
		part := int64(len(f.want) / streams)
		var waits [streams]int
		for off := int64(0); off < part; off += n {
			for i := range int64(streams) {
				if f.read(t, i*part+off, n) > 0 {
					waits[i]++
				}
			}
			time.Sleep(10 * time.Millisecond)
		}
		for i, w := range waits {
			if w > 6 {
				t.Errorf("stream %d waited for %d of %d reads", i, w, part/n)
			}
		}
		requests, different, all := f.spy.counts()
		// The window of one stream reaches into what the next has read a moment ago.
		if different != 512 || all > 512+512/50 {
			t.Errorf("%d chunks, %d in all were asked for, want 512 about once each", different, all)
		}
		if most := streams * int(part/n) * 3 / 4; requests > most {
			t.Errorf("%d requests, want %d at most", requests, most)
		}
	})
}

// The window of a stream shrinks while others read ahead, and grows again.
func TestWindowIsShared(t *testing.T) {
	inBubble(t, 1024, 10*time.Millisecond, cache.Options{}, func(t *testing.T, f remoteHandle) {
		const n = 128 << 10
		part := int64(len(f.want) / 4)
		readTo := func(h *Handle, from, to int64) {
			for off := from; off < to; off += n {
				if err := tryRead(t.Context(), h, f.want, off, n); err != nil {
					t.Error(err)
				}
			}
			synctest.Wait()
		}
		wantWindow := func(h *Handle, want int64) {
			t.Helper()
			h.mu.Lock()
			defer h.mu.Unlock()
			if got := h.streams[0].maxWindow; got != want {
				t.Errorf("the limit of the window is %d, want %d", got, want)
			}
		}
		first := f.Handle
		readTo(first, 0, 1<<20)
		wantWindow(first, 32<<20)
		var others []*Handle
		for i := range int64(3) {
			h := f.File().Handle()
			readTo(h, (i+1)*part, (i+1)*part+1<<20)
			others = append(others, h)
		}
		readTo(first, 1<<20, 3<<20)
		wantWindow(first, 16<<20)
		for _, h := range others {
			h.Close()
		}
		readTo(first, 3<<20, 10<<20)
		wantWindow(first, 32<<20)
	})
}

// Xorbs with the same number of chunks: the next one is another xorb all the same.
func TestStreamCrossesXorbs(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{NoSHA256: true})
	var terms []origintest.Term
	for _, c := range pattern(100, 64<<10) {
		terms = append(terms, b.Xorb(c).All())
	}
	f := b.File(terms...)
	s, want := b.Store(), f.Bytes()
	synctest.Test(t, func(t *testing.T) {
		file := openFrom(t, origintest.Fail(spyOn(s), "chunks: slow 20ms"), Options{}, f.ID())
		h := file.Handle()
		defer h.Close()
		start := time.Now()
		for off := int64(0); off < file.Size(); off += 128 << 10 {
			if err := tryRead(t.Context(), h, want, off, 128<<10); err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(start); took > 50*20*time.Millisecond/2 {
			t.Errorf("50 reads took %v, one after the other they would take 1s", took)
		}
	})
}

// Readers that jump about cause no fetch ahead.
func TestRandomReaders(t *testing.T) {
	inBubble(t, 400, time.Millisecond, cache.Options{MemoryBytes: -1}, func(t *testing.T, f remoteHandle) {
		random := rand.New(rand.NewPCG(1, 1))
		needed := 0
		for range 500 {
			off, n := random.Int64N(int64(len(f.want)-4096)), int64(4096)
			needed += int((off+n-1)>>16 - off>>16 + 1)
			f.read(t, off, int(n))
		}
		synctest.Wait()
		if _, _, all := f.spy.counts(); all > needed+needed/100 {
			t.Errorf("%d chunks were asked for, %d were needed", all, needed)
		}
	})
}

// Reads that lie beside what is fetched ahead do not wait for it.
func TestAheadDelaysNobody(t *testing.T) {
	inBubble(t, 512, 0, cache.Options{}, func(t *testing.T, f remoteHandle) {
		first := allTerms(t, f.File())[0].Xorb
		f.spy.before = func(ctx context.Context, x codec.Hash, _ codec.ChunkRange) error {
			if x == first {
				time.Sleep(time.Millisecond)
				return nil
			}
			<-ctx.Done() // every request ahead of the first xorb hangs
			return ctx.Err()
		}
		for off := int64(0); off < 128*64<<10; off += 128 << 10 {
			if took := f.read(t, off, 128<<10); took > 2*time.Millisecond {
				t.Errorf("the read at %d took %v", off, took)
			}
		}
		requests, _, _ := f.spy.counts()
		if requests < 3 {
			t.Errorf("%d requests: nothing was asked for ahead", requests)
		}
	})
}

// Closing drops everything and ends what is on its way.
func TestHandleClose(t *testing.T) {
	inBubble(t, 512, time.Second, cache.Options{}, func(t *testing.T, f remoteHandle) {
		for off := int64(0); off < 2<<20; off += 128 << 10 {
			f.read(t, off, 128<<10)
		}
		if f.c.Stats().AheadBytes == 0 {
			t.Error("nothing was asked for ahead")
		}
		start := time.Now()
		f.Close()
		synctest.Wait()
		if got := f.c.Stats().AheadBytes; got != 0 || time.Since(start) != 0 {
			t.Errorf("%d bytes are held after Close, which took %v", got, time.Since(start))
		}
		before, _, _ := f.spy.counts()
		f.read(t, 20<<20, 4096)
		f.read(t, 20<<20+4096, 4096)
		f.read(t, 20<<20+8192, 4096)
		if after, _, _ := f.spy.counts(); after > before+1 {
			t.Errorf("%d requests after Close, want that of the first read", after-before)
		}
	})
}

// Closing races with reads that go on.
func TestHandleCloseWhileRead(t *testing.T) {
	s, stored := large(t, 64)
	file := open(t, s, stored.ID())
	want := stored.Bytes()
	for range 50 {
		h := file.Handle()
		var readers sync.WaitGroup
		for i := range 4 {
			readers.Go(func() {
				for off := int64(i) << 20; off < int64(i+1)<<20; off += 64 << 10 {
					if err := tryRead(t.Context(), h, want, off, 64<<10); err != nil {
						t.Error(err)
					}
				}
			})
		}
		h.Close()
		readers.Wait()
	}
	if got := file.r.Stats().AheadBytes; got != 0 {
		t.Errorf("%d bytes are held after Close", got)
	}
}

// Whatever many streams ask for, the budget holds; and one that rests gives way.
func TestHandleBudget(t *testing.T) {
	const budget = 16 << 20
	inBubble(t, 512, 10*time.Millisecond, cache.Options{AheadBytes: budget, MemoryBytes: 8 << 20}, func(t *testing.T, f remoteHandle) {
		idle := f.File().Handle()
		defer idle.Close()
		for off := int64(0); off < 4<<20; off += 128 << 10 {
			if err := tryRead(t.Context(), idle, f.want, off, 128<<10); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(time.Second)
		if held := f.c.Stats().AheadBytes; held < budget/4 {
			t.Fatalf("the first handle holds %d bytes", held)
		}
		waits := 0
		for off := int64(12 << 20); off < 32<<20; off += 128 << 10 {
			if f.read(t, off, 128<<10) > 0 {
				waits++
			}
			if used := f.c.Stats().AheadBytes; used > budget {
				t.Errorf("%d bytes are held, the budget is %d", used, budget)
			}
			time.Sleep(5 * time.Millisecond)
		}
		if waits > 20 {
			t.Errorf("%d of 160 reads waited: the idle handle keeps its part", waits)
		}
		f.Close()
		synctest.Wait()
		if held := f.c.Stats().AheadBytes; held > budget/2 {
			t.Errorf("the idle handle still holds %d bytes", held)
		}
	})
}

// A failed prefetch is only an error for its reader.
func TestAheadFails(t *testing.T) {
	s, stored := large(t, 300)
	want := stored.Bytes()
	synctest.Test(t, func(t *testing.T) {
		src := spyOn(s)
		last := stored.Info.Terms[2].Xorb
		failed := errors.New("it failed")
		src.before = func(_ context.Context, x codec.Hash, _ codec.ChunkRange) error {
			time.Sleep(time.Millisecond)
			if x == last {
				return failed
			}
			return nil
		}
		file := openFrom(t, src, Options{}, stored.ID())
		h := file.Handle()
		defer h.Close()
		border := allTerms(t, file)[0].Size + allTerms(t, file)[1].Size
		for off := int64(0); off < file.Size(); off += 128 << 10 {
			err := tryRead(t.Context(), h, want, off, 128<<10)
			if off < int64(border) && err != nil || off >= int64(border) && !errors.Is(err, failed) {
				t.Errorf("ReadAt(%d): %v", off, err)
			}
		}
	})
}

// A local origin has no readahead.
func TestHandleNear(t *testing.T) {
	b, f := small(t, origintest.Form{})
	h := open(t, b.LocalStore(), f.ID()).Handle()
	defer h.Close()
	for off := int64(0); off < h.File().Size(); off += 4 {
		if err := tryRead(t.Context(), h, f.Bytes(), off, 4); err != nil {
			t.Error(err)
		}
	}
	if len(h.streams) != 0 {
		t.Errorf("%d streams are followed", len(h.streams))
	}
}
