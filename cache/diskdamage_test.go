package cache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/xetfs/xetfs/cache/disk"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
)

// A rejections Source counts how often a copy is blamed.
type rejections struct {
	origin.Source
	n atomic.Int64
}

func (r *rejections) Reject(x codec.Hash) int {
	r.n.Add(1)
	return r.Source.Reject(x)
}

// Chunks on disk that do not match their hashes, though the disk is intact, are dropped and
// requested once. The origin is not held responsible.
func TestForgedOnDisk(t *testing.T) {
	x := store(t, false, same(40, 1000)...)
	tests := []struct {
		name   string
		forged []codec.ChunkRange
	}{
		{"one", []codec.ChunkRange{chunks(7, 8)}},
		{"each alone", []codec.ChunkRange{chunks(3, 4), chunks(9, 10), chunks(20, 21), chunks(39, 40)}},
		{"all", []codec.ChunkRange{chunks(0, 40)}},
	}
	for _, tt := range tests {
		for how, read := range map[string]func(t *testing.T, c *Cache, i int) error{
			"all of it": func(t *testing.T, c *Cache, i int) error {
				return x.try(t.Context(), c, chunks(0, 40), 0, 40_000)
			},
			"parts of chunks": func(t *testing.T, c *Cache, i int) error {
				return x.try(t.Context(), c, chunks(i%40, i%40+1), 10, 980)
			},
			"some": func(t *testing.T, c *Cache, i int) error {
				return x.try(t.Context(), c, chunks(i%37, i%37+4), 500, 3000)
			},
			"by Run": func(t *testing.T, c *Cache, i int) error { return x.unpack(t, c, chunks(0, 40)) },
		} {
			t.Run(tt.name+" "+how, func(t *testing.T) {
				src := &rejections{Source: x.src}
				m := mountOn(t, t.TempDir(), src, Options{MemoryBytes: noMemory})
				for _, r := range tt.forged {
					if err := m.disk.PutRunNoCopy(x.Hash(), x.forge(t, r), func() {}); err != nil {
						t.Fatal(err)
					}
				}
				m.settle(t)
				var readers sync.WaitGroup
				for i := range 40 {
					readers.Go(func() {
						if err := read(t, m.Cache, i); err != nil {
							t.Errorf("reader %d: %v", i, err)
						}
					})
				}
				readers.Wait()
				if n := src.n.Load(); n != 0 {
					t.Errorf("the origin was blamed %d times", n)
				}
				m.settle(t)
				for i := range 40 { // some of it may have been read through
					x.read(t, m.Cache, chunks(i, i+1), 0, 1000)
				}
				m.settle(t)
				if n := m.wantGood(t, x); n != 40 {
					t.Errorf("%d chunks are on disk", n)
				}
			})
		}
	}
}

// With corrupt replicas and a disk, all readers get the bytes while one replica has them.
// Corrupt data does not reach the disk.
func TestCopiesWithDisk(t *testing.T) {
	tests := []struct {
		name   string
		copies [][]int // damaged chunks of each copy
		err    error
	}{
		{"the first is damaged", [][]int{{3}, nil}, nil},
		{"damaged in different places", [][]int{{0, 3}, {1, 2, 3}, {3, 4}, nil}, nil},
		{"all are damaged", [][]int{{3}, {3}, {3}}, codec.ErrCorrupt},
		{"the only one is damaged", [][]int{{3}}, codec.ErrCorrupt},
	}
	for _, tt := range tests {
		for _, part := range []readCall{{chunks(3, 4), 10, 10}, {chunks(0, 8), 0, 8000}, {chunks(2, 5), 10, 2000}} {
			t.Run(fmt.Sprintf("%s, %d bytes", tt.name, part.N), func(t *testing.T) {
				x := store(t, false, same(8, 1000)...)
				m := mountOn(t, t.TempDir(), copiesOf(t, x.Xorb, false, tt.copies...), Options{MemoryBytes: noMemory})
				if err := m.disk.PutRunNoCopy(x.Hash(), x.forge(t, chunks(3, 5)), func() {}); err != nil {
					t.Fatal(err)
				}
				m.settle(t)
				var readers sync.WaitGroup
				for i := range 32 {
					readers.Go(func() {
						if err := x.try(t.Context(), m.Cache, part.R, part.Skip, part.N); !errors.Is(err, tt.err) {
							t.Errorf("reader %d: %v, want %v", i, err, tt.err)
						}
						if err := x.unpack(t, m.Cache, part.R); !errors.Is(err, tt.err) {
							t.Errorf("reader %d: Run: %v, want %v", i, err, tt.err)
						}
					})
				}
				readers.Wait()
				m.settle(t)
				for i := 3; i < 5; i++ { // it may be unread
					if run, ok := m.disk.Run(x.Hash(), chunks(i, i+1)); ok && bytes.Equal(run.Packed, x.forge(t, run.Chunks).Packed) {
						m.disk.Drop(x.Hash(), run.Chunks)
					}
				}
				m.wantGood(t, x)
			})
		}
	}
}

