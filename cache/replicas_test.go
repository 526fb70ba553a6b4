package cache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/xorb"
)

// A panickingSource returns runs that panic when they are unpacked.
type panickingSource struct{ origin.Source }

// TryChunks returns no run, so that the reader calls Chunks.
func (b panickingSource) TryChunks(codec.Hash, codec.ChunkRange, func(n int) []byte) (*xorb.Run, bool) {
	return nil, false
}

func (b panickingSource) Chunks(ctx context.Context, x codec.Hash, r codec.ChunkRange, o origin.ReadOptions) (*xorb.Run, error) {
	run, err := b.Source.Chunks(ctx, x, r, o)
	if err != nil {
		return nil, err
	}
	broken := *run
	broken.Packed = nil
	return &broken, nil
}

// copiesOf returns a Source with one replica of a xorb per list of damages. A list names the
// chunks with corrupt packed bytes.
func copiesOf(t testing.TB, x *origintest.Xorb, local bool, damages ...[]int) origin.Source {
	t.Helper()
	var stores []origin.Store
	for _, damaged := range damages {
		b := bytes.Clone(x.Bytes)
		for _, chunk := range damaged {
			b[x.Info.PackedEnd[chunk]-1] ^= 1
		}
		s := origintest.Memory()
		if local {
			s = origintest.LocalMemory()
		}
		if err := origintest.Replace(s, x.Key(), b); err != nil {
			t.Fatal(err)
		}
		stores = append(stores, s)
	}
	return objects.New(origintest.Copies(stores...), objects.Options{})
}

// A damaged chunk is never returned and never kept.
func TestCorruptChunk(t *testing.T) {
	for _, local := range []bool{true, false} {
		x := store(t, local, same(8, 1000)...)
		c := open(t, copiesOf(t, x.Xorb, local, []int{3}), Options{})
		for range 3 {
			for _, call := range []readCall{
				{chunks(3, 4), 0, 1000}, {chunks(3, 4), 10, 10}, {chunks(0, 8), 0, 8000},
				{chunks(2, 4), 500, 1000}, {chunks(3, 5), 500, 1000},
			} {
				if err := x.try(t.Context(), c, call.R, call.Skip, call.N); !errors.Is(err, codec.ErrCorrupt) {
					t.Errorf("Read%+v = %v, want %v", call, err, codec.ErrCorrupt)
				}
			}
			x.read(t, c, chunks(0, 3), 0, 3000)
			x.read(t, c, chunks(4, 8), 10, 3000)
		}
		if c.unpacking.has(chunkKey{x.Hash(), 3}) {
			t.Error("the damaged chunk is kept")
		}
		c.memory.settle()
		if c.memory.has(chunkKey{x.Hash(), 3}) {
			t.Error("the damaged chunk is in memory")
		}
	}
}

// A reader gets no error for a corrupt chunk that only another reader needs.
func TestDamageIsNotShared(t *testing.T) {
	x := store(t, false, same(8, 1000)...)
	for name, damage := range map[string]func(b []byte){
		"in a packed chunk": func(b []byte) { b[x.Info.PackedEnd[2]-1] ^= 1 },
		"in a chunk header": func(b []byte) { b[x.Info.PackedEnd[1]] = 7 },
	} {
		t.Run(name, func(t *testing.T) {
			b, s := bytes.Clone(x.Bytes), origintest.Memory()
			damage(b)
			if err := origintest.Replace(s, x.Key(), b); err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				c, done := openHere(t, origintest.Fail(objects.New(s, objects.Options{}), "chunks: slow 1s"), Options{})
				defer done()
				var readers sync.WaitGroup
				readers.Go(func() {
					if err := x.try(t.Context(), c, chunks(0, 6), 0, 5500); !errors.Is(err, codec.ErrCorrupt) {
						t.Errorf("the reader of the damaged chunk: %v", err)
					}
				})
				for i := range 10 {
					time.Sleep(time.Millisecond)
					readers.Go(func() { x.read(t, c, chunks(5, 6), i, 500) })
					readers.Go(func() { x.read(t, c, chunks(4, 6), 0, 2000) })
				}
				readers.Wait()
			})
		})
	}
}

// A reader gets no error for a chunk that only another reader needs. This holds for a shared
// unpacking and for a local shared fetch. A remote origin that does not answer one request does
// not answer the next one.
func TestOutageIsNotShared(t *testing.T) {
	const lost = 150
	for _, tt := range []struct {
		name  string
		local bool
		first int // chunk that both want; in one fetch with the lost one, or not
	}{
		{"local, one unpacking", true, 0},
		{"local, one fetch", true, 140},
		{"remote, one unpacking", false, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := store(t, tt.local, same(160, 100)...)
			synctest.Test(t, func(t *testing.T) {
				src := hook(x.src, func(_ context.Context, r codec.ChunkRange) error {
					time.Sleep(time.Second)
					if r.Start <= lost && lost < r.End {
						time.Sleep(time.Second) // so that the first chunk arrives before
						return fmt.Errorf("chunks %v: %w", r, origin.ErrUnavailable)
					}
					return nil
				})
				c, done := openHere(t, src, Options{})
				defer done()
				var readers sync.WaitGroup
				readers.Go(func() {
					all := chunks(tt.first, lost+1)
					if err := x.try(t.Context(), c, all, 10, 100*all.Len()-20); !errors.Is(err, origin.ErrUnavailable) {
						t.Errorf("the reader of the lost chunk: %v", err)
					}
				})
				time.Sleep(time.Millisecond)
				for i := range 10 {
					readers.Go(func() { x.read(t, c, chunks(tt.first, tt.first+1), 20+i, 10) })
					readers.Go(func() { x.read(t, c, chunks(tt.first, tt.first+2), 20+i, 150) })
				}
				readers.Wait()
			})
		})
	}
}

