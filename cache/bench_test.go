package cache

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/xetfs/xetfs/cache/disk"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec/codectest"
	"github.com/xetfs/xetfs/codec/xorb"
)

// kinds are what files are made of.
var kinds = []struct {
	name   string
	bytes  func(seed uint64, n int) []byte
	scheme xorb.Scheme
}{
	{"text-lz4", origintest.Text, xorb.LZ4},
	{"f32-bg4", origintest.Floats, xorb.ByteGrouping4LZ4},
	{"random-none", origintest.Random, xorb.None},
}

const benchChunk, benchChunks = 64 << 10, 512 // 32 MiB

// build makes a xorb of a kind.
func build(tb testing.TB, kind int) (*origintest.Builder, *origintest.Xorb) {
	tb.Helper()
	b := origintest.NewBuilder(tb, origintest.Form{Schemes: []xorb.Scheme{kinds[kind].scheme}})
	var all [][]byte
	for i := range benchChunks {
		all = append(all, kinds[kind].bytes(uint64(i), benchChunk))
	}
	return b, b.Xorb(all...)
}

// folder keeps a xorb in a folder.
func folder(tb testing.TB, kind int) xorbSource {
	tb.Helper()
	_, x := build(tb, kind)
	root := tb.TempDir()
	if err := os.WriteFile(filepath.Join(root, "a.xorb"), x.Bytes, 0o644); err != nil {
		tb.Fatal(err)
	}
	s, err := dir.OpenBare(tb.Context(), root)
	if err != nil {
		tb.Fatal(err)
	}
	origintest.Close(tb, s)
	return xorbSource{x, objects.New(s, objects.Options{})}
}

// readMiB reads the i-th MiB, half a chunk off, as reads of the kernel are.
func (s xorbSource) readMiB(tb testing.TB, c *Cache, i int, p []byte) {
	first := i * len(p) / benchChunk % (benchChunks - len(p)/benchChunk)
	if err := c.Read(tb.Context(), s.Hash(), chunks(first, first+len(p)/benchChunk+1), benchChunk/2, p); err != nil {
		tb.Fatal(err)
	}
}

// onDisk returns a remote xorb of that kind, and a disk that has all of it.
func onDisk(tb testing.TB, kind int) (xorbSource, *disk.Store) {
	tb.Helper()
	b, x := build(tb, kind)
	s := xorbSource{x, objects.New(b.Store(), objects.Options{})}
	d := openDisk(tb, tb.TempDir(), disk.Options{})
	for i := 0; i < benchChunks; i += maxFetch {
		run, err := s.src.Chunks(tb.Context(), s.Hash(), chunks(i, i+maxFetch), origin.ReadOptions{})
		if err == nil {
			err = d.PutRunNoCopy(s.Hash(), run, func() {})
		}
		if err == nil {
			err = d.Flush(tb.Context())
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
	return s, d
}

func BenchmarkRead(b *testing.B) {
	poison = false
	for i, kind := range kinds {
		benchmarkReads(b, kind.name, folder(b, i), Options{})
	}
}

// BenchmarkReadDisk reads from a remote origin with all chunks on disk. Requests to the origin
// would show in the results.
func BenchmarkReadDisk(b *testing.B) {
	poison = false
	for i, kind := range kinds {
		x, d := onDisk(b, i)
		benchmarkReads(b, kind.name, x, Options{Disk: d})
	}
}

func benchmarkReads(b *testing.B, kind string, x xorbSource, o Options) {
	for _, size := range []int{1 << 20, 128 << 10} {
		b.Run(fmt.Sprintf("sequential-%dKiB/%s", size>>10, kind), func(b *testing.B) {
			c := open(b, x.src, o)
			p := make([]byte, size)
			b.SetBytes(int64(len(p)))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				x.readMiB(b, c, i, p)
			}
		})
	}
	b.Run("warm-4KiB/"+kind, func(b *testing.B) {
		c := open(b, x.src, o)
		p := make([]byte, 4<<10)
		x.readWarm(b, c, 0, p)
		b.SetBytes(int64(len(p)))
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			x.readWarm(b, c, i, p)
		}
	})
	for _, readers := range []int{1, 16} {
		b.Run(fmt.Sprintf("cold-4KiB-%d/%s", readers, kind), func(b *testing.B) {
			few := o
			few.MemoryBytes = 1
			c := open(b, x.src, few)
			b.SetBytes(4 << 10)
			b.ReportAllocs()
			x.readCold(b, c, readers)
			if n := c.Stats().Misses; n > 0 && !c.local {
				b.Errorf("%d chunks were asked of the origin", n)
			}
		})
	}
}

// readCold reads from one chunk after the other, none of them in memory.
func (s xorbSource) readCold(b *testing.B, c *Cache, readers int) {
	var next atomic.Int64
	b.SetParallelism(max(1, readers/runtime.GOMAXPROCS(0)))
	one := func(p []byte) {
		i := int(next.Add(1))
		at := i * 37 % benchChunks
		if err := c.Read(b.Context(), s.Hash(), chunks(at, at+1), int64(i*4096%(benchChunk-4096)), p); err != nil {
			b.Error(err)
		}
	}
	if readers == 1 {
		p := make([]byte, 4<<10)
		for b.Loop() {
			one(p)
		}
		return
	}
	b.RunParallel(func(pb *testing.PB) {
		p := make([]byte, 4<<10)
		for pb.Next() {
			one(p)
		}
	})
}

// readWarm reads from a chunk that is in memory.
func (s xorbSource) readWarm(tb testing.TB, c *Cache, i int, p []byte) {
	if err := c.Read(tb.Context(), s.Hash(), chunks(3, 4), int64(i*4096%(benchChunk-4096)), p); err != nil {
		tb.Fatal(err)
	}
}

// perHelper is the number of allocations for the helpers of a large read: one for each other core.
func perHelper() float64 { return float64(runtime.GOMAXPROCS(0) - 1) }

// Reading makes no garbage to speak of.
func TestAllocations(t *testing.T) {
	if codectest.Race {
		t.Skip("the race detector makes pools forget")
	}
	for i, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			x := folder(t, i)
			c := open(t, x.src, Options{})
			large, small := make([]byte, 1<<20), make([]byte, 4<<10)
			for n, tt := range []struct {
				name string
				most float64
				read func(i int)
			}{
				{"1 MiB local", 12 + perHelper(), func(i int) { x.readMiB(t, c, i, large) }},
				{"4 KiB warm", 0, func(i int) { x.readWarm(t, c, i, small) }},
			} {
				tt.read(0)
				if got := testing.AllocsPerRun(100, func() { n++; tt.read(n) }); got > tt.most {
					t.Errorf("%s: %v allocations, want %v at most", tt.name, got, tt.most)
				} else {
					t.Logf("%s: %v allocations", tt.name, got)
				}
			}
		})
	}
}

// Nor does reading from disk.
func TestAllocationsFromDisk(t *testing.T) {
	if codectest.Race {
		t.Skip("the race detector makes pools forget")
	}
	x, d := onDisk(t, len(kinds)-1)
	c := open(t, x.src, Options{Disk: d, MemoryBytes: 1})
	for n, tt := range []struct {
		size int
		most float64
	}{{1 << 20, 20 + perHelper()}, {4 << 10, 12}} {
		p := make([]byte, tt.size)
		if got := testing.AllocsPerRun(100, func() { n += 17; x.readMiB(t, c, n, p) }); got > tt.most {
			t.Errorf("%d bytes: %v allocations, want %v at most", tt.size, got, tt.most)
		} else {
			t.Logf("%d bytes: %v allocations", tt.size, got)
		}
	}
}