// A run of another xorb, kept under a wrong name, does not fit and is forgotten.
func TestOtherRunOnDisk(t *testing.T) {
	x, other := store(t, false, same(8, 1000)...), store(t, false, same(8, 1001)...)
	m := mountOn(t, t.TempDir(), x.src, Options{MemoryBytes: noMemory})
	if err := m.disk.PutRunNoCopy(x.Hash(), other.forge(t, chunks(0, 8)), func() {}); err != nil {
		t.Fatal(err)
	}
	m.settle(t)
	for range 2 {
		x.read(t, m.Cache, chunks(0, 8), 0, 8000)
		m.settle(t)
	}
	m.wantRequested(t, "read", 1, 8)
}

// A flippingStore changes a bit of some answers that are long enough to hold chunks.
type flippingStore struct {
	origin.Store
	mu     sync.Mutex
	random *rand.Rand // guarded by mu
	share  float64    // of the answers
	flips  int        // guarded by mu
}

func (s *flippingStore) ReadAt(ctx context.Context, k names.Key, p []byte, off int64) error {
	err := s.Store.ReadAt(ctx, k, p, off)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && s.random.Float64() < s.share {
		s.flips++
		p[s.random.IntN(len(p))] ^= 1 << s.random.IntN(8)
	}
	return err
}

// Bits that flip in transfer never reach a reader or the disk, whether chunks are read, read
// ahead or read through.
func TestFlipsAreNotKept(t *testing.T) {
	for _, noVerify := range []bool{false, true} {
		t.Run(fmt.Sprintf("no verify %v", noVerify), func(t *testing.T) {
			b := origintest.NewBuilder(t, origintest.Form{Schemes: allSchemes})
			var all [][]byte
			for i := range 400 {
				all = append(all, origintest.Text(uint64(i), 300+i%50))
			}
			s := &flippingStore{Store: b.Store(), random: rand.New(rand.NewPCG(1, 2))}
			x := xorbSource{b.Xorb(all...), nil}
			s.Store = b.Store()
			x.src = objects.New(s, objects.Options{})
			m := mountOn(t, t.TempDir(), x.src, Options{MemoryBytes: noMemory, NoVerify: noVerify})
			x.read(t, m.Cache, chunks(0, 1), 0, 300) // the footer comes whole
			s.share = 0.3
			var readers sync.WaitGroup
			for i := range 8 {
				readers.Go(func() { x.readFlipping(t, m, i) })
			}
			readers.Wait()
			m.settle(t)
			if n := m.wantGood(t, x); n < 100 {
				t.Errorf("%d chunks are on disk, that is few", n)
			}
			if s.flips == 0 {
				t.Error("nothing flipped")
			}
			s.share = 0
			for i := 0; i < 400; i += 8 {
				x.read(t, m.Cache, chunks(i, i+8), 5, 2000)
			}
		})
	}
}

// readFlipping reads here and there while bits flip.
func (s xorbSource) readFlipping(t *testing.T, m *mount, seed int) {
	random := rand.New(rand.NewPCG(uint64(seed), 3))
	a := m.NewReadahead()
	defer a.Close()
	for range 60 {
		at := random.IntN(380)
		a.Prefetch(s.Hash(), chunks(at, at+10+random.IntN(10)), 0)
		n := 1 + random.IntN(9)
		err := s.try(t.Context(), m.Cache, chunks(at, at+n), random.IntN(200), 100)
		if err != nil && !errors.Is(err, codec.ErrCorrupt) && !(m.noVerify && errors.Is(err, errOtherBytes)) {
			t.Errorf("chunk %d: %v", at, err)
		}
		if random.IntN(4) == 0 {
			if err := s.unpack(t, m.Cache, chunks(at, at+n)); err != nil && !errors.Is(err, codec.ErrCorrupt) {
				t.Errorf("Run of chunk %d: %v", at, err)
			}
		}
	}
}

