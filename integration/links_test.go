package integration

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/integration/internal/harness"
)

// S03: links are text. Only the kernel follows a link of a mount. The program never follows one,
// when it publishes or without a mount.
func TestS03_Links(t *testing.T) {
	work := t.TempDir()
	folder, store := filepath.Join(work, "folder"), filepath.Join(work, "store")
	targets := map[string]string{
		"absolute": "/etc/passwd", "above": "../../../../etc/passwd", "loop": "loop", "to-folder": "dir",
		"environment": "/proc/self/environ", "dangling": "nowhere", "odd": "a\nb\xff", "long": strings.Repeat("x/", 2047),
	}
	if err := os.MkdirAll(filepath.Join(folder, "dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	harness.WriteFile(t, filepath.Join(folder, "dir", "file"), []byte("content"))
	for name, target := range targets {
		if err := os.Symlink(target, filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	harness.Publish(t, store, "s", folder)
	m := harness.MountSource(t, store, "--symbol=s")
	listTree(t, folder).same(t, "links", listTree(t, m.Dir))
	for name, target := range targets {
		if got, err := os.Readlink(m.Path(name)); got != target {
			t.Errorf("%s leads to %q, want %q (%v)", name, got, target, err)
		}
		out, err := exec.Command(harness.Program(t), "cat", store, "s", name).CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || strings.Count(string(out), "\n") != 1 {
			t.Errorf("cat of the link %s: %v, want one line that refuses it:\n%s", name, err, out)
		}
	}
	for _, path := range []string{"to-folder/file", "../dir/file", "absolute/x"} {
		out, err := exec.Command(harness.Program(t), "cat", store, "s", path).CombinedOutput()
		if err == nil {
			t.Errorf("cat %s follows a link, or leaves the tree: %s", path, out)
		}
	}
}
