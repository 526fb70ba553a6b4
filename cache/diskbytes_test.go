package cache

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec/codectest"
)

// segment returns the one file of a cache folder that holds chunks.
func segment(t *testing.T, dir string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "seg", "*"))
	if err != nil || len(names) != 1 {
		t.Fatalf("segments %v, %v", names, err)
	}
	return names[0]
}

// flip changes a bit of a file.
func flip(t *testing.T, name string, off int64) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], off); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x10
	if _, err := f.WriteAt(b[:], off); err != nil {
		t.Fatal(err)
	}
}

// TestD09_BytesThroughCache changes single bytes on disk. Readers get correct data, and one
// chunk is requested again. The hash detects the change, or the checksum without hashes.
func TestD09_BytesThroughCache(t *testing.T) {
	sizes := []int{300, 1, 200, 250}
	for _, tt := range []struct {
		name string
		o    Options
	}{
		{"by hash", Options{MemoryBytes: noMemory}},
		{"by checksum", Options{MemoryBytes: noMemory, NoVerify: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x, dir := store(t, false, sizes...), t.TempDir()
			m := mountOn(t, dir, x.src, tt.o)
			all, n := chunks(0, len(sizes)), len(x.Unpacked(chunks(0, len(sizes))))
			x.read(t, m.Cache, all, 0, n)
			m.settle(t)
			m.requested()
			name, step := segment(t, dir), 5
			info, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			if codectest.Race {
				step = 37
			}
			for off := 0; off < int(info.Size()); off += step {
				flip(t, name, int64(off))
				x.read(t, m.Cache, all, 0, n)
				if d := m.disk.Stats().Dropped; d > 1+int64(off/step) {
					t.Fatalf("byte %d: %d chunks were forgotten", off, d)
				}
				flip(t, name, int64(off)) // no reader finds it there any more
				m.settle(t)
				if n := m.wantGood(t, x); n != len(sizes) {
					t.Fatalf("byte %d: %d chunks are on disk", off, n)
				}
				m.restore(t, x)
				name = segment(t, dir)
			}
		})
	}
}

// restore lays all chunks where they were at first: alone in the first bytes of a segment.
func (m *mount) restore(t *testing.T, x xorbSource) {
	t.Helper()
	run, err := x.src.Chunks(t.Context(), x.Hash(), chunks(0, len(x.Xorb.Chunks)), origin.ReadOptions{})
	if err == nil {
		err = m.disk.Clear()
	}
	if err == nil {
		err = m.disk.PutRunNoCopy(x.Hash(), run, func() {})
	}
	if err == nil {
		err = m.disk.Flush(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestD10_SwappedThroughCache puts the chunks of two xorbs in each other's place. They have
// the same sizes, and each is good as what it is.
func TestD10_SwappedThroughCache(t *testing.T) {
	for _, noVerify := range []bool{false, true} {
		t.Run(fmt.Sprintf("no verify %v", noVerify), func(t *testing.T) {
			b, dir := origintest.NewBuilder(t, origintest.Form{}), t.TempDir()
			var xorbs []xorbSource
			for i := range uint64(2) {
				xorbs = append(xorbs, xorbSource{b.Xorb(origintest.Random(2*i, 1000), origintest.Random(2*i+1, 1000)), nil})
			}
			m := mountOn(t, dir, objects.New(b.Store(), objects.Options{}), Options{MemoryBytes: noMemory, NoVerify: noVerify})
			for i := range xorbs {
				xorbs[i].src = m.src
				xorbs[i].read(t, m.Cache, chunks(0, 2), 0, 2000)
				m.settle(t)
			}
			m.requested()
			swapHalves(t, segment(t, dir))
			for range 2 {
				for _, x := range xorbs {
					x.read(t, m.Cache, chunks(0, 2), 0, 2000)
					x.read(t, m.Cache, chunks(1, 2), 10, 900)
				}
				m.settle(t)
			}
			if n := m.wantGood(t, xorbs...); n != 4 {
				t.Errorf("%d chunks are on disk", n)
			}
			m.wantRequested(t, "swapped", 2, 4)
		})
	}
}

// swapHalves puts the two halves of a file in each other's place.
func swapHalves(t *testing.T, name string) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err == nil {
		err = os.WriteFile(name, slices.Concat(b[len(b)/2:], b[:len(b)/2]), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
