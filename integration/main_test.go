package integration

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"testing"

	"github.com/xetfs/xetfs/fs/fstest"
)

var fullSize = flag.Bool("full-size", false, "use the amounts of data that the reliability catalogue names, not a part of them")

// childEnv names what this program does instead of testing: it is started once more as
// a reader that can be killed.
const childEnv = "XETFS_TEST_CHILD"

// raceEnabled says that the tests run under the race detector. Then the program does
// too, and what is measured means little.
var raceEnabled bool

func TestMain(m *testing.M) {
	fstest.PrivateMounts()
	if signal.Ignored(os.Interrupt) { // as in the background of a shell script: programs inherit that
		signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	}
	if role := os.Getenv(childEnv); role != "" {
		os.Exit(runChild(role, os.Args[1:]))
	}
	code := m.Run()
	if err := build.remove(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// binaryEnv names a program to test instead of the one of this source, to compare two.
const binaryEnv = "XETFS_BINARY"

// A builder builds xetfs when a test first needs it.
type builder struct {
	once sync.Once
	dir  string
	err  error
}

var build builder

// xetfs returns the path of the program under test.
func xetfs(t testing.TB) string {
	t.Helper()
	if path := os.Getenv(binaryEnv); path != "" {
		return path
	}
	build.once.Do(build.run)
	if build.err != nil {
		t.Fatal(build.err)
	}
	return filepath.Join(build.dir, "xetfs")
}

func (b *builder) run() {
	if b.dir, b.err = os.MkdirTemp("", "xetfs-integration-"); b.err != nil {
		return
	}
	args := []string{"build", "-o", filepath.Join(b.dir, "xetfs")}
	if raceEnabled {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, "./cmd/xetfs")...)
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		b.err = fmt.Errorf("building xetfs: %w\n%s", err, out)
	}
}

func (b *builder) remove() error {
	if b.dir == "" {
		return nil
	}
	return os.RemoveAll(b.dir)
}

// needFuse skips a test where nothing can be mounted, which CI does not allow.
func needFuse(t testing.TB) {
	t.Helper()
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err == nil {
		f.Close()
		return
	}
	absent(t, "/dev/fuse cannot be opened: %v", err)
}

// needTool skips a test if a program is missing, and returns where it is.
func needTool(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrNotFound) {
		absent(t, "%s is not installed; integration/setup.sh installs it", name)
	} else if err != nil {
		t.Fatal(err)
	}
	return path
}

// absent skips a test for want of something, and fails it in CI.
func absent(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// vectors returns the folder of a set of test vectors.
func vectors(t testing.TB, set string) string {
	t.Helper()
	root := os.Getenv("XETFS_VECTORS")
	if root == "" {
		t.Skip("XETFS_VECTORS is not set")
	}
	return filepath.Join(root, set)
}
