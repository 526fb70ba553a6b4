package cache

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xetfs/xetfs/cache/disk"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/codectest"
	"github.com/xetfs/xetfs/codec/xorb"
)

// A cutOffSource delivers the first chunks of each request, and then ends it with what end
// returns.
type cutOffSource struct {
	origin.Source
	first int
	end   func(ctx context.Context) error
}

func (s cutOffSource) Chunks(ctx context.Context, x codec.Hash, r codec.ChunkRange, o origin.ReadOptions) (*xorb.Run, error) {
	run, err := s.Source.Chunks(ctx, x, r, origin.ReadOptions{Buffer: o.Buffer})
	if err != nil {
		return nil, err
	}
	for n := 1; n <= min(s.first, r.Len()-1); n++ {
		o.OnPartial(run.Slice(codec.ChunkRange{Start: r.Start, End: r.Start + uint32(n)}))
	}
	if err := s.end(ctx); err != nil {
		return nil, err
	}
	return run, nil
}

// wantMissing fails unless just these chunks are not on disk.
func (m *mount) wantMissing(t *testing.T, x xorbSource, want ...codec.ChunkRange) {
	t.Helper()
	all := chunks(0, len(x.Xorb.Chunks))
	if got := m.Missing(x.Hash(), all); !slices.Equal(got, want) {
		t.Errorf("chunks %v are missing, want %v", got, want)
	}
	m.wantGood(t, x)
}

// Chunks that arrived are on disk, however a request ends. The next reader requests the rest.
func TestInterruptedIsKept(t *testing.T) {
	x := store(t, false, same(40, 5000)...)
	broken := errors.New("the line is broken")
	for how, ask := range map[string]func(context.Context, *Cache) error{
		"Bring": func(ctx context.Context, c *Cache) error { return c.Download(ctx, x.Hash(), chunks(0, 40)) },
		"Run": func(ctx context.Context, c *Cache) error {
			_, err := c.Run(ctx, x.Hash(), chunks(0, 40))
			return err
		},
	} {
		for name, interrupted := range map[string]bool{"by the reader": true, "by the origin": false} {
			t.Run(how+" "+name, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				src := cutOffSource{Source: x.src, first: 30, end: func(ctx context.Context) error {
					if !interrupted {
						return broken
					}
					stop()
					<-ctx.Done()
					return ctx.Err()
				}}
				m := mountOn(t, t.TempDir(), src, Options{})
				want := broken
				if interrupted {
					want = context.Canceled
				}
				if err := ask(ctx, m.Cache); !errors.Is(err, want) {
					t.Errorf("error = %v, want %v", err, want)
				}
				m.settle(t)
				m.wantMissing(t, x, chunks(30, 40))
			})
		}
	}
}

// Chunks go to the disk while others are on their way.
func TestBringAsItComes(t *testing.T) {
	const size = 100_000
	x := storeOf(t, xorb.None, 20, size)
	m := (*mount)(nil)
	src := cutOffSource{Source: x.src, first: downloadStep/size + 1, end: func(context.Context) error {
		first := chunks(0, downloadStep/size+1)
		until(t, "the first ones are on disk", func() bool { return len(m.disk.Missing(x.Hash(), first)) == 0 })
		return nil
	}}
	m = mountOn(t, t.TempDir(), src, Options{})
	if err := m.Download(t.Context(), x.Hash(), chunks(0, 20)); err != nil {
		t.Fatal(err)
	}
	m.wantMissing(t, x)
	m.wantRequested(t, "all", 1, 20)
}

// storeOf keeps chunks that are packed in one way.
func storeOf(t *testing.T, scheme xorb.Scheme, n, size int) xorbSource {
	t.Helper()
	b := origintest.NewBuilder(t, origintest.Form{Schemes: []xorb.Scheme{scheme}})
	var all [][]byte
	for i := range n {
		all = append(all, origintest.Text(uint64(i), size))
	}
	return xorbSource{b.Xorb(all...), objects.New(b.Store(), objects.Options{})}
}

// A corrupt chunk does not keep its neighbours from the disk, and is requested again alone.
func TestBringDamaged(t *testing.T) {
	x := store(t, false, same(40, 1000)...)
	m := mountOn(t, t.TempDir(), origintest.Fail(x.src, "chunks 1: corrupt"), Options{}) // of the last chunk
	err := m.Download(t.Context(), x.Hash(), chunks(0, 30))
	if !errors.Is(err, codec.ErrCorrupt) || !m.ShouldRetry(x.Hash(), err, 1) {
		t.Fatalf("Bring = %v, which is not worth another try", err)
	}
	m.wantMissing(t, x, chunks(29, 40))
	if err := m.Download(t.Context(), x.Hash(), chunks(29, 30)); err != nil {
		t.Fatal(err)
	}
	m.wantMissing(t, x, chunks(30, 40))
}