// D09: one byte of a segment changed, wherever: the right bytes, and what was damaged is
// requested again and stored again.
func TestD09_ByteOfASegment(t *testing.T) {
	x, dir := store(t, false, same(12, 200)...), t.TempDir()
	m := mountOn(t, dir, x.src, Options{MemoryBytes: noMemory})
	x.read(t, m.Cache, chunks(0, 12), 0, 2400)
	m.close(t)
	segments, err := filepath.Glob(filepath.Join(dir, "seg", "*"))
	if err != nil || len(segments) != 1 {
		t.Fatal(segments, err)
	}
	good, err := os.ReadFile(segments[0])
	if err != nil {
		t.Fatal(err)
	}
	for off := 0; off < len(good); off += 11 {
		damaged := filepath.Join(t.TempDir(), "cache")
		if err := os.CopyFS(damaged, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		b := bytes.Clone(good)
		b[off] ^= 0x10
		if err := os.WriteFile(filepath.Join(damaged, "seg", filepath.Base(segments[0])), b, 0o600); err != nil {
			t.Fatal(err)
		}
		m := mountOn(t, damaged, x.src, Options{MemoryBytes: noMemory})
		for range 2 {
			x.read(t, m.Cache, chunks(0, 12), 0, 2400)
			m.settle(t)
		}
		if r, n := m.requested(); r != 1 || n > 12 {
			t.Errorf("byte %d: %d requests for %d chunks", off, r, n)
		}
		if n := m.wantGood(t, x); n != 12 {
			t.Errorf("byte %d: %d chunks are on disk", off, n)
		}
		m.close(t)
	}
}

// Whatever becomes of the disk, reads go on.
func TestDiskFails(t *testing.T) {
	x := store(t, false, same(60, 1000)...)
	tests := []struct {
		name string
		o    disk.Options
		fail func(t *testing.T, m *mount, dir string)
	}{
		{"closed", disk.Options{}, func(t *testing.T, m *mount, dir string) {
			if err := m.disk.Close(); err != nil {
				t.Error(err)
			}
		}},
		{"full", disk.Options{MinFree: 1 << 60}, func(*testing.T, *mount, string) {}},
		{"cleared", disk.Options{}, func(t *testing.T, m *mount, dir string) {
			if err := m.disk.Clear(); err != nil {
				t.Error(err)
			}
		}},
		{"removed", disk.Options{}, func(t *testing.T, m *mount, dir string) {
			if err := os.RemoveAll(dir); err != nil {
				t.Error(err)
			}
		}},
		{"in the way", disk.Options{}, func(t *testing.T, m *mount, dir string) {
			seg := filepath.Join(dir, "seg")
			if err := errors.Join(os.RemoveAll(seg), os.WriteFile(seg, nil, 0o600)); err != nil {
				t.Error(err)
			}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "cache")
			d := openDisk(t, dir, tt.o)
			m := &mount{disk: d, src: hook(x.src, nil)}
			m.Cache = open(t, m.src, Options{Disk: d, MemoryBytes: noMemory})
			x.read(t, m.Cache, chunks(0, 30), 0, 30_000)
			var readers sync.WaitGroup
			for i := range 8 {
				readers.Go(func() {
					a := m.NewReadahead()
					defer a.Close()
					for j := range 56 {
						if i == 3 && j == 10 {
							tt.fail(t, m, dir)
						}
						a.Prefetch(x.Hash(), chunks(j, j+4), 0)
						x.read(t, m.Cache, chunks(j, j+3), 10, 2900)
						if err := x.unpack(t, m.Cache, chunks(j, j+4)); err != nil {
							t.Error(err)
						}
					}
				})
			}
			readers.Wait()
			m.fetches.running.Wait()
			if n := m.fetches.writes.bytes; n != 0 {
				t.Errorf("%d bytes wait for ever", n)
			}
		})
	}
}

// A stored chunk of another size than the known chunk is not used, and leaves the disk. So do chunks
// that have not changed on disk and cannot belong to their xorb.
func TestMisfitLeavesDisk(t *testing.T) {
	x, _ := unproven(t, same(3, 1000)...)
	m := mountOn(t, t.TempDir(), x.src, Options{MemoryBytes: noMemory})
	x.read(t, m.Cache, chunks(0, 3), 0, 3000)
	m.settle(t)
	run, ok := m.disk.Run(x.Hash(), chunks(0, 3))
	if !ok || !m.isKnown(x.Hash(), run) {
		t.Fatalf("the chunks are not stored and known: %v", run)
	}
	leaf := m.seen.Get(x.Hash(), 1)
	leaf.Size++
	m.seen.Set(x.Hash(), 1, leaf)
	if m.isKnown(x.Hash(), run) {
		t.Error("a chunk of another size is used")
	}
	if gaps := m.disk.Missing(x.Hash(), chunks(0, 3)); !slices.Equal(gaps, []codec.ChunkRange{chunks(1, 2)}) {
		t.Errorf("chunks %v left the disk, want 1", gaps)
	}
	m.dropFromDisk(x.Hash(), run.Slice(chunks(2, 3)))
	if gaps := m.disk.Missing(x.Hash(), chunks(0, 3)); !slices.Equal(gaps, []codec.ChunkRange{chunks(1, 3)}) {
		t.Errorf("chunks %v left the disk, want 1 and 2", gaps)
	}
}
