package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/disk/internal/index"
	"github.com/xetfs/xetfs/cache/disk/internal/vfs"
	"github.com/xetfs/xetfs/cache/disk/internal/wal"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/codectest"
	"github.com/xetfs/xetfs/codec/xorb"
)

// A layout is an index of many chunks in segments of which only the length is real.
type layout struct {
	name string
	run  int  // chunks in a run
	log  bool // one record for each run, as they are put, instead of a snapshot
}

var layouts = []layout{
	{"runs of 16", 16, false},
	{"single chunks, shuffled", 1, false},
	{"runs of 16, never compacted", 16, true},
	{"single chunks, shuffled, never compacted", 1, true},
}

const packedSize = 50 << 10 // bytes of a chunk: 100 GB for 2,000,000

// fill makes an index of n chunks.
func (l layout) fill(t testing.TB, dir string, n int, change func(*Options)) {
	t.Helper()
	b := openAt(t, dir, change)
	err := b.writer.Load().do(func() error {
		k := b.writer.Load()
		rng := rand.New(rand.NewPCG(1, 1))
		places := rng.Perm(n / l.run)
		infos := make([]index.ChunkInfo, l.run)
		for i := range infos {
			infos[i] = index.ChunkInfo{Size: packedSize, CRC: rng.Uint32()}
		}
		const xorbChunks = 1280
		for _, at := range places {
			s, err := k.head(index.Probation, packedSize*l.run)
			if err != nil {
				return err
			}
			at *= l.run
			off := s.Size.Load()
			k.resize(s, off+packedSize*int64(l.run))
			k.enter(segmentWrite{segment: s, off: off, putOp: putOp{
				key: index.XorbKey(hashOf(at / xorbChunks)), first: uint32(at % xorbChunks), infos: infos,
			}})
			k.flush()
		}
		for _, s := range k.d.index.Segments() {
			f, err := k.d.Open(s.Name(), true)
			if err != nil {
				return err
			}
			if err := errors.Join(f.Truncate(s.Size.Load()), f.Close()); err != nil {
				return err
			}
		}
		if l.log {
			return nil
		}
		return k.rotate()
	})
	if err := errors.Join(err, b.Close()); err != nil {
		t.Fatal(err)
	}
}

func largeOptions(o *Options) {
	o.MaxBytes = 200 << 30
	o.testing.segment = 256 << 20
	o.testing.journal = 1 << 40
}

// heap returns the bytes in use.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// openLarge opens a folder and returns how long that took and what a chunk costs.
func openLarge(t testing.TB, dir string, n int) (took time.Duration, perChunk float64) {
	before, start := heap(), time.Now()
	b := openAt(t, dir, largeOptions, func(o *Options) { o.testing.journal = 1 << 40 })
	took = time.Since(start)
	perChunk = float64(heap()-before) / float64(n)
	if got := b.Stats().Chunks; got != n {
		t.Errorf("%d chunks, want %d", got, n)
	}
	b.Close()
	return took, perChunk
}

func TestD18_OpensQuickly(t *testing.T) {
	const n = 128_000
	for _, l := range layouts[1:2] {
		dir := cacheDir(t)
		l.fill(t, dir, n, largeOptions)
		took, perChunk := openLarge(t, dir, n)
		t.Logf("%s: %d chunks in %v, %.1f bytes of memory each", l.name, n, took, perChunk)
		if !codectest.Race && perChunk > 100 {
			t.Errorf("%.1f bytes each", perChunk)
		}
	}
}

