package integration

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/web"
	"github.com/xetfs/xetfs/fs"
	barecatalog "github.com/xetfs/xetfs/fs/catalog/bare"
	"github.com/xetfs/xetfs/integration/internal/harness"
	"github.com/xetfs/xetfs/reconstruct"
)

// stuckStore publishes a file of some MiB, and folders that no reader has opened. Its server holds
// answers for xorbs at a gate.
func stuckStore(t *testing.T) (address string, gate *harness.Gate, content []byte) {
	t.Helper()
	folder, storeDir := filepath.Join(t.TempDir(), "folder"), filepath.Join(t.TempDir(), "store")
	content = harness.Noise(1, 48<<20)
	for i := range 20 {
		sub := filepath.Join(folder, fmt.Sprintf("folder-%02d", i))
		if err := os.MkdirAll(sub, 0o755); err != nil {
			t.Fatal(err)
		}
		for j := range 50 {
			harness.WriteFile(t, filepath.Join(sub, fmt.Sprint(j)), []byte("content"))
		}
	}
	harness.WriteFile(t, filepath.Join(folder, "large"), content)
	newCatalog(t, storeDir)
	harness.Publish(t, storeDir, "tree", folder)
	gate = harness.NewGate()
	return harness.ServeRemote(t, storeDir).Behind(gate), gate, content
}

// Readers that wait for a server end at once when they are interrupted or killed, also one that
// handles the signal (dd). The mount still works.
func TestRemoteReadersLeave(t *testing.T) {
	t.Parallel()
	address, gate, content := stuckStore(t)
	m := harness.MountRemote(t, address)
	path := m.Path("tree", "large")
	r := openReader(t, path, bytes.NewReader(content))
	if _, err := r.ReadAt(make([]byte, 4096), 0); err != nil { // it is known where the chunks are
		t.Fatal(err)
	}
	gate.Shut()
	for _, tt := range []struct {
		name    string
		command []string
	}{
		{"tail", []string{"tail", "-c", "+30000000", path}},
		{"dd", []string{"dd", "if=" + path, "of=/dev/null", "bs=64K", "skip=600"}},
		{"dd, direct", []string{"dd", "if=" + path, "of=/dev/null", "bs=64K", "skip=600", "iflag=direct"}},
	} {
		for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
			t.Run(fmt.Sprint(tt.name, " ", s), func(t *testing.T) {
				cmd := exec.Command(harness.NeedTool(t, tt.command[0]), tt.command[1:]...)
				cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				gone := make(chan struct{})
				go func() {
					defer close(gone)
					cmd.Wait() //nolint:errcheck // it is killed
				}()
				t.Cleanup(func() { cmd.Process.Kill() }) //nolint:errcheck // it may have ended
				harness.WaitUntil(t, "the reader is stuck", func() bool { return stuck(cmd.Process.Pid) })
				start := time.Now()
				cmd.Process.Signal(s) //nolint:errcheck // then it is not stuck
				select {
				case <-gone:
					t.Logf("it left after %v", time.Since(start))
				case <-time.After(harness.Patience):
					t.Error("it is still there")
				}
			})
		}
	}
	gate.Open()
	if _, err := r.ReadAt(make([]byte, 1<<20), 40<<20); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// Signals that do not ask a program to end disturb no reader that waits for a server.
func TestRemoteSignalsDoNotDisturb(t *testing.T) {
	t.Parallel()
	address, gate, _ := stuckStore(t)
	path := harness.MountRemote(t, address).Path("tree", "large")
	gate.Shut()
	time.AfterFunc(time.Second, gate.Open) // later than an interrupt may end a read of an invisible program
	within(t, "a direct read", func() {
		if err := disturbed(func() error { return readOnce(path, unix.O_DIRECT) }); err != nil {
			t.Error(err)
		}
	})
}

// Many readers are stuck, and other processes still list and stat files without waiting. Once the
// server answers again, all readers get their bytes.
func TestRemoteStuckReaders(t *testing.T) {
	t.Parallel()
	address, gate, content := stuckStore(t)
	many := 1000
	if harness.RaceEnabled {
		many = 200
	}
	for _, readers := range []int{16, many} {
		t.Run(fmt.Sprint(readers), func(t *testing.T) {
			gate.Open()
			m := harness.MountRemote(t, address)
			path := m.Path("tree", "large")
			if _, err := openReader(t, path, bytes.NewReader(content)).ReadAt(make([]byte, 4096), 0); err != nil {
				t.Fatal(err)
			}
			var files []*os.File
			for i := range readers {
				flags := 0
				if i%2 == 0 {
					flags = unix.O_DIRECT
				}
				f, err := os.OpenFile(path, os.O_RDONLY|flags, 0)
				if err != nil {
					t.Fatal(err)
				}
				files = append(files, f)
			}
			gate.Shut()
			shut := time.Now()
			var reading sync.WaitGroup
			var ended atomic.Int64
			for i, f := range files {
				r := newReader(t, f, bytes.NewReader(content))
				reading.Go(func() {
					defer ended.Add(1)
					off := (8<<20 + int64(i)*int64(len(content)-9<<20)/int64(readers)) &^ 4095
					start := time.Now()
					if _, err := r.check(make([]byte, 4096), off, "a read that waits", func(p []byte) (int, error) {
						return directRead(r.f, p, off)
					}); err != nil && time.Since(start) < mountLimit { // else the gate was shut for too long
						t.Errorf("a reader that had to wait: %v", err)
					}
				})
			}
			time.Sleep(300 * time.Millisecond)
			look(t, m.Path("tree"), readers)
			if n := ended.Load(); n > int64(readers)/20 && time.Since(shut) < mountLimit {
				t.Errorf("%d readers did not wait", n)
			}
			gate.Open()
			reading.Wait()
		})
	}
}

