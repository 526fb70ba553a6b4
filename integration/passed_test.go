package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/integration/internal/harness"
)

// openConnection opens /dev/fuse and mounts it at a new folder. Another process serves it.
func openConnection(t *testing.T) (dir string, connection *os.File) {
	t.Helper()
	harness.NeedFuse(t)
	if unix.Geteuid() != 0 {
		t.Skip("only root may mount without fusermount3")
	}
	connection, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	dir = t.TempDir()
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=65534,group_id=65534,allow_other,default_permissions", connection.Fd())
	if err := unix.Mount("passed", dir, "fuse.xetfs", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) }) //nolint:errcheck // usually gone
	return dir, connection
}

// unprivileged returns a command of user 65534 without capabilities, and without a way to get any. It
// has a new folder as its HOME, and connection as descriptor 3.
func unprivileged(t *testing.T, connection *os.File, args ...string) *exec.Cmd {
	t.Helper()
	setpriv := harness.NeedTool(t, "setpriv")
	cmd := exec.Command(setpriv, append([]string{"--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs",
		"--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=-all", harness.Program(t)}, args...)...)
	cmd.Env = []string{"PATH=/nowhere", "XDG_STATE_HOME=/nowhere", "XDG_CACHE_HOME=/nowhere", "XETFS_TEST_MARK=" + os.Getenv("XETFS_TEST_MARK")}
	cmd.ExtraFiles = []*os.File{connection}
	return cmd
}

// readable lets every user read below a folder of a test, and enter the folders above it.
func readable(t *testing.T, path string) {
	t.Helper()
	harness.Run(t, "", "chmod", "-R", "a+rX", path)
	for dir := filepath.Dir(path); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// K32: a process without privileges serves a mount that another process made, until that one
// unmounts.
func TestK32_PassedDescriptor(t *testing.T) {
	source, file := bigStore(t, 1<<20)
	readable(t, source)
	readable(t, harness.Program(t))
	for _, form := range []string{"foreground", "background"} {
		t.Run(form, func(t *testing.T) {
			dir, connection := openConnection(t)
			mark := "XETFS_TEST_MARK=" + dir
			t.Setenv("XETFS_TEST_MARK", dir)
			args := []string{"mount", source, "/dev/fd/3"}
			if form == "foreground" {
				args = append([]string{"mount", "--foreground", "--log-format=json"}, args[1:]...)
				m := harness.StartCommand(t, unprivileged(t, connection, args...), source, dir)
				m.Ended = true
				defer func() {
					if code, ok := m.Wait(harness.Patience); !ok || code != 0 {
						t.Errorf("after the unmount: exit status %d, ended %t", code, ok)
					}
				}()
			} else if out, err := unprivileged(t, connection, args...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			connection.Close() // the server alone has it
			readWhole(t, filepath.Join(dir, "by-hash", file.Hash.String()), fmt.Sprintf("%x", file.SHA256))
			if err := unix.Unmount(dir, unix.UMOUNT_NOFOLLOW); err != nil {
				t.Error(err)
			}
			if form == "background" {
				harness.WaitUntil(t, "no process is left", func() bool { return len(markedProcesses(mark)) == 0 })
			}
		})
	}
}

// K32: SIGTERM ends the server. Readers of its mount get an error, and the process that mounted
// removes the mount.
func TestK32_PassedTerminated(t *testing.T) {
	source, file := bigStore(t, 1<<20)
	readable(t, source)
	readable(t, harness.Program(t))
	dir, connection := openConnection(t)
	m := harness.StartCommand(t, unprivileged(t, connection, "mount", "--foreground", "--log-format=json", source, "/dev/fd/3"), source, dir)
	m.Ended = true
	connection.Close()
	readWhole(t, filepath.Join(dir, "by-hash", file.Hash.String()), fmt.Sprintf("%x", file.SHA256))
	m.Signal(syscall.SIGTERM)
	if code, ok := m.Wait(harness.Patience); !ok || code != 0 {
		t.Errorf("exit status %d, ended %t", code, ok)
	}
	if err := unix.Statfs(dir, new(unix.Statfs_t)); err != unix.ENOTCONN {
		t.Errorf("the mount says %v, want ENOTCONN", err)
	}
}

// K32: a descriptor that is no mount is one sentence, and status 7.
func TestK32_NoPassedDescriptor(t *testing.T) {
	source, _ := bigStore(t, 1000)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for place, want := range map[string]string{
		"/dev/fd/3":   "/dev/fd/3: the descriptor is no open /dev/fuse; mount(2) names the right one as fd=N",
		"/dev/fd/900": "/dev/fd/900: this process has no such descriptor; let the process that mounted pass it on",
	} {
		cmd := exec.Command(harness.Program(t), "mount", source, place)
		cmd.Env = harness.Environment("XDG_STATE_HOME=" + stateHome(t))
		cmd.ExtraFiles = []*os.File{null}
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != 7 || string(out) != "xetfs mount: "+want+"\n" {
			t.Errorf("%s: exit status %d: %s", place, code, out)
		}
	}
}
