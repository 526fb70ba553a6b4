package bench

import (
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/xetfs/xetfs/integration/internal/harness"
	"golang.org/x/sys/unix"
)

// A system is a file system that has the one file of a bench.
type system struct {
	name  string
	mount func(t *testing.T, flags ...string) *mounted // flags: of xetfs; others have none
}

// A mounted is a system while it is mounted.
type mounted struct {
	path    string // of the file
	unmount func()
	cpu     func() float64 // seconds that its process has used; 0 if it has none
	peak    func() int64   // most memory of its process, in bytes; nil if not measured
}

func noProcess() float64 { return 0 }

// systems are xetfs and its peers, as far as their tools are on the machine. Images are
// made here.
func systems(t *testing.T, dir, plain, storeDir string, file harness.Stored) []system {
	t.Helper()
	all := []system{
		{"xetfs", func(t *testing.T, flags ...string) *mounted { return mountXetfs(t, storeDir, file, flags...) }},
		{"ext4", func(t *testing.T, _ ...string) *mounted { return openPlain(t, filepath.Join(plain, "file")) }},
	}
	for _, peer := range []struct {
		name, kind string
		make       []string
	}{
		{"EROFS lz4", "erofs", []string{"mkfs.erofs", "--quiet", "-zlz4", "-C65536", "IMAGE", plain}},
		{"squashfs lz4", "squashfs", []string{"mksquashfs", plain, "IMAGE", "-quiet", "-no-progress", "-noappend", "-no-duplicates", "-comp", "lz4", "-b", "128K"}},
	} {
		if _, err := exec.LookPath(peer.make[0]); err != nil {
			t.Logf("%s is left out: %v", peer.name, err)
			continue
		}
		image := filepath.Join(dir, peer.kind)
		args := strings.Split(strings.ReplaceAll(strings.Join(peer.make, "\x00"), "IMAGE", image), "\x00")
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", peer.make[0], err, out)
		}
		all = append(all, system{peer.name, func(t *testing.T, _ ...string) *mounted { return mountImage(t, peer.kind, image) }})
	}
	return all
}

func mountXetfs(t *testing.T, source string, file harness.Stored, flags ...string) *mounted {
	m := harness.MountSource(t, source, flags...)
	cpu := func() float64 {
		ticks, err := harness.CPUTicks(m.Pid())
		if err != nil {
			t.Fatal(err)
		}
		return float64(ticks) / 100
	}
	return &mounted{m.File(file.Hash), sync.OnceFunc(m.Unmount), cpu, nil}
}

// openPlain makes the kernel forget the file, which is all that cold can mean here.
func openPlain(t *testing.T, path string) *mounted {
	harness.DropPages(t, path)
	return &mounted{path, func() {}, noProcess, nil}
}

// mountImage mounts an image through a loop device.
func mountImage(t *testing.T, kind, image string) *mounted {
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", kind, "-o", "loop,ro", image, dir).CombinedOutput(); err != nil {
		t.Fatalf("mounting %s: %v\n%s", image, err, out)
	}
	unmount := sync.OnceFunc(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmounting %s: %v", kind, err)
			unix.Unmount(dir, unix.MNT_DETACH) //nolint:errcheck // nothing else helps
		}
	})
	return &mounted{filepath.Join(dir, "file"), unmount, noProcess, nil}
}