// Many concurrent readers and several corrupt replicas: all readers get the bytes while one
// replica has them.
func TestAgain(t *testing.T) {
	tests := []struct {
		name   string
		copies [][]int // damaged chunks of each copy
		err    error
	}{
		{"the first is damaged", [][]int{{3}, nil}, nil},
		{"the second is damaged", [][]int{nil, {3}}, nil},
		{"three are damaged", [][]int{{3}, {3}, {3}, nil}, nil},
		{"damaged in different places", [][]int{{0, 3}, {1, 2, 3}, {3, 4}, nil}, nil},
		{"damaged everywhere", [][]int{{0, 1, 2, 3, 4, 5, 6, 7}, {0, 1, 2, 3, 4, 5, 6, 7}, nil}, nil},
		{"all are damaged", [][]int{{3}, {3}, {3}}, codec.ErrCorrupt},
		{"the only one is damaged", [][]int{{3}}, codec.ErrCorrupt},
	}
	for _, tt := range tests {
		for _, local := range []bool{true, false} {
			for _, part := range []readCall{{chunks(3, 4), 10, 10}, {chunks(0, 8), 0, 8000}, {chunks(2, 5), 10, 2000}} {
				t.Run(fmt.Sprintf("%s, local %v, %d bytes", tt.name, local, part.N), func(t *testing.T) {
					x := store(t, local, same(8, 1000)...)
					src := copiesOf(t, x.Xorb, local, tt.copies...)
					synctest.Test(t, func(t *testing.T) {
						c, done := openHere(t, origintest.Fail(src, "chunks: slow 1ms"), Options{})
						defer done()
						var readers sync.WaitGroup
						for i := range 64 {
							readers.Go(func() {
								time.Sleep(time.Duration(i%5) * 300 * time.Microsecond)
								if err := x.try(t.Context(), c, part.R, part.Skip, part.N); !errors.Is(err, tt.err) {
									t.Errorf("reader %d: %v, want %v", i, err, tt.err)
								}
							})
						}
						readers.Wait()
					})
				})
			}
		}
	}
}

// The same with the real scheduler and readers of everything, for the race detector.
func TestAgainManyReaders(t *testing.T) {
	x := store(t, true, same(40, 1000)...)
	c := open(t, copiesOf(t, x.Xorb, true, []int{1, 7, 20}, []int{3, 30, 39}, nil), Options{MemoryBytes: 20_000})
	var readers sync.WaitGroup
	for i := range 16 {
		readers.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 1))
			for range 200 {
				start := random.IntN(35)
				x.read(t, c, chunks(start, start+5), random.IntN(1000), random.IntN(4000))
			}
		})
	}
	readers.Wait()
}

// A local copy that has gone is no better than a damaged one.
func TestAgainWhenACopyIsGone(t *testing.T) {
	x := store(t, true, same(3, 1000)...)
	gone, there := origintest.LocalMemory(), origintest.LocalMemory()
	for _, s := range []origin.WriteStore{gone, there} {
		if err := origintest.Replace(s, x.Key(), x.Bytes); err != nil {
			t.Fatal(err)
		}
	}
	c := open(t, objects.New(origintest.Copies(gone, there), objects.Options{}), Options{})
	x.read(t, c, chunks(0, 1), 0, 1000)
	if err := gone.Delete(t.Context(), x.Key()); err != nil {
		t.Fatal(err)
	}
	x.read(t, c, chunks(1, 3), 0, 2000)
}

// Run and its Unpack are for readers that verify. They use copies as Read does.
func TestRunAgain(t *testing.T) {
	x := store(t, true, same(8, 1000)...)
	c := open(t, copiesOf(t, x.Xorb, true, []int{3}, []int{3}, nil), Options{})
	whole := func() error {
		for try := 1; ; try++ {
			run, err := c.Run(t.Context(), x.Hash(), chunks(0, 8))
			for i := uint32(0); err == nil && i < 8; i++ {
				_, err = run.Unpack(i, make([]byte, run.Size(i)))
			}
			if err == nil || !c.ShouldRetry(x.Hash(), err, try) {
				return err
			}
		}
	}
	var readers sync.WaitGroup
	for range 16 {
		readers.Go(func() {
			if err := whole(); err != nil {
				t.Error(err)
			}
		})
	}
	readers.Wait()
}

func TestNoVerify(t *testing.T) {
	x := store(t, true, 1000) // xorbSource as it is, so that a wrong byte unpacks
	src := copiesOf(t, x.Xorb, true, []int{0})
	checked, unchecked := open(t, src, Options{}), open(t, src, Options{NoVerify: true})
	if err := x.try(t.Context(), checked, chunks(0, 1), 0, 1000); !errors.Is(err, codec.ErrCorrupt) {
		t.Errorf("Read = %v, want %v", err, codec.ErrCorrupt)
	}
	if err := x.try(t.Context(), unchecked, chunks(0, 1), 0, 1000); !errors.Is(err, errOtherBytes) {
		t.Errorf("Read without a check = %v, want %v", err, errOtherBytes)
	}
	for c, want := range map[*Cache]bool{checked: true, unchecked: false} {
		if got, err := c.Hashed(t.Context(), x.Hash(), codec.ChunkRange{End: 1}); got != want || err != nil {
			t.Errorf("Hashed = %v, %v, want %v", got, err, want)
		}
	}
}