// look looks around in a tree of which nothing was looked at, and says how long that took.
func look(t *testing.T, root string, readers int) {
	t.Helper()
	var stat, list time.Duration
	for i := range 20 {
		sub := filepath.Join(root, fmt.Sprintf("folder-%02d", i))
		start := time.Now()
		withinLimit(t, harness.Patience, "stat", func() {
			if _, err := os.Lstat(filepath.Join(sub, "7")); err != nil {
				t.Error(err)
			}
		})
		stat = max(stat, time.Since(start))
		start = time.Now()
		withinLimit(t, harness.Patience, "ls", func() {
			if entries, err := os.ReadDir(sub); err != nil || len(entries) != 50 {
				t.Errorf("%d entries, %v", len(entries), err)
			}
		})
		list = max(list, time.Since(start))
	}
	t.Logf("beside %d stuck readers the slowest stat of 20 took %v, the slowest listing %v", readers, stat, list)
}

// N03, N11: a server that hangs is an input/output error within the limit of the mount, and works
// again once it answers. The server is a stopped process: it accepts connections and sends nothing.
func TestRemoteHangingServer(t *testing.T) {
	harness.NeedFuse(t)
	t.Parallel() // it mostly waits
	const limit = 5 * time.Second
	dir, file := bigStore(t, 40<<20)
	s := harness.ServeRemote(t, dir)
	path := mountInProcess(t, s.URL, fs.Options{ReadLimit: limit}, file)
	want := bytes.NewReader(harness.Noise(1, 40<<20))
	r := openReader(t, path, want)
	if _, err := r.ReadAt(make([]byte, 4096), 0); err != nil {
		t.Fatal(err)
	}
	stop := func(s *harness.RemoteServer, signal syscall.Signal) {
		if err := s.Cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
	}
	stop(s, syscall.SIGSTOP)
	harness.WaitUntil(t, "all threads are stopped", func() bool { return isStopped(t, s.Cmd.Process.Pid) })
	var worst atomic.Int64
	harness.Parallel(50, func(i int) {
		start := time.Now()
		_, err := r.f.ReadAt(make([]byte, 4096), int64(i+10)<<19)
		if err == nil {
			t.Error("a read of a server that hangs went well")
		}
		took := int64(time.Since(start))
		for old := worst.Load(); took > old && !worst.CompareAndSwap(old, took); old = worst.Load() {
		}
	})
	stop(s, syscall.SIGCONT)
	t.Logf("with a limit of %v the last error came after %v", limit, time.Duration(worst.Load()).Round(time.Millisecond))
	if took := time.Duration(worst.Load()); took >= time.Minute {
		t.Errorf("an error came after %v, the limit is %v", took, limit)
	}
	// Right after an error a read has but little time, which may not do here.
	_, err := r.ReadAt(make([]byte, 1<<20), 20<<20)
	for end := time.Now().Add(harness.MountLimit); err != nil && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		_, err = r.ReadAt(make([]byte, 1<<20), 20<<20)
	}
	if err != nil {
		t.Errorf("after it went on: %v", err)
	}
}

// isStopped reports whether all threads of a process are stopped.
func isStopped(t *testing.T, pid int) bool {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(threads) == 0 {
		t.Fatalf("no threads of process %d: %v", pid, err)
	}
	for _, thread := range threads {
		stat, err := os.ReadFile(thread)
		if _, state, _ := strings.Cut(string(stat), ") "); err != nil || !strings.HasPrefix(state, "T") {
			return false
		}
	}
	return true
}

// mountInProcess mounts what a server has in this process, as the program does it, and
// returns the path of a file.
func mountInProcess(t *testing.T, address string, o fs.Options, file harness.Stored) string {
	t.Helper()
	store, err := web.Open(address, web.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := cache.New(objects.New(store, objects.Options{}), cache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	files, err := barecatalog.Open(context.Background(), store, barecatalog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	server, err := fs.Mount(dir, files, reconstruct.New(c, reconstruct.Options{}), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Shutdown(5 * time.Second); err != nil {
			t.Error(err)
		}
		c.Close()     //nolint:errcheck // always nil
		store.Close() //nolint:errcheck // always nil
	})
	if err := server.RefusePoll(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "by-hash", file.Hash.String())
}
