package merkle

import (
	"fmt"
	"testing"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/codectest"
)

// Both ways to hash a chunk agree at every length, whatever the processor has: without
// AVX-512 the wide one is slower and no different.
func TestWide(t *testing.T) {
	data := codectest.Bytes(7, 1<<20)
	h := dataHashers.Get().(*hasher)
	defer dataHashers.Put(h)
	check := func(n int) {
		t.Helper()
		if got, want := sumWide(&wideDataKey, data[:n]), h.sum(data[:n]); got != want {
			t.Errorf("%d bytes: %s, want %s", n, got, want)
		}
	}
	for piece := 0; piece <= codec.MaxChunkSize+32<<10; piece += 1 << 10 {
		for _, more := range []int{0, 1, 63, 64, 65, 960, 1023} {
			check(piece + more)
		}
	}
	for n := 1; n <= len(data); n += 24_593 {
		check(n)
	}
	check(len(data))
}

// BenchmarkWide compares both libraries, at the length from which the wide one is used and at a
// usual length.
func BenchmarkWide(b *testing.B) {
	was := hasWide
	b.Cleanup(func() { hasWide = was })
	for name, wide := range map[string]bool{"narrow": false, "wide": true} {
		for _, size := range []int{minWide, 64<<10 + 300, 128 << 10} {
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				hasWide = wide
				data := codectest.Bytes(1, size)
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					Chunk(data)
				}
			})
		}
	}
}
