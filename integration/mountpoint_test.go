package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/xetfs/xetfs/integration/internal/harness"
	"golang.org/x/sys/unix"
)

// Each thing that can be wrong with a mount point is one sentence, and status 7.
func TestK30_MountPoint(t *testing.T) {
	t.Parallel()
	harness.NeedFuse(t)
	source, file := bigStore(t, 100_000)
	base := t.TempDir()
	in := func(name string) string { return filepath.Join(base, name) }
	for _, dir := range []string{"full", "with space, and comma", "free", "relative", "taken"} {
		if err := os.Mkdir(in(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"file", "full/something"} {
		if err := os.WriteFile(in(name), []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	harness.MountAt(t, source, in("taken"))
	tests := []struct {
		name  string
		args  []string
		says  string // "": it is mounted
		where string
	}{
		{"missing", []string{in("nothing")}, "nothing", ""},
		{"a file", []string{in("file")}, "file", ""},
		{"not empty", []string{in("full")}, "not empty", ""},
		{"not empty, and that is all right", []string{"--nonempty", in("full")}, "", in("full")},
		{"already mounted", []string{in("taken")}, "taken", ""},
		{"with spaces and commas", []string{in("with space, and comma")}, "", in("with space, and comma")},
		{"relative", []string{"relative"}, "", in("relative")},
		{"inside the source", []string{source}, source, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, code := command(t, base, append([]string{"mount", source}, tt.args...)...)
			if tt.says == "" {
				defer command(t, base, "umount", tt.where)
				if code != 0 {
					t.Fatalf("exit status %d: %s", code, out)
				}
				if _, err := os.Stat(filepath.Join(tt.where, "by-hash", file.Hash.String())); err != nil {
					t.Error(err)
				}
				return
			}
			if code != 7 {
				t.Errorf("exit status %d, want 7: %s", code, out)
			}
			if !strings.HasPrefix(out, "xetfs mount: ") || strings.Count(out, "\n") != 1 || !strings.Contains(out, tt.says) {
				t.Errorf("it says %q, want one sentence with %q", out, tt.says)
			}
		})
	}
}

// command runs the program under test and returns what it prints, and its exit status.
func command(t testing.TB, dir string, args ...string) (out string, status int) {
	t.Helper()
	cmd := exec.Command(harness.Program(t), args...)
	cmd.Dir = dir
	cmd.Env = harness.Environment()
	var b strings.Builder
	cmd.Stdout, cmd.Stderr = &b, &b
	cmd.WaitDelay = harness.Patience
	within(t, "xetfs "+strings.Join(args, " "), func() { cmd.Run() }) //nolint:errcheck // the status says it
	return b.String(), cmd.ProcessState.ExitCode()
}

// stateHome returns the folder of the logs of background mounts, in the private home of the tests.
func stateHome() string { return filepath.Join(os.Getenv("HOME"), ".local", "state") }

// A mount in the background exists when the command returns, has said where its log
// is, and goes with umount.
func TestK33_Background(t *testing.T) {
	harness.NeedFuse(t)
	source, file := bigStore(t, 3<<20)
	dir := t.TempDir()
	out, code := command(t, "", "mount", source, dir)
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) }) //nolint:errcheck // usually gone
	if code != 0 {
		t.Fatalf("exit status %d: %s", code, out)
	}
	if got := namesIn(t, filepath.Join(dir, "by-hash")); len(got) != 1 || got[0] != file.Hash.String() {
		t.Errorf("right after the command returned, by-hash has %q", got)
	}
	log := ""
	for line := range strings.Lines(out) {
		if path, ok := strings.CutPrefix(line, "log:"); ok {
			log = strings.TrimSpace(path)
		}
	}
	if b, err := os.ReadFile(log); err != nil || !strings.Contains(string(b), "mount_ready") {
		t.Errorf("the log %q says %q, %v", log, b, err)
	}
	r := openReader(t, filepath.Join(dir, "by-hash", file.Hash.String()), nil)
	if sum, err := r.ReadAll(1 << 20); err != nil || sum != file.SHA256 {
		t.Errorf("SHA-256 is %x, %v, want %x", sum, err, file.SHA256)
	}
	r.f.Close()
	checkBusyUmount(t, dir, file)
	if out, code := command(t, "", "umount", dir); code != 0 {
		t.Errorf("umount: exit status %d: %s", code, out)
	}
	if harness.IsMounted(t, dir) {
		t.Error("it is still mounted after umount")
	}
	if b, err := os.ReadFile(log); err != nil || !strings.Contains(string(b), "event=unmounted") {
		t.Errorf("afterwards the log says %q, %v", b, err)
	}
}

// checkBusyUmount tries to unmount while a file is open (K15).
func checkBusyUmount(t *testing.T, dir string, file harness.Stored) {
	t.Helper()
	child := startChild(t, "open", filepath.Join(dir, "by-hash", file.Hash.String()))
	if out, code := command(t, "", "umount", dir); code != 1 || !strings.Contains(out, "busy") {
		t.Errorf("umount while a file is open: exit status %d: %s", code, out)
	}
	if said := child.Ask(5 * time.Second); said != "ok" {
		t.Errorf("after that the open file says %q", said)
	}
	child.Kill(5 * time.Second)
}

// A mount in the background that fails prints its error before the command returns, with the exit
// status of the cause.
func TestK33_BackgroundFailure(t *testing.T) {
	harness.NeedFuse(t)
	out, code := command(t, "", "mount", filepath.Join(t.TempDir(), "nothing"), t.TempDir())
	if code != 3 || strings.Count(out, "\n") != 1 || !strings.Contains(out, "nothing") {
		t.Errorf("a source that is not there: exit status %d: %s", code, out)
	}
}

// A mount whose process was stopped, as by Ctrl-Z, answers nothing, not even what its root
// is. It can be taken away all the same, and the message names it.
func TestStoppedMount(t *testing.T) {
	t.Parallel() // it mostly waits
	dir, _ := bigStore(t, 100_000)
	m := harness.MountSource(t, dir)
	m.Ended = true
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(m.Dir, link); err != nil {
		t.Fatal(err)
	}
	m.Signal(syscall.SIGSTOP)
	t.Cleanup(func() { m.Signal(syscall.SIGCONT) }) // its waiters continue then
	out, code := command(t, "", "mount", dir, link)
	if code != 7 || strings.Count(out, "\n") != 1 || !strings.Contains(out, "mounted there already") {
		t.Errorf("mounting over it: exit status %d: %s", code, out)
	}
	for _, args := range [][]string{{"doctor", dir, m.Dir}, {"doctor", dir, m.Path("by-hash")}, {"status", m.Path("by-hash")}} {
		if out, code := command(t, "", args...); code != 1 || !strings.Contains(out, m.Dir) {
			t.Errorf("%q: exit status %d: %s", args, code, out)
		}
	}
	out, code = command(t, "", "umount", m.Dir)
	if want := fmt.Sprintf("kill -CONT %d", m.Pid()); code != 0 || strings.Count(out, "\n") != 1 || !strings.Contains(out, want) {
		t.Errorf("umount: exit status %d: %s, want a word about %s", code, out, want)
	}
	if harness.IsMounted(t, m.Dir) {
		t.Error("it is still mounted after umount")
	}
	m.Signal(syscall.SIGCONT)
	if code, ok := m.Wait(harness.UnmountLimit); code != 0 || !ok {
		t.Errorf("the process: exit status %d, ended %t", code, ok)
	}
}
