package integration

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/codec/xorb"
	"github.com/xetfs/xetfs/integration/internal/harness"
)

// sizes lie around everything that has one: pages, chunks, what the kernel reads at once.
var sizes = []int{
	0, 1, 2, 7, 511, 512, 4095, 4096, 4097, 8191, 65535, 65536, 65537,
	131071, 131072, 131073, 1<<20 - 1, 1 << 20, 1<<20 + 1, 5_000_003,
}

// A way is one of the system calls that read: p from off on. Like io.ReaderAt it says
// io.EOF where it is short; errSkip, where the kernel will not do it here.
type way struct {
	name  string
	flags int // for open
	read  func(f *os.File, p []byte, off int64) (int, error)
}

var errSkip = errors.New("the kernel does not do that here")

var ways = []way{
	{"pread", 0, func(f *os.File, p []byte, off int64) (int, error) { return f.ReadAt(p, off) }},
	{"lseek and read", 0, seekRead},
	{"readv", 0, readv},
	{"O_DIRECT", unix.O_DIRECT, directRead},
	{"sendfile", 0, sendfile},
	{"splice", 0, splice},
	{"copy_file_range", 0, copyOut},
	{"io_uring", 0, uringRead},
	{"readahead", 0, afterReadahead},
	{"fadvise", 0, afterFadvise},
}

// ranges returns the reads of a file of size bytes.
func ranges(size int64) []struct{ off, n int64 } {
	return []struct{ off, n int64 }{
		{0, 0}, {0, 1}, {0, size}, {0, 1 << 20}, {0, size + 1},
		{1, 3}, {4095, 2}, {65535, 65538}, {131071, 4097}, {777_777, 1 << 20},
		{max(0, size-1), 1}, {max(0, size-1), 4096}, {size, 1}, {size + 1, 4096}, {1 << 40, 4096},
	}
}

func TestK24_Reads(t *testing.T) {
	files := make([][]byte, len(sizes))
	for i, size := range sizes {
		files[i] = harness.Noise(uint64(i), size)
	}
	dir := t.TempDir()
	_, stored := harness.StoreFiles(t, dir, harness.StoreOptions{}, xorb.LZ4, files...)
	m := harness.MountSource(t, dir)
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			for i, s := range stored {
				readInWay(t, m.File(s.Hash), w, bytes.NewReader(files[i]))
			}
		})
	}
	t.Run("preadv2 without waiting", func(t *testing.T) {
		for i, s := range stored {
			readNoWait(t, m.File(s.Hash), files[i])
		}
	})
}

func readInWay(t *testing.T, path string, w way, want Reference) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDONLY|w.flags, 0)
	if err != nil {
		t.Fatal(err)
	}
	r := newReader(t, f, want)
	for _, x := range ranges(r.size) {
		what := fmt.Sprintf("%s of %d bytes at %d", w.name, x.n, x.off)
		_, err := r.check(make([]byte, x.n), x.off, what, func(p []byte) (int, error) {
			n, err := w.read(f, p, x.off)
			if n < 0 {
				n = 0
			}
			return n, err
		})
		if errors.Is(err, errSkip) {
			t.Skip(err)
		}
		if err != nil && !errors.Is(err, io.EOF) {
			t.Errorf("%s: %s: %v", path, what, err)
		}
	}
	f.Close()
}

func seekRead(f *os.File, p []byte, off int64) (int, error) {
	if _, err := f.Seek(off, io.SeekStart); err != nil {
		return 0, err
	}
	n, err := io.ReadFull(f, p)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return n, err
}

// readv spreads the bytes over three buffers of unequal size.
func readv(f *os.File, p []byte, off int64) (int, error) {
	a, b := len(p)/7, len(p)/2
	return unix.Preadv(int(f.Fd()), [][]byte{p[:a], p[a:b], p[b:]}, off)
}

