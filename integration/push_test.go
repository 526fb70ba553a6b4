package integration

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/fs/fusemount"
	"github.com/xetfs/xetfs/integration/internal/harness"
)

var pushKills = flag.Int("push-kills", 4, "how often TestPushKilled kills a mount")

// Readers in order, in random order, of mappings and without cached pages see the bytes of the source,
// beside each other.
func TestPushBytes(t *testing.T) {
	harness.NeedFuse(t)
	t.Parallel()
	c := newSmallFileTree(t, 600)
	m := harness.MountSource(t, c.stores["catalog"])
	var readers sync.WaitGroup
	for i, sortDir := range []func([]fs.DirEntry){nil, byInode} {
		paths := pathsBelow(t, m.Path("tree"), sortDir)
		readers.Go(func() {
			for range 3 {
				readInOrder(t, m, c.folder, paths)
				dropPages(t, paths)
			}
		})
		dice := rand.New(rand.NewPCG(uint64(i), 1))
		readers.Go(func() {
			for range len(paths) {
				comparePart(t, m, c.folder, paths[dice.IntN(len(paths))], dice)
			}
		})
	}
	readers.Wait()
	m.Quiet()
}

// dropPages drops the cached pages of files.
func dropPages(t *testing.T, paths []string) {
	t.Helper()
	for _, path := range paths {
		if err := harness.TryDropPages(path); err != nil {
			t.Error(err)
		}
	}
}

// comparePart compares a mapping or a random part of a file with the source.
func comparePart(t *testing.T, m *harness.Mount, folder, path string, dice *rand.Rand) {
	t.Helper()
	want, err := os.ReadFile(filepath.Join(folder, strings.TrimPrefix(path, m.Path("tree"))))
	if err != nil {
		t.Error(err)
		return
	}
	f, err := os.Open(path)
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	if dice.IntN(2) == 0 {
		got, err := unix.Mmap(int(f.Fd()), 0, len(want), unix.PROT_READ, unix.MAP_SHARED)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("the mapping of %s differs: %v", path, err)
		}
		unix.Munmap(got) //nolint:errcheck // it was mapped
		return
	}
	off := dice.IntN(len(want))
	got := make([]byte, 1+dice.IntN(len(want)-off))
	if n, err := f.ReadAt(got, int64(off)); n < len(got) || !bytes.Equal(got, want[off:off+n]) {
		t.Errorf("%s has other bytes at %d: %v", path, off, err)
	}
}

// A mount that is killed during pushes ends, and so do its readers. If a push waits for a reader, the
// guard of the mount ends both, and without it the kernel does after ten minutes.
func TestPushKilled(t *testing.T) {
	harness.NeedFuse(t)
	t.Parallel()
	c := newSmallFileTree(t, 2000)
	for i := range *pushKills {
		m := harness.MountSource(t, c.stores["catalog"])
		m.Ended = true
		var readers []*exec.Cmd
		for range 2 {
			readers = append(readers, exec.Command("cp", "-r", m.Path("tree"), t.TempDir()),
				exec.Command("grep", "-r", "--binary-files=text", "no such text", m.Path("tree")))
		}
		for _, r := range readers {
			if err := r.Start(); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Duration(4+i%10) * 30 * time.Millisecond)
		m.Signal(syscall.SIGKILL)
		if _, ok := m.Wait(time.Minute); !ok {
			t.Fatal("the killed mount does not end")
		}
		for _, r := range readers {
			r.Wait() //nolint:errcheck // it ends, with any status
		}
	}
}

// The guard of a mount runs its program before the mount is ready, with and without pushes. Until then
// it has the connection open, and xetfs umount would take it for a server.
func TestGuardBeforeReady(t *testing.T) {
	harness.NeedFuse(t)
	t.Parallel()
	c := newSmallFileTree(t, 2)
	for _, push := range []string{"on", "off"} {
		t.Run("push="+push, func(t *testing.T) {
			testGuard(t, harness.MountSource(t, c.stores["catalog"], "--push="+push))
		})
	}
}

func testGuard(t *testing.T, m *harness.Mount) {
	var stat unix.Stat_t
	if err := unix.Stat(m.Path(), &stat); err != nil {
		t.Fatal(err)
	}
	fd, err := fusemount.OpenAbort(stat.Dev)
	if err != nil {
		t.Skipf("without this file there is no guard: %v", err)
	}
	unix.Close(fd)
	guards := 0
	// Kernels without CONFIG_PROC_CHILDREN have no such files.
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", m.Pid()))
	if len(threads) == 0 {
		t.Skip("this kernel does not list children")
	}
	for _, thread := range threads {
		children, _ := os.ReadFile(thread)
		for child := range strings.FieldsSeq(string(children)) {
			if name, _ := os.ReadFile("/proc/" + child + "/cmdline"); strings.HasPrefix(string(name), "xetfs-guard\x00") {
				guards++
			}
		}
	}
	if guards != 1 {
		t.Errorf("a ready mount has %d guards, want 1", guards)
	}
}
