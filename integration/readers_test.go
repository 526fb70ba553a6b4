package integration

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/xetfs/xetfs/integration/internal/harness"
	"golang.org/x/sys/unix"
)

// A reader that waits for a disk that hangs can be killed in any system call, and the mount still
// works.
func TestK12_K13_ReaderKilled(t *testing.T) {
	t.Parallel()
	dir, file := bigStore(t, 64<<20)
	slow, gate := slowFolder(t, dir)
	m := harness.MountSource(t, slow)
	for _, role := range []string{"buffered", "direct", "mapped"} {
		t.Run(role, func(t *testing.T) {
			gate.Open()
			child := startChild(t, role, m.File(file.Hash))
			gate.Shut()
			harness.WaitUntil(t, "the reader is stuck", func() bool { return stuck(child.cmd.Process.Pid) })
			if _, gone := child.Kill(harness.Patience); !gone {
				t.Fatal("the reader is still there")
			}
			gate.Open()
		})
	}
	sum, err := openReader(t, m.File(file.Hash), nil).ReadAll(1 << 20)
	if err != nil || sum != file.SHA256 {
		t.Errorf("afterwards the file has SHA-256 %x, %v", sum, err)
	}
}

// A reader that is busy, not waiting, goes at once too.
func TestK13_BusyReaderKilled(t *testing.T) {
	t.Parallel()
	dir, file := bigStore(t, 32<<20)
	m := harness.MountSource(t, dir)
	for _, role := range []string{"buffered", "direct", "mapped", "listing"} {
		t.Run(role, func(t *testing.T) {
			path := m.File(file.Hash)
			if role == "listing" {
				path = m.Path("by-hash")
			}
			var children []*Child
			for range 8 {
				children = append(children, startChild(t, role, path))
			}
			time.Sleep(100 * time.Millisecond)
			for _, c := range children {
				c.cmd.Process.Kill() //nolint:errcheck // it may have ended
			}
			for _, c := range children {
				if !c.Gone(harness.Patience) {
					t.Fatal("a reader is still there")
				}
			}
		})
	}
}

// stuck reports whether a thread of a process sleeps in the kernel and waits for a file system.
func stuck(pid int) bool {
	waits, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/wchan", pid))
	for _, path := range waits {
		b, _ := os.ReadFile(path)
		if s := string(b); strings.Contains(s, "fuse") || strings.Contains(s, "request_wait") || strings.Contains(s, "folio_wait") {
			return true
		}
	}
	return len(waits) > 0 && allAsleep(pid)
}

// allAsleep is for kernels that keep wchan to themselves.
func allAsleep(pid int) bool {
	stats, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, path := range stats {
		b, _ := os.ReadFile(path)
		if _, rest, ok := strings.Cut(string(b), ") "); ok && strings.HasPrefix(rest, "R") {
			return false
		}
	}
	return true
}

// A signal that does not kill, such as those of profilers and progress bars, does not disturb a
// reader. There is neither EINTR nor SIGBUS if the bytes arrive soon.
func TestSignalsDoNotDisturb(t *testing.T) {
	t.Parallel()
	dir, file := bigStore(t, 128<<20)
	m := harness.MountSource(t, dir)
	ways := []struct {
		name string
		read func(path string) error
	}{
		{"buffered", func(path string) error { return readOnce(path, 0) }},
		{"direct", func(path string) error { return readOnce(path, unix.O_DIRECT) }},
		{"mapped", func(path string) error { return mapOnce(path, unix.MADV_NORMAL) }},
		{"mapped at random", func(path string) error { return mapOnce(path, unix.MADV_RANDOM) }},
		{"listing", listOnce},
	}
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			for range 4 {
				harness.DropPages(t, m.File(file.Hash))
				within(t, w.name, func() {
					if err := disturbed(func() error { return w.read(m.File(file.Hash)) }); err != nil {
						t.Error(err)
					}
				})
			}
		})
	}
}

// disturbed runs do while its thread gets signals all the time.
func disturbed(do func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	thread, stop, stopped := unix.Gettid(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				unix.Tgkill(os.Getpid(), thread, unix.SIGURG) //nolint:errcheck // the runtime ignores it
				time.Sleep(20 * time.Microsecond)
			}
		}
	}()
	defer func() { close(stop); <-stopped }()
	return do()
}

func readOnce(path string, flags int) error {
	fd, err := unix.Open(path, unix.O_RDONLY|flags, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	p, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	defer unix.Munmap(p) //nolint:errcheck // it was mapped
	for off := int64(0); ; {
		n, err := unix.Pread(fd, p, off)
		if err != nil || n == 0 {
			return err
		}
		off += int64(n)
	}
}

// listOnce lists the folder of a file with a small buffer.
func listOnce(path string) error {
	fd, err := unix.Open(filepath.Dir(path), unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for range 200 {
		if _, err := unix.Seek(fd, 0, io.SeekStart); err != nil {
			return err
		}
		for n := 1; n > 0; {
			if n, err = unix.ReadDirent(fd, make([]byte, 128)); err != nil {
				return err
			}
		}
	}
	return nil
}

func mapOnce(path string, advice int) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	b, err := unix.Mmap(int(f.Fd()), 0, int(end), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	defer unix.Munmap(b) //nolint:errcheck // it was mapped
	if err := unix.Madvise(b, advice); err != nil {
		return err
	}
	for i := 0; i < len(b); i += 8192 {
		if err := touch(b, i); err != nil {
			return fmt.Errorf("byte %d: %w", i, err)
		}
	}
	return nil
}
