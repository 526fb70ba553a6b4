package integration

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/xetfs/xetfs/integration/internal/harness"
)

var walkFaults = flag.Int("walk-faults", 67, "only every Nth fault of the system calls of publish and pack is tested; 1: each of them")

// S31: strace makes single system calls of the program fail, those of the walk through FOLDER
// among them. With exit status 0 the tree is complete; otherwise there is no version.
func TestS31_WalkFaults(t *testing.T) {
	t.Parallel()
	strace := harness.NeedTool(t, "strace")
	if out, err := exec.Command(strace, "-f", "true").CombinedOutput(); err != nil {
		t.Skipf("strace does not work here: %v: %s", err, out)
	}
	folder := walkFolder(t)
	calls := []string{
		"openat", "statx", "fstat", "newfstatat", "getdents64", "read", "readlinkat", "faccessat2", "fstatfs",
		"llistxattr", "lgetxattr", "sync_file_range", "pread64", "mmap",
	}
	errnos := []string{"EMFILE", "ENFILE", "EIO", "ENOMEM", "ENOSPC"}
	const most = 40 // calls of one kind that a thread makes
	i, injected := 0, 0
	for _, call := range calls {
		for n := 1; n <= most; n++ {
			if i++; i%*walkFaults != 0 {
				continue
			}
			errno := errnos[i%len(errnos)]
			fault := fmt.Sprintf("%s:error=%s:when=%d", call, errno, n)
			if publishWithFault(t, strace, fault, folder) {
				injected++
			}
			if packWithFault(t, strace, fault, folder) {
				injected++
			}
		}
	}
	if injected == 0 {
		t.Error("no system call failed")
	}
}

// walkFolder is a folder with one of everything that a walk looks at.
func walkFolder(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	old := time.Now().Add(-time.Hour)
	for path, size := range map[string]int{".xetfsignore": 0, "inline": 100, "small": 5000, "large": 70_000, "d/e/x": 10} {
		path = filepath.Join(folder, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		harness.WriteFile(t, path, harness.Noise(uint64(size), size))
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("small", filepath.Join(folder, "link")); err != nil {
		t.Fatal(err)
	}
	return folder
}

// withFault runs the program with one fault in each of its threads. hit reports whether a system
// call has failed.
func withFault(t *testing.T, strace, fault string, args ...string) (output string, status int, hit bool) {
	t.Helper()
	work := t.TempDir()
	trace := filepath.Join(work, "trace")
	call, _, _ := strings.Cut(fault, ":")
	cmd := exec.Command(strace, append([]string{"-f", "-qq", "-o", trace, "-e", "trace=" + call, "-e", "inject=" + fault, harness.Program(t)}, args...)...)
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+work, "XDG_STATE_HOME="+work)
	out, _ := cmd.CombinedOutput()
	log, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode(), strings.Contains(string(log), "(INJECTED)")
}

func publishWithFault(t *testing.T, strace, fault, folder string) (hit bool) {
	t.Helper()
	store := filepath.Join(t.TempDir(), "store")
	out, status, hit := withFault(t, strace, fault, "publish", "--xattrs", store, "s", folder)
	tree, err := exec.Command(harness.Program(t), "ls", "-R", store, "s").Output()
	complete := string(tree) == ".xetfsignore\nd\nd/e\nd/e/x\ninline\nlarge\nlink\nsmall\n"
	if status == 0 && !complete || status != 0 && err == nil || status == 9 {
		t.Errorf("publish, %s: status %d, a version: %v\n%s\nits tree\n%s", fault, status, err == nil, out, tree)
	}
	return hit
}

func packWithFault(t *testing.T, strace, fault, folder string) (hit bool) {
	t.Helper()
	out, status, hit := withFault(t, strace, fault, "pack", filepath.Join(t.TempDir(), "store"), folder)
	if status == 0 && !strings.Contains(out, "packed   5 files, ") || status == 9 {
		t.Errorf("pack, %s: status %d\n%s", fault, status, out)
	}
	return hit
}
