package integration

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/codec/xorb"
	"github.com/xetfs/xetfs/integration/internal/harness"
)

const grace = 10 * time.Second // that open files are served after SIGTERM

// bigStore is one file of some MiB that does not shrink, so that reading takes a while.
func bigStore(t testing.TB, size int) (dir string, file harness.Stored) {
	t.Helper()
	dir = t.TempDir()
	s := harness.NewStore(dir, harness.StoreOptions{})
	file, err := s.Add(harness.NoiseContent(1, int64(size)), xorb.None)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir, file
}

// An idle mount goes at once.
func TestK01_Terminated(t *testing.T) {
	dir, _ := bigStore(t, 1<<20)
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(s.String(), func(t *testing.T) {
			m := harness.MountSource(t, dir)
			m.Ended = true
			m.Signal(s)
			if code, ok := m.Wait(harness.Patience); !ok || code != 0 {
				t.Fatalf("exit status %d, ended %t", code, ok)
			}
			if busy := m.Log.Find(harness.Event("unmount_busy")); len(busy) > 0 {
				t.Errorf("it waits as if a file was open: %v", busy)
			}
			checkGone(t, m)
		})
	}
}

// checkGone fails the test unless a mount has ended, with the log line of its end.
func checkGone(t *testing.T, m *harness.Mount) {
	t.Helper()
	if harness.IsMounted(t, m.Dir) {
		t.Errorf("%s is still mounted", m.Dir)
	}
	if len(m.Log.Find(harness.Event("unmounted"))) == 0 {
		t.Errorf("no line says unmounted:\n%s", m.Log)
	}
}

// With a file open the mount leaves the tree at once, and is served until the file is
// closed.
func TestK02_TerminatedBusy(t *testing.T) {
	dir, file := bigStore(t, 20<<20)
	m := harness.MountSource(t, dir)
	m.Ended = true
	child := startChild(t, "open", m.File(file.Hash))
	m.Signal(syscall.SIGTERM)
	if _, ok := m.Log.Wait(harness.Patience, harness.Event("unmount_busy")); !ok {
		t.Errorf("no line says unmount_busy:\n%s", m.Log)
	}
	harness.WaitUntil(t, "it leaves the tree", func() bool { return !harness.IsMounted(t, m.Dir) })
	for range 3 {
		if said := child.Ask(harness.Patience); said != "ok" {
			t.Errorf("a read of the open file says %q", said)
		}
	}
	child.Kill(harness.Patience)
	if code, ok := m.Wait(harness.Patience); !ok || code != 0 {
		t.Errorf("after the file was closed: exit status %d, ended %t", code, ok)
	}
	checkGone(t, m)
}

// If the file stays open, grace ends.
func TestK02_GraceEnds(t *testing.T) {
	if testing.Short() {
		t.Skip("takes as long as the grace")
	}
	t.Parallel()
	dir, file := bigStore(t, 20<<20)
	m := harness.MountSource(t, dir)
	m.Ended = true
	child := startChild(t, "open", m.File(file.Hash))
	start := time.Now()
	m.Signal(syscall.SIGTERM)
	if code, ok := m.Wait(harness.Patience); !ok || code != 0 { // a busy machine may need longer
		t.Fatalf("exit status %d, ended %t", code, ok)
	}
	if took := time.Since(start); took < grace-time.Second {
		t.Errorf("took %v, want %v", took, grace)
	}
	if said := child.Ask(harness.Patience); said == "ok" {
		t.Error("the open file can be read without a server")
	}
}

// A second signal does not wait for anybody.
func TestK03_SecondSignal(t *testing.T) {
	for _, second := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(second.String(), func(t *testing.T) {
			dir, file := bigStore(t, 20<<20)
			m := harness.MountSource(t, dir)
			m.Ended = true
			child := startChild(t, "open", m.File(file.Hash))
			m.Signal(syscall.SIGTERM)
			if _, ok := m.Log.Wait(harness.Patience, harness.Event("unmount_busy")); !ok {
				t.Fatalf("no line says unmount_busy:\n%s", m.Log)
			}
			m.Signal(second)
			switch code, ok := m.Wait(harness.Patience); {
			case !ok:
				t.Fatal("it goes on after the second signal")
			case code == 0:
				t.Error("exit status 0, as without a second signal")
			}
			if said := child.Ask(harness.Patience); !strings.Contains(said, "not connected") {
				t.Errorf("the reader sees %q, want ENOTCONN", said)
			}
		})
	}
}

// A process never sends a request to its own mount, because a thread that waits for that mount
// cannot be killed.
func TestK04_AsksItselfNothing(t *testing.T) {
	dir, _ := bigStore(t, 1<<20)
	m := harness.MountSource(t, dir, "--debug-fuse")
	requested := func(l harness.Line) bool {
		text, _ := l["msg"].(string)
		return strings.HasPrefix(text, "rx ") && !strings.Contains(text, ": INIT ")
	}
	for _, line := range m.Log.Find(requested) {
		t.Errorf("its mount was asked before anybody else knew of it: %v", line)
	}
	if _, err := os.ReadDir(m.Dir); err != nil {
		t.Fatal(err)
	}
	if len(m.Log.After(requested)) == 0 {
		t.Errorf("no message is logged at all:\n%s", m.Log)
	}
}

// Killed, the process leaves a mount that answers nothing. Its readers end, and the next
// mount there clears it away.
func TestK04_Killed(t *testing.T) {
	dir, file := bigStore(t, 20<<20)
	slow, gate := slowFolder(t, dir)
	m := harness.MountSource(t, slow)
	m.Ended = true
	child := startChild(t, "open", m.File(file.Hash))
	gate.Shut()
	if said := child.Ask(300 * time.Millisecond); said != "(nothing)" {
		t.Fatalf("a reader of a disk that hangs says %q", said)
	}
	m.Signal(syscall.SIGKILL)
	if said := child.Says(harness.Patience); !strings.Contains(said, "not connected") && !strings.Contains(said, "connection abort") {
		t.Errorf("the waiting reader sees %q, want ENOTCONN or ECONNABORTED", said)
	}
	gate.Open()
	m.Wait(harness.Patience)
	if err := unix.Statfs(m.Dir, new(unix.Statfs_t)); !errors.Is(err, unix.ENOTCONN) {
		t.Errorf("what is left says %v, want ENOTCONN", err)
	}
	again := mountOver(t, dir, m.Dir)
	if len(again.Log.Find(harness.Event("stale_mount_cleared"))) != 1 {
		t.Errorf("no line says stale_mount_cleared:\n%s", again.Log)
	}
	if _, err := os.ReadFile(again.File(file.Hash)); err != nil {
		t.Error(err)
	}
}

// mountOver mounts at a folder that exists and cannot be looked at.
func mountOver(t *testing.T, source, dir string) *harness.Mount {
	t.Helper()
	m := harness.StartMount(t, source, dir)
	if _, ok := m.Log.Wait(harness.MountLimit, harness.Event("mount_ready")); !ok {
		t.Fatalf("not mounted:\n%s", m.Log)
	}
	return m
}
