package fs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/codec"
)

// A stateless mount has the same bytes and errors, but no handles.
func TestStateless(t *testing.T) {
	e := newFakeEngine()
	want := pattern(3 << 20)
	broken := e.file("broken", pattern(10))
	broken.Size = 11
	m := mountFake(t, newFakeTree(e.file("f", want), e.file("empty", nil), note("tiny", "abc"), broken), e, Options{Stateless: true})
	for name, want := range map[string]string{"f": string(want), "empty": "", "tiny": "abc"} {
		if b, err := os.ReadFile(m.path(name)); string(b) != want || err != nil {
			t.Errorf("%s: %d bytes, %v", name, len(b), err)
		}
	}
	if n := m.s.files.files.len(); n != 0 {
		t.Errorf("%d handles", n)
	}
	if _, err := os.ReadFile(m.path("broken")); !errors.Is(err, unix.EIO) {
		t.Errorf("broken: %v, want EIO", err)
	}
	if fd, err := unix.Open(m.path("f"), unix.O_RDWR, 0); err != unix.EROFS {
		unix.Close(fd)
		t.Errorf("open for writing: %v, want EROFS", err)
	}
	corrupt := codec.Corrupt("chunk", 3, "it is broken")
	e.readErr.Store(&corrupt)
	if _, err := unix.Getxattr(m.path("f"), "user.xet.error", nil); err != unix.ENODATA {
		t.Errorf("user.xet.error before an error: %v", err)
	}
	fd, err := unix.Open(m.path("f"), unix.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if _, err := unix.Pread(fd, make([]byte, 4096), 0); err != unix.EIO {
		t.Errorf("a damaged file: %v, want EIO", err)
	}
	if n, err := unix.Getxattr(m.path("f"), "user.xet.error", nil); n == 0 || err != nil {
		t.Errorf("user.xet.error after an error: %v", err)
	}
	e.readErr.Store(nil)
	p := make([]byte, 4096)
	if _, err := unix.Pread(fd, p, 1<<20); err != nil || !bytes.Equal(p, want[1<<20:1<<20+4096]) {
		t.Errorf("after it healed: %v", err)
	}
}

// Concurrent readers share one open file. It is closed after the last read.
func TestStatelessReaders(t *testing.T) {
	e := newFakeEngine()
	var entries []string
	tree := newFakeTree()
	for i := range 2 * maxOpenFiles {
		name := fmt.Sprint("f", i)
		entries = append(entries, name)
		tree.add(e.text(name, name))
	}
	m := mountFake(t, tree, e, Options{Stateless: true})
	var readers sync.WaitGroup
	for r := range 4 {
		readers.Go(func() {
			for i := range entries {
				name := entries[(i+r)%len(entries)]
				if b, err := os.ReadFile(m.path(name)); string(b) != name {
					t.Errorf("%s = %q, %v", name, b, err)
				}
			}
		})
	}
	readers.Wait()
	if kept := m.s.files.shared.Len(); kept > maxOpenFiles {
		t.Errorf("%d files are kept open, at most %d should be", kept, maxOpenFiles)
	}
	m.dropCaches(t)
	eventually(t, "what the kernel forgot is closed", func() bool { return e.streams.Load() == 0 })
}