// directRead reads into a buffer that begins with a page, as O_DIRECT wants it.
func directRead(f *os.File, p []byte, off int64) (int, error) {
	if len(p) == 0 {
		return unix.Pread(int(f.Fd()), nil, off)
	}
	page, err := unix.Mmap(-1, 0, len(p), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return 0, err
	}
	defer unix.Munmap(page) //nolint:errcheck // it was mapped
	n, err := unix.Pread(int(f.Fd()), page, off)
	for errors.Is(err, unix.EINTR) { // the Go runtime sends signals to its threads
		n, err = unix.Pread(int(f.Fd()), page, off)
	}
	return copy(p, page[:max(n, 0)]), err
}

// sendfile sends to a file in memory, as often as it takes.
func sendfile(f *os.File, p []byte, off int64) (int, error) {
	return throughFile(p, func(to int, n int) (int, error) { return unix.Sendfile(to, int(f.Fd()), &off, n) })
}

// copyOut is what cp(1) tries first. Between file systems the kernel may refuse.
func copyOut(f *os.File, p []byte, off int64) (int, error) {
	n, err := throughFile(p, func(to int, n int) (int, error) {
		return unix.CopyFileRange(int(f.Fd()), &off, to, nil, n, 0)
	})
	if errors.Is(err, unix.EXDEV) {
		return 0, fmt.Errorf("copy_file_range to tmpfs: %w", errSkip)
	}
	return n, err
}

// throughFile moves len(p) bytes into a file in memory and takes them out again.
func throughFile(p []byte, move func(to int, n int) (int, error)) (int, error) {
	to, err := unix.MemfdCreate("out", unix.MFD_CLOEXEC)
	if err != nil {
		return 0, err
	}
	defer unix.Close(to)
	moved := 0
	for moved < len(p) {
		n, err := move(to, len(p)-moved)
		if err != nil {
			return moved, err
		}
		if n == 0 {
			break
		}
		moved += n
	}
	return unix.Pread(to, p[:moved], 0)
}

// splice moves through a pipe.
func splice(f *os.File, p []byte, off int64) (int, error) {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return 0, err
	}
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	got := 0
	for got < len(p) {
		n, err := unix.Splice(int(f.Fd()), &off, pipe[1], nil, len(p)-got, 0)
		if err != nil || n == 0 {
			return got, err
		}
		for end := got + int(n); got < end; {
			m, err := unix.Read(pipe[0], p[got:end])
			if err != nil {
				return got, err
			}
			got += m
		}
	}
	return got, nil
}

func afterReadahead(f *os.File, p []byte, off int64) (int, error) {
	if _, _, e := unix.Syscall(unix.SYS_READAHEAD, f.Fd(), uintptr(off), uintptr(len(p))); e != 0 {
		return 0, e
	}
	return f.ReadAt(p, off)
}

func afterFadvise(f *os.File, p []byte, off int64) (int, error) {
	for _, advice := range []int{unix.FADV_DONTNEED, unix.FADV_RANDOM, unix.FADV_SEQUENTIAL, unix.FADV_WILLNEED} {
		if err := unix.Fadvise(int(f.Fd()), off, int64(len(p)), advice); err != nil {
			return 0, err
		}
	}
	return f.ReadAt(p, off)
}

// readNoWait reads what is in memory and nothing else. It may be short, but not wrong.
func readNoWait(t *testing.T, path string, want []byte) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, x := range ranges(int64(len(want))) {
		p := make([]byte, x.n)
		n, err := unix.Preadv2(int(f.Fd()), [][]byte{p}, x.off, unix.RWF_NOWAIT)
		switch {
		case errors.Is(err, unix.EOPNOTSUPP):
		case err != nil:
			t.Errorf("%s: preadv2 of %d bytes at %d: %v", path, x.n, x.off, err)
		case n > 0 && !bytes.Equal(p[:n], want[x.off:x.off+int64(n)]):
			t.Errorf("%s: preadv2 of %d bytes at %d: wrong bytes (I1)", path, x.n, x.off)
		}
	}
}
