package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/integration/internal/harness"
)

// privateSbin lays a new folder over /usr/sbin, in the mount namespace of this test, with a link to
// the program under test. mount(8) finds its helpers there.
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
	if err := os.Symlink(harness.Program(t), filepath.Join(work, "upper", helper)); err != nil {
		t.Fatal(err)
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
}

// mount8 runs a command with the program under test in PATH, and returns its output and exit status.
func mount8(t *testing.T, mark string, name string, args ...string) (out string, status int) {
	t.Helper()
	cmd := exec.Command(harness.NeedTool(t, name), args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "XDG_STATE_HOME=" + stateHome(t), mark}
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