// Download waits for the disk, so that no chunk is requested again.
func TestBringWaits(t *testing.T) {
	x := store(t, false, same(200, 5000)...)
	m := &mount{disk: openDisk(t, t.TempDir(), disk.Options{QueueBytes: 1}), src: hook(x.src, nil)}
	m.Cache = open(t, m.src, Options{Disk: m.disk})
	var bringers sync.WaitGroup
	for i := range 20 {
		bringers.Go(func() {
			if err := m.Download(t.Context(), x.Hash(), chunks(10*i, 10*i+10)); err != nil {
				t.Error(err)
			}
		})
	}
	bringers.Wait()
	m.wantMissing(t, x)
	m.wantRequested(t, "all", 20, 200)
	alone := open(t, x.src, Options{})
	if err := alone.Download(t.Context(), x.Hash(), chunks(0, 1)); !errors.Is(err, disk.ErrClosed) {
		t.Errorf("without a disk Bring = %v, want %v", err, disk.ErrClosed)
	}
}

// A Download that is faster than the disk waits until its ctx ends. Chunks that arrived by then
// are stored as soon as the disk continues.
func TestBringOutrunsTheDisk(t *testing.T) {
	const bringers, each = 20, 10
	x := store(t, false, same(bringers*each, 5000)...)
	for name, interrupted := range map[string]bool{"to the end": false, "interrupted": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				m, closeCache := mountHere(t, dir, x.src, disk.Options{QueueBytes: 1})
				goOn := m.stall(t)
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				var ended atomic.Int64
				var want error
				for i := range bringers {
					go func() {
						defer ended.Add(1)
						if err := m.Download(ctx, x.Hash(), chunks(each*i, each*(i+1))); !errors.Is(err, want) {
							t.Errorf("Bring = %v, want %v", err, want)
						}
					}()
				}
				time.Sleep(time.Hour)
				if n := ended.Load(); n != 0 {
					t.Errorf("%d have not waited for the disk", n)
				}
				if interrupted {
					want = context.Canceled
					stop()
				} else {
					goOn()
				}
				synctest.Wait()
				if n := ended.Load(); n != bringers {
					t.Errorf("%d have ended, want all of %d", n, bringers)
				}
				goOn()
				m.settle(t)
				m.wantMissing(t, x)
				m.wantRequested(t, "all", bringers, bringers*each)
				if lost := m.Stats().NotKept; lost != 0 {
					t.Errorf("%d chunks are lost", lost)
				}
				closeCache()
				if err := m.disk.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A run that is not read to its end is stored on disk like others.
func TestRunKeep(t *testing.T) {
	x := store(t, false, same(40, 1000)...)
	for name, unpacked := range map[string]int{"unread": 0, "partly read": 17, "read": 40} {
		t.Run(name, func(t *testing.T) {
			m := mountOn(t, t.TempDir(), x.src, Options{})
			m.fetchSome(t, x, 10, 20) // which are stored already
			run, err := m.Run(t.Context(), x.Hash(), chunks(0, 40))
			if err != nil {
				t.Fatal(err)
			}
			for i := range uint32(unpacked) {
				if _, err := run.Unpack(i, make([]byte, run.Size(i))); err != nil {
					t.Fatal(err)
				}
			}
			run.Store()
			m.settle(t)
			m.wantMissing(t, x)
		})
	}
	t.Run("damaged", func(t *testing.T) {
		m := mountOn(t, t.TempDir(), origintest.Fail(x.src, "chunks 1: corrupt"), Options{})
		run, err := m.Run(t.Context(), x.Hash(), chunks(0, 30))
		if err != nil {
			t.Fatal(err)
		}
		run.Store()
		m.settle(t)
		m.wantMissing(t, x, chunks(29, 40))
	})
	local := store(t, true, 1000)
	c := open(t, local.src, Options{})
	run, err := c.Run(t.Context(), local.Hash(), chunks(0, 1))
	if err != nil {
		t.Fatal(err)
	}
	run.Store() // there is no disk
}

// fetchSome has chunks on disk before a test begins.
func (m *mount) fetchSome(t *testing.T, x xorbSource, start, end int) {
	t.Helper()
	if err := m.Download(t.Context(), x.Hash(), chunks(start, end)); err != nil {
		t.Fatal(err)
	}
}

func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for begin := time.Now(); !done(); time.Sleep(time.Millisecond) {
		if time.Since(begin) > codectest.Patience {
			t.Errorf("not within %v: %s", codectest.Patience, what)
			return
		}
	}
}
