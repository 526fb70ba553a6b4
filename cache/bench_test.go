package cache

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
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

// folder keeps a xorb in a folder.
func folder(tb testing.TB, kind int) stored {
	tb.Helper()
	b := origintest.NewBuilder(tb, origintest.Form{Schemes: []xorb.Scheme{kinds[kind].scheme}})
	var all [][]byte
	for i := range benchChunks {
		all = append(all, kinds[kind].bytes(uint64(i), benchChunk))
	}
	x := b.Xorb(all...)
	root := tb.TempDir()
	if err := os.WriteFile(filepath.Join(root, "a.xorb"), x.Bytes, 0o644); err != nil {
		tb.Fatal(err)
	}
	s, err := dir.OpenBare(tb.Context(), root)
	if err != nil {
		tb.Fatal(err)
	}
	origintest.Close(tb, s)
	return stored{x, origin.Objects(s, 0)}
}

// readMiB reads the i-th MiB, half a chunk off, as reads of the kernel are.
func (s stored) readMiB(tb testing.TB, c *Cache, i int, p []byte) {
	first := i * len(p) / benchChunk % (benchChunks - len(p)/benchChunk)
	if err := c.Read(tb.Context(), s.Hash(), chunks(first, first+len(p)/benchChunk+1), benchChunk/2, p); err != nil {
		tb.Fatal(err)
	}
}

func BenchmarkRead(b *testing.B) {
	poison = false
	for i, kind := range kinds {
		x := folder(b, i)
		b.Run("sequential-1MiB/"+kind.name, func(b *testing.B) {
			c := open(b, x.src, Options{})
			p := make([]byte, 1<<20)
			b.SetBytes(int64(len(p)))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				x.readMiB(b, c, i, p)
			}
		})
		b.Run("sequential-128KiB/"+kind.name, func(b *testing.B) {
			c := open(b, x.src, Options{})
			p := make([]byte, 128<<10)
			b.SetBytes(int64(len(p)))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				x.readMiB(b, c, i, p)
			}
		})
		b.Run("warm-4KiB/"+kind.name, func(b *testing.B) {
			c := open(b, x.src, Options{})
			p := make([]byte, 4<<10)
			x.readWarm(b, c, 0, p)
			b.SetBytes(int64(len(p)))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				x.readWarm(b, c, i, p)
			}
		})
		b.Run("cold-4KiB/"+kind.name, func(b *testing.B) {
			c := open(b, x.src, Options{MemoryBytes: 1})
			p := make([]byte, 4<<10)
			b.SetBytes(int64(len(p)))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				at := i * 37 % benchChunks
				if err := c.Read(b.Context(), x.Hash(), chunks(at, at+1), int64(i*4096%(benchChunk-4096)), p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// readWarm reads from a chunk that is in memory.
func (s stored) readWarm(tb testing.TB, c *Cache, i int, p []byte) {
	if err := c.Read(tb.Context(), s.Hash(), chunks(3, 4), int64(i*4096%(benchChunk-4096)), p); err != nil {
		tb.Fatal(err)
	}
}

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
				{"1 MiB near", 14, func(i int) { x.readMiB(t, c, i, large) }},
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
