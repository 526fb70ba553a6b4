package integration

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/integration/internal/harness"
)

// ordinary is the number of a user, and of a group, without rights.
const ordinary = 65534

// privateSbin mounts an overlay over /usr/sbin, in the mount namespace of this test. mount(8) finds
// its helpers there. The only one of xetfs is a link to the program under test.
func privateSbin(t *testing.T, helper string) {
	t.Helper()
	harness.NeedFuse(t)
	if unix.Geteuid() != 0 {
		t.Skip("only root may mount with mount(8)")
	}
	if os.Getenv("XETFS_TEST_PRIVATE_MOUNTS") == "" {
		t.Skip("without a mount namespace of its own this test would change /usr/sbin")
	}
	work := t.TempDir()
	for _, name := range []string{"upper", "work"} {
		if err := os.Mkdir(filepath.Join(work, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	options := fmt.Sprintf("lowerdir=/usr/sbin,upperdir=%s/upper,workdir=%s/work", work, work)
	if err := unix.Mount("overlay", "/usr/sbin", "overlay", 0, options); err != nil {
		harness.Absent(t, "overlayfs: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount("/usr/sbin", unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	for _, installed := range []string{"mount.xetfs", "mount.fuse.xetfs", "xetfs"} {
		if err := os.Remove(filepath.Join("/usr/sbin", installed)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(harness.Program(t), filepath.Join("/usr/sbin", helper)); err != nil {
		t.Fatal(err)
	}
}

// mount8 runs a command with the program under test in PATH, and returns its output and exit status.
func mount8(t *testing.T, mark string, name string, args ...string) (out string, status int) {
	t.Helper()
	cmd := exec.Command(harness.NeedTool(t, name), args...)
	cmd.Env = []string{"PATH=/usr/sbin:" + os.Getenv("PATH"), "XDG_STATE_HOME=" + stateHome(), mark}
	within(t, name, func() {
		b, _ := cmd.CombinedOutput() // the status says it
		out = string(b)
	})
	return out, cmd.ProcessState.ExitCode()
}

// TestS22_Mount8 mounts lines of fstab with the real mount(8): twice, with the helpers of both types,
// and by mount.fuse3 without a helper. A plain umount ends the process.
func TestS22_Mount8(t *testing.T) {
	tests := []struct{ name, fsType, helper string }{
		{"xetfs", "xetfs", "mount.xetfs"},
		{"fuse.xetfs", "fuse.xetfs", "mount.fuse.xetfs"},
		{"fuse.xetfs without a helper", "fuse.xetfs", "xetfs"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.helper == "xetfs" {
				harness.NeedTool(t, "mount.fuse3") // it runs xetfs
			}
			privateSbin(t, tt.helper)
			source, file := bigStore(t, 1000)
			dir := filepath.Join(t.TempDir(), "with space")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			mark := "XETFS_TEST_MARK=" + dir
			t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) }) //nolint:errcheck // usually gone
			fstab := filepath.Join(t.TempDir(), "fstab")
			harness.WriteFile(t, fstab, fmt.Appendf(nil, "%s %s %s ro,_netdev,nofail,noexec,x-systemd.automount,comment=one,memory=64MiB,versions_dir=\"a\\054b\" 0 0\n",
				source, strings.ReplaceAll(dir, " ", `\040`), tt.fsType))
			for range 2 { // the second time nothing is to be done
				if out, status := mount8(t, mark, "mount", "-a", "-T", fstab); status != 0 || out != "" {
					t.Fatalf("mount -a: exit status %d: %s", status, out)
				}
			}
			if _, err := os.Stat(filepath.Join(dir, "by-hash", file.Hash.String())); err != nil {
				t.Error(err)
			}
			out, status := mount8(t, mark, "findmnt", "-n", "-o", "FSTYPE,SOURCE,OPTIONS", dir)
			if fields := strings.Fields(out); status != 0 || len(fields) != 3 || fields[0] != "fuse.xetfs" || fields[1] != source ||
				!strings.HasPrefix(fields[2], "ro,nosuid,nodev,noexec") {
				t.Errorf("findmnt: exit status %d: %s", status, out)
			}
			if n := len(markedProcesses(mark)); n != 1 {
				t.Errorf("%d processes serve the mount", n)
			}
			if out, status := mount8(t, mark, "umount", dir); status != 0 || out != "" {
				t.Errorf("umount: exit status %d: %s", status, out)
			}
			harness.WaitUntil(t, "no process is left", func() bool { return len(markedProcesses(mark)) == 0 })
		})
	}
}

// TestS22_Mount8Fails checks the exit statuses of mount(8), and its flags.
func TestS22_Mount8Fails(t *testing.T) {
	privateSbin(t, "mount.xetfs")
	source, _ := bigStore(t, 1000)
	dir := t.TempDir()
	tests := []struct {
		name   string
		args   []string
		status int
		says   string // "": nothing
	}{
		{"unknown option", []string{"-o", "nofial", source, dir}, 1, `xetfs mount: -o: "nofial" is not an option; did you mean nofail?`},
		{"unknown option, sloppy", []string{"-s", "-f", "-o", "nofial", source, dir}, 0, ""},
		{"a secret", []string{"-o", "password=geheim", source, dir}, 1, "xetfs mount: -o password: every user can read"},
		{"no source", []string{source + "-absent", dir}, 32, "no such file or directory"},
		{"no folder", []string{source, dir + "-absent"}, 32, "there is no such folder"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, status := mount8(t, "A=b", "mount", append([]string{"-t", "xetfs"}, tt.args...)...)
			if status != tt.status || !strings.Contains(out, tt.says) || (out == "") != (tt.says == "") || strings.Contains(out, "geheim") {
				t.Errorf("exit status %d, want %d: %s", status, tt.status, out)
			}
			if isMountedAt(dir) {
				t.Error("it is mounted")
			}
		})
	}
}

// TestS22_Namespace mounts in the mount namespace of another process, which mount(8) passes to its
// helper. No other namespace has the mount.
func TestS22_Namespace(t *testing.T) {
	privateSbin(t, "mount.xetfs")
	source, file := bigStore(t, 1000)
	dir := t.TempDir()
	mark := "XETFS_TEST_MARK=" + dir
	sleeper := exec.Command(harness.NeedTool(t, "unshare"), "--mount", "sh", "-c", "echo && exec sleep 600")
	out, err := sleeper.StdoutPipe()
	if err == nil {
		err = sleeper.Start()
	}
	if err == nil {
		_, err = out.Read(make([]byte, 1)) // it has its namespace
	}
	if err != nil {
		t.Fatal(err)
	}
	namespace := fmt.Sprintf("/proc/%d/ns/mnt", sleeper.Process.Pid)
	t.Cleanup(func() {
		sleeper.Process.Kill()
		sleeper.Wait() //nolint:errcheck // killed
		harness.WaitUntil(t, "no process is left", func() bool { return len(markedProcesses(mark)) == 0 })
	})
	if out, status := mount8(t, mark, "nsenter", "--mount="+namespace, "--", "ls", dir); status != 0 {
		t.Skipf("the root of this process is not that of its namespace, as in a chroot: %s", out)
	}
	if out, status := mount8(t, mark, "mount", "-N", namespace, "-t", "xetfs", source, dir); status != 0 || out != "" {
		t.Fatalf("mount -N: exit status %d: %s", status, out)
	}
	if isMountedAt(dir) {
		t.Error("it is mounted in the namespace of mount(8), too")
	}
	in := []string{"--mount=" + namespace, "--"}
	if out, status := mount8(t, mark, "nsenter", append(in, "stat", "-c", "%s", filepath.Join(dir, "by-hash", file.Hash.String()))...); status != 0 || out != "1000\n" {
		t.Errorf("stat: exit status %d: %s", status, out)
	}
	if out, status := mount8(t, mark, "nsenter", append(in, "umount", dir)...); status != 0 {
		t.Errorf("umount: exit status %d: %s", status, out)
	}
	if out, status := mount8(t, mark, "mount", "-N", "/dev/null", "-t", "xetfs", source, dir); status == 0 {
		t.Errorf("a file that is no namespace: exit status %d: %s", status, out)
	}
}

// TestS22_UserMount lets an ordinary user mount and unmount a line of fstab that has the option
// user. mount(8) runs its helper as that user, so fusermount3 mounts.
func TestS22_UserMount(t *testing.T) {
	privateSbin(t, "mount.xetfs")
	harness.NeedTool(t, "fusermount3")
	setpriv := harness.NeedTool(t, "setpriv")
	source, file := bigStore(t, 1000)
	readable(t, source)
	readable(t, harness.Program(t))
	home := t.TempDir()
	readable(t, home)
	dir := filepath.Join(home, "mnt")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{home, dir} {
		if err := os.Chown(path, ordinary, ordinary); err != nil {
			t.Fatal(err)
		}
	}
	fstab, device := filepath.Join(t.TempDir(), "fstab"), filepath.Join(t.TempDir(), "fuse")
	harness.WriteFile(t, fstab, fmt.Appendf(nil, "%s %s xetfs ro,noauto,user,nofail 0 0\n", source, dir))
	cover(t, fstab, "/etc/fstab", 0o644)
	if err := unix.Mknod(device, unix.S_IFCHR, int(unix.Mkdev(10, 229))); err != nil {
		t.Fatal(err)
	}
	cover(t, device, "/dev/fuse", 0o666)
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) }) //nolint:errcheck // usually gone
	mark := "XETFS_TEST_MARK=" + dir
	as := func(name string, args ...string) (string, int) {
		cmd := []string{"--reuid=65534", "--regid=65534", "--clear-groups", "env", "HOME=" + home, "XDG_STATE_HOME=" + home}
		return mount8(t, mark, setpriv, append(append(cmd, name), args...)...)
	}
	if out, status := as("mount", dir); status != 0 || out != "" {
		t.Fatalf("mount: exit status %d: %s", status, out)
	}
	if out, status := as("stat", "-c", "%s", filepath.Join(dir, "by-hash", file.Hash.String())); status != 0 || out != "1000\n" {
		t.Errorf("stat: exit status %d: %s", status, out)
	}
	if out, status := mount8(t, mark, "findmnt", "-n", "-o", "OPTIONS", dir); status != 0 || !strings.Contains(out, "user_id=65534") {
		t.Errorf("findmnt: exit status %d: %s", status, out)
	}
	if out, status := as("umount", dir); status != 0 || out != "" {
		t.Errorf("umount: exit status %d: %s", status, out)
	}
	harness.WaitUntil(t, "no process is left", func() bool { return len(markedProcesses(mark)) == 0 })
}

// cover binds a file over another one, in the mount namespace of this test, and sets its mode.
func cover(t *testing.T, file, other string, mode os.FileMode) {
	t.Helper()
	err := os.Chmod(file, mode)
	if err == nil {
		err = unix.Mount(file, other, "", unix.MS_BIND, "")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(other, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}
