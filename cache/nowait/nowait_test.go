package nowait

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestReadAt(t *testing.T) {
	value := bytes.Repeat([]byte("0123456789"), 10_000)
	path := filepath.Join(t.TempDir(), "a")
	if err := os.WriteFile(path, value, 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fd := int(f.Fd())
	p := make([]byte, 8000)
	if ReadAt(fd, p, 0) == 0 {
		t.Skip("this kernel, or this file system, does not tell what is in memory")
	}
	end := int64(len(value))
	for _, tt := range []struct {
		name string
		off  int64
		want int
	}{
		{"from the beginning", 0, 8000},
		{"over the ends of pages", 5000, 8000},
		{"up to the end", end - 8000, 8000},
		{"in the last page, over the end", end - 7, 0},
		{"behind the end", end + 1<<20, 0},
		{"before the beginning", -1, 0},
	} {
		clear(p)
		if got := ReadAt(fd, p, tt.off); got > 0 && !bytes.Equal(p[:got], value[tt.off:tt.off+int64(got)]) {
			t.Errorf("%s: other bytes", tt.name)
		} else if got != tt.want {
			t.Errorf("%s: %d bytes, want %d", tt.name, got, tt.want)
		}
	}
	if n := testing.AllocsPerRun(100, func() { ReadAt(fd, p, 5000) }); n > 0 {
		t.Errorf("%v allocations for a read", n)
	}
	if got := ReadAt(-1, p, 0); got != 0 {
		t.Errorf("%d bytes of no file", got)
	}
}

// ReadAt starts no read of bytes that are not in memory.
func TestReadAt_NotInMemory(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "a"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(make([]byte, 100_000)); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	fd := int(f.Fd())
	if err := unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
	if inMemory(fd, 0, 4096) {
		t.Skip("this file system keeps all in memory")
	}
	p := make([]byte, 8000)
	for range 3 {
		if got := ReadAt(fd, p, 5000); got != 0 {
			t.Errorf("%d bytes came, though they were not in memory", got)
		}
	}
}
