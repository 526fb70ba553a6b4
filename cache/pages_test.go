package cache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/codectest"
	"github.com/xetfs/xetfs/codec/page"
)

// A pageSource is pages in a map. Before, if it is set, is called for each read.
type pageSource struct {
	pages  map[page.Hash][]byte
	leaves []page.Hash
	above  []page.Hash
	reads  atomic.Int64
	before func(ctx context.Context) error
}

func (s *pageSource) Page(ctx context.Context, h page.Hash) (*page.Page, error) {
	s.reads.Add(1)
	if s.before != nil {
		if err := s.before(ctx); err != nil {
			return nil, err
		}
	}
	b, ok := s.pages[h]
	if !ok {
		return nil, errors.New("not there")
	}
	return page.DecodeAs(h, append([]byte(nil), b...)) // as if from a remote store
}

// index is a tree of files.
func index(t testing.TB, files int, sizes page.Sizes) *pageSource {
	t.Helper()
	s := &pageSource{pages: map[page.Hash][]byte{}}
	b := page.NewBuilder(sizes, func(h page.Hash, p []byte) error {
		s.pages[h] = p
		if p[8] == 0 {
			s.leaves = append(s.leaves, h)
		} else {
			s.above = append(s.above, h)
		}
		return nil
	})
	err := b.Add(page.Entry{Type: page.Dir})
	for i := range files {
		if err == nil {
			err = b.Add(page.Entry{Path: fmt.Sprintf("file-%08d", i), Size: 1, ID: codec.FileID{File: codec.Hash{1, byte(i), byte(i >> 8), byte(i >> 16)}}})
		}
	}
	if _, err2 := b.Close(); err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	return s
}

var smallPages = page.Sizes{Min: 2 << 10, Max: 8 << 10, Bits: 5, Restart: 16}

func TestPagesAreKept(t *testing.T) {
	s := index(t, 1000, smallPages)
	c := open(t, store(t, false, 1).src, Options{})
	g := c.Pages(s)
	for range 3 {
		for h := range s.pages {
			if p, err := g.Page(t.Context(), h); err != nil || page.Sum(p.Encoded()) != h {
				t.Fatalf("Page(%v) = %v, %v", h, p, err)
			}
		}
	}
	n := int64(len(s.pages))
	if got := c.Stats(); s.reads.Load() != n || got.PageMisses != n || got.PageHits != 2*n || got.MemoryBytes == 0 {
		t.Errorf("%d reads for %d pages, %+v", s.reads.Load(), n, got)
	}
	if _, err := c.Pages(s).Page(t.Context(), s.leaves[0]); err != nil || s.reads.Load() != n {
		t.Errorf("a second Getter asks again: %v", err)
	}
}

// An error is only for waiting readers, and is not stored.
func TestPagesForgetErrors(t *testing.T) {
	s := index(t, 10, smallPages)
	broken := errors.New("broken")
	s.before = func(context.Context) error { return broken }
	c := open(t, store(t, false, 1).src, Options{})
	g := c.Pages(s)
	if _, err := g.Page(t.Context(), s.leaves[0]); !errors.Is(err, broken) {
		t.Errorf("error = %v", err)
	}
	s.before = func(context.Context) error { panic("a bug") }
	if _, err := g.Page(t.Context(), s.leaves[0]); err == nil {
		t.Error("no error of a Getter that panics")
	}
	s.before = nil
	if _, err := g.Page(t.Context(), s.leaves[0]); err != nil {
		t.Error(err)
	}
}

// Readers of one page share one fetch, which continues while one of them stays.
func TestPagesShare(t *testing.T) {
	s := index(t, 10, smallPages)
	s.before = func(ctx context.Context) error {
		select {
		case <-time.After(time.Second):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	tests := []struct {
		name    string
		leaving int // of 100 readers, the first after half a second, the others before
		reads   int64
	}{
		{"all stay", 0, 1},
		{"the first leaves", 1, 1},
		{"half of them leave", 50, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, close := openHere(t, store(t, false, 1).src, Options{})
				defer close()
				g := c.Pages(s)
				s.reads.Store(0)
				var readers sync.WaitGroup
				for i := range 100 {
					readers.Go(func() {
						ctx := t.Context()
						if i < tt.leaving {
							short, cancel := context.WithTimeout(ctx, time.Second/time.Duration(min(2+i, 4)))
							defer cancel()
							ctx = short
						}
						if _, err := g.Page(ctx, s.leaves[0]); (err == nil) != (i >= tt.leaving) {
							t.Errorf("reader %d: %v", i, err)
						}
					})
					synctest.Wait() // so that reader 0 is the first
				}
				readers.Wait()
				if n := s.reads.Load(); n != tt.reads {
					t.Errorf("%d reads, want %d", n, tt.reads)
				}
				if st := c.Stats(); tt.leaving == 0 && (st.PageMisses != 1 || st.PageShared != 99) {
					t.Errorf("%+v", st)
				}
			})
		})
	}
}

