package harness

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// binaryEnv names a program to test instead of the one of this source, to compare two.
const binaryEnv = "XETFS_BINARY"

// A builder builds xetfs when a test first needs it.
type builder struct {
	once sync.Once
	path string // of the program
	dir  string // to remove; "": none
	err  error
}

var build builder

// Program returns the path of the program under test.
func Program(t testing.TB) string {
	t.Helper()
	build.once.Do(build.run)
	if build.err != nil {
		t.Fatal(build.err)
	}
	return build.path
}

// run builds the program, or takes the named one. The program warns of binaryEnv, so none inherits it.
func (b *builder) run() {
	if b.path = os.Getenv(binaryEnv); b.path != "" {
		os.Unsetenv(binaryEnv)
		return
	}
	if b.dir, b.err = os.MkdirTemp("", "xetfs-integration-"); b.err != nil {
		return
	}
	b.path = filepath.Join(b.dir, "xetfs")
	args := []string{"build", "-o", b.path}
	if RaceEnabled {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, "github.com/xetfs/xetfs/cmd/xetfs")...)
	if !RaceEnabled {
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // static, as a release is
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		b.err = fmt.Errorf("building xetfs: %w\n%s", err, out)
	}
}

// RemoveProgram removes the program that Program built.
func RemoveProgram() error {
	if build.dir == "" {
		return nil
	}
	return os.RemoveAll(build.dir)
}

// Root returns the folder of the module.
func Root(t testing.TB) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// NeedFuse skips a test where nothing can be mounted, which CI does not allow.
func NeedFuse(t testing.TB) {
	t.Helper()
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err == nil {
		f.Close()
		return
	}
	Absent(t, "/dev/fuse cannot be opened: %v", err)
}

// NeedTool skips a test if a program is missing, and returns where it is.
func NeedTool(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrNotFound) {
		Absent(t, "%s is not installed; integration/setup.sh installs it", name)
	} else if err != nil {
		t.Fatal(err)
	}
	return path
}

// Absent skips a test for want of something, and fails it in CI.
func Absent(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// Vectors returns the folder of a set of test vectors.
func Vectors(t testing.TB, set string) string {
	t.Helper()
	root := os.Getenv("XETFS_VECTORS")
	if root == "" {
		t.Skip("XETFS_VECTORS is not set")
	}
	return filepath.Join(root, set)
}

// RaceEnabled says that the tests run under the race detector. Then the program does
// too, and what is measured means little.
var RaceEnabled bool