// TestD18_OpensQuicklyAfterDrops has drops stand between what was added, and many objects: for
// none of them all objects are looked at.
func TestD18_OpensQuicklyAfterDrops(t *testing.T) {
	const pages, drops = 40_000, 4000
	large := func(o *Options) {
		largeOptions(o)
		o.QueueBytes = 1 << 30
	}
	b := open(t, newSimDisk(), large)
	for n := range pages + drops {
		if n >= pages {
			b.ForgetPage(hashOf(n - pages))
		}
		if err := b.PutPage(hashOf(n), []byte("a page")); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	before := everAllocated()
	b = open(t, b.disk, large)
	perPage := float64(everAllocated()-before) / pages
	t.Logf("%.0f bytes were allocated for each of %d pages", perPage, pages)
	if n := b.Stats().Chunks; n != pages || perPage > 5000 {
		t.Errorf("%d pages, for each of which %.0f bytes were allocated", n, perPage)
	}
}

// everAllocated returns the bytes that were ever allocated.
func everAllocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// BenchmarkOpen opens a cache of 100 GB in 2,000,000 chunks.
func BenchmarkOpen(b *testing.B) {
	const n = 2_000_000
	for _, l := range layouts {
		b.Run(l.name, func(b *testing.B) {
			dir := cacheDir(b)
			l.fill(b, dir, n, largeOptions)
			var perChunk float64
			b.ResetTimer()
			for range b.N {
				took, mem := openLarge(b, dir, n)
				perChunk = mem
				b.ReportMetric(took.Seconds()*1000, "ms/open")
			}
			b.ReportMetric(perChunk, "B/chunk")
			b.ReportMetric(float64(allocatedJournal(dir))/n, "journal-B/chunk")
		})
	}
}

func allocatedJournal(dir string) (n int64) {
	f, err := vfs.OpenDir(dir, false)
	if err != nil {
		return 0
	}
	defer f.Close()
	entries, _ := f.List("")
	for _, e := range entries {
		if _, ok := wal.ParseName(e.Name); ok {
			n += e.Size
		}
	}
	return n
}

// realRun returns a run of n chunks of 50 KiB that differ from xorb to xorb.
func realRun(t testing.TB, n int) *xorb.Run {
	var packed []byte
	for i := range n {
		size := packedSize - xorb.ChunkHeaderSize
		packed = xorb.ChunkHeader{Packed: size, Unpacked: size}.Append(packed)
		packed = append(packed, codectest.Bytes(uint64(i), size)...)
	}
	run, err := xorb.ParseRun(packed, chunks(0, uint32(n)), nil)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func benchHash(n int) (h codec.Hash) {
	binary.LittleEndian.PutUint64(h[:], uint64(n)*0x9e3779b97f4a7c15)
	return h
}

// BenchmarkHit reads chunks that are in the page cache.
func BenchmarkHit(b *testing.B) {
	s := openAt(b, cacheDir(b), func(o *Options) { *o = Options{} })
	run := realRun(b, 64)
	for n := range 32 {
		if err := s.putRun(benchHash(n), run); err != nil {
			b.Fatal(err)
		}
		s.t = b
		s.flush()
	}
	for _, n := range []uint32{1, 16} {
		b.Run(fmt.Sprintf("chunks=%d", n), func(b *testing.B) {
			b.SetBytes(int64(n) * packedSize)
			b.ReportAllocs()
			buf := make([]byte, 64*packedSize)
			i := 0
			for b.Loop() {
				i++
				c := uint32(i*7) % (64 - n)
				if _, ok := s.RunIn(benchHash(i%32), chunks(c, c+n), RunOptions{Buffer: func(n int) []byte { return buf[:n] }}); !ok {
					b.Fatal("a miss")
				}
			}
		})
	}
	b.Run("miss", func(b *testing.B) {
		for b.Loop() {
			if _, ok := s.Run(benchHash(99), chunks(0, 1)); ok {
				b.Fatal("a hit")
			}
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.SetBytes(packedSize)
		b.RunParallel(func(p *testing.PB) {
			buf := make([]byte, packedSize)
			for i := 0; p.Next(); i++ {
				c := uint32(i*7) % 63
				if _, ok := s.RunIn(benchHash(i%32), chunks(c, c+1), RunOptions{Buffer: func(n int) []byte { return buf[:n] }}); !ok {
					b.Error("a miss")
				}
			}
		})
	})
}

// BenchmarkPut stores runs, with evictions once the cache is full.
func BenchmarkPut(b *testing.B) {
	for _, n := range []int{1, 16} {
		b.Run(fmt.Sprintf("chunks=%d", n), func(b *testing.B) {
			s := openAt(b, cacheDir(b), func(o *Options) { *o = Options{MaxBytes: 1 << 30} })
			run := realRun(b, n)
			b.SetBytes(int64(n) * packedSize)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i++
				if err := s.PutRunWait(b.Context(), benchHash(i), run, func() {}); err != nil {
					b.Fatal(err)
				}
			}
			_ = s.Flush(b.Context())
		})
	}
}
