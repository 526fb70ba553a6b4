package fs

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// BenchmarkPlain reads a materialized file of 256 MiB from memory: by passthrough, by messages,
// and directly.
func BenchmarkPlain(b *testing.B) {
	const size = 256 << 20
	needFUSE(b)
	e := newFakeEngine()
	entry := e.file("f", pattern(size))
	under := b.TempDir()
	e.keep(b, under, entry)
	ways := []struct {
		name      string
		configure func(f *filesystem)
	}{
		{"itself", nil},
		{"passthrough", func(*filesystem) {}},
		{"splice", func(f *filesystem) { f.passthrough.kernel = nil }},
		{"copied", func(f *filesystem) { e.drop(entry) }},
	}
	for _, w := range ways {
		path := filepath.Join(under, entry.ID.File.String())
		if w.configure != nil {
			at := b.TempDir()
			s, err := mountHere(at, newFakeTree(entry), e, Options{})
			if err != nil {
				b.Fatal(err)
			}
			w.configure(s.files)
			defer s.Shutdown(0)
			path = at + "/f"
		}
		for _, n := range []int{4 << 10, 128 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("%s/in a row by %d", w.name, n), func(b *testing.B) {
				b.SetBytes(size)
				p := make([]byte, n)
				for b.Loop() {
					benchRead(b, path, p, size/n, func(i int) int64 { return int64(i * n) })
				}
			})
		}
		b.Run(w.name+"/4 KiB at random", func(b *testing.B) {
			const reads = 10_000
			random := rand.New(rand.NewPCG(1, 2))
			p := make([]byte, 4096)
			for b.Loop() {
				benchRead(b, path, p, reads, func(int) int64 { return random.Int64N(size/4096) * 4096 })
			}
			b.ReportMetric(float64(b.N)*reads/b.Elapsed().Seconds(), "reads/s")
		})
	}
}

// benchRead reads at some places of a file. It first drops the pages of the mount.
func benchRead(b *testing.B, path string, p []byte, reads int, at func(i int) int64) {
	b.Helper()
	fd, err := unix.Open(path, unix.O_RDONLY, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer unix.Close(fd)
	if filepath.Base(path) == "f" {
		if err := unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED); err != nil {
			b.Fatal(err)
		}
	}
	for i := range reads {
		if n, err := unix.Pread(fd, p, at(i)); n != len(p) || err != nil {
			b.Fatal(n, err)
		}
	}
}