func readPages(t *testing.T, g page.Getter, all []page.Hash) {
	t.Helper()
	for _, h := range all {
		if _, err := g.Page(t.Context(), h); err != nil {
			t.Fatal(err)
		}
	}
}

// Leaves do not drive out the pages above them, however many go by.
func TestPagesAboveStay(t *testing.T) {
	s := index(t, 100_000, smallPages)
	c := open(t, store(t, false, 1).src, Options{MemoryBytes: 4 << 20})
	g := c.Pages(s)
	read := func(all []page.Hash) { readPages(t, g, all) }
	read(s.above)
	read(s.leaves)
	before := s.reads.Load()
	read(s.above)
	if n := s.reads.Load() - before; n != 0 {
		t.Errorf("%d of %d pages above the leaves were read again", n, len(s.above))
	}
}

// The same leaf again and again is read once, however little room there is and whatever
// ristretto says.
func TestPagesLastStays(t *testing.T) {
	s := index(t, 100_000, smallPages)
	c := open(t, store(t, false, 1).src, Options{MemoryBytes: 1 << 20})
	g := c.Pages(s)
	for i, h := range s.leaves {
		for range 3 {
			if _, err := g.Page(t.Context(), h); err != nil {
				t.Fatal(err)
			}
		}
		if n := s.reads.Load(); n != int64(i+1) {
			t.Fatalf("%d reads of %d leaves", n, i+1)
		}
	}
}

// Pages and chunks together stay within the memory of the cache.
func TestPagesBound(t *testing.T) {
	s := index(t, 100_000, page.DefaultSizes())
	const budget = 4 << 20
	chunked := store(t, false, same(200, 60_000)...)
	c := open(t, chunked.src, Options{MemoryBytes: budget, AheadBytes: budget})
	g := c.Pages(s)
	before := heap()
	var readers sync.WaitGroup
	for i := range 8 {
		readers.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 1))
			for range 100 {
				if _, err := g.Page(t.Context(), s.leaves[random.IntN(len(s.leaves))]); err != nil {
					t.Error(err)
				}
				at := random.IntN(200)
				chunked.read(t, c, chunks(at, at+1), 100, 100)
				if got := c.Stats().MemoryBytes; got > budget {
					t.Errorf("%d bytes are kept, %d may be", got, budget)
				}
			}
		})
	}
	readers.Wait()
	if grown := heap() - before; grown > budget+4<<20 {
		t.Errorf("the heap grew by %d bytes, the budget is %d", grown, budget)
	}
	runtime.KeepAlive(s)
}

// A page that makes room for others is still there while it waits to be handed to ristretto.
func TestPagesFindOffers(t *testing.T) {
	s := index(t, 3000, smallPages)
	c := open(t, store(t, false, 1).src, Options{MemoryBytes: 1 << 20})
	g := c.Pages(s)
	read := func(leaves []page.Hash) { readPages(t, g, leaves) }
	n := 0
	for ; n < len(s.leaves) && len(c.memory.offers) < maxOffers/2; n++ {
		read(s.leaves[n : n+1])
	}
	if n == len(s.leaves) {
		t.Fatalf("%d pages are not too many", n)
	}
	read(s.leaves[:n])
	if got := s.reads.Load(); got != int64(n) {
		t.Errorf("%d reads for %d pages", got, n)
	}
}

// With no memory to speak of pages come from below every time.
func TestPagesWithoutMemory(t *testing.T) {
	s := index(t, 10, smallPages)
	c := open(t, store(t, false, 1).src, Options{MemoryBytes: 1})
	g := c.Pages(s)
	for range 3 {
		if _, err := g.Page(t.Context(), s.leaves[0]); err != nil {
			t.Error(err)
		}
	}
}

func TestPagesAllocate(t *testing.T) {
	if codectest.Race {
		t.Skip("the race detector allocates")
	}
	s := index(t, 10, smallPages)
	g := open(t, store(t, false, 1).src, Options{}).Pages(s)
	read := func() {
		if _, err := g.Page(t.Context(), s.leaves[0]); err != nil {
			t.Error(err)
		}
	}
	read()
	if n := testing.AllocsPerRun(100, read); n > 0 {
		t.Errorf("%v allocations of a hit", n)
	}
}

func BenchmarkPages(b *testing.B) {
	s := index(b, 100_000, page.DefaultSizes())
	for name, memory := range map[string]int64{"last": 0, "ristretto": 64 << 20} {
		b.Run(name, func(b *testing.B) {
			c := open(b, store(b, false, 1).src, Options{MemoryBytes: memory})
			g := c.Pages(s)
			for range 100 { // until ristretto has taken what it takes
				for _, h := range s.leaves {
					if _, err := g.Page(b.Context(), h); err != nil {
						b.Fatal(err)
					}
				}
			}
			c.memory.settle()
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i++
				if _, err := g.Page(b.Context(), s.leaves[i%len(s.leaves)]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
