package bench

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	fusefs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/xetfs/xetfs/integration/internal/harness"
	"golang.org/x/sys/unix"
)

// Names of systems, in the order of the table's columns.
const (
	ours       = "xetfs"
	ext4       = "ext4"
	erofs      = "EROFS lz4"
	squashfs   = "squashfs lz4"
	squashfuse = "squashfuse"
	desync     = "desync"
	xetCore    = "xet-core"
	rclone     = "rclone mount"
	bare       = "bare passthrough"
	hfMount    = "hf-mount"
	hfDownload = "hf_hub_download"
	servePlain = "xetfs serve --plain"
)

var columns = []string{ours, ext4, bare, erofs, squashfs, squashfuse, desync, xetCore, rclone, hfMount, hfDownload, servePlain}

// bareOf mounts a folder with a server that only opens files for passthrough. Its cost is the
// cost of FUSE in the kernel, a lower bound for every server.
func bareOf(t *testing.T, folder string) (dir string) {
	t.Helper()
	root, err := fusefs.NewLoopbackRoot(folder)
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	o := &fusefs.Options{}
	o.MaxStackDepth = 1 // without it the kernel takes no files
	server, err := fusefs.Mount(dir, root, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Unmount(); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// images are the file systems whose images systems has made in dir: those of the kernel,
// and squashfuse on the image of squashfs.
func images(t *testing.T, dir, plain string) []system {
	t.Helper()
	all := systems(t, dir, plain, "", harness.Stored{})[2:] // without xetfs and ext4
	return append(all, squashfuseOf(t, dir)...)
}

// squashfuseOf is squashfs without the kernel, if it is installed and there is an image.
func squashfuseOf(t *testing.T, dir string) []system {
	t.Helper()
	image := filepath.Join(dir, "squashfs")
	program, err := exec.LookPath("squashfuse_ll")
	if _, noImage := os.Stat(image); err != nil || noImage != nil {
		t.Logf("squashfuse is left out: %v", errors.Join(err, noImage))
		return nil
	}
	return []system{{squashfuse, func(t *testing.T, _ ...string) *mounted {
		return serve(t, "file", program, "-f", image)
	}}}
}

// desyncOf stores the file of a folder with desync and mounts it by its index, if it is
// installed. It shows one file, not a tree.
func desyncOf(t *testing.T, dir, plain string) []system {
	t.Helper()
	program, err := exec.LookPath("desync")
	if err != nil {
		t.Logf("desync is left out: %v", err)
		return nil
	}
	index, chunks := filepath.Join(dir, "file.caibx"), filepath.Join(dir, "desync")
	if err := os.MkdirAll(chunks, 0o755); err != nil {
		t.Fatal(err)
	}
	harness.Run(t, dir, program, "make", "-s", chunks, index, filepath.Join(plain, "file"))
	return []system{{desync, func(t *testing.T, _ ...string) *mounted {
		return serve(t, "file", program, "mount-index", "-s", chunks, index)
	}}}
}

// serve starts a process that mounts something at the folder that is its last argument,
// and waits until it has.
func serve(t *testing.T, file, program string, args ...string) *mounted {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command(program, append(slices.Clone(args), dir)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		cmd.Wait() //nolint:errcheck // any exit status is right
		close(ended)
	}()
	unmount := sync.OnceFunc(func() { stopServer(t, dir, cmd, ended) })
	t.Cleanup(unmount)
	for start := time.Now(); !harness.IsMounted(t, dir); time.Sleep(time.Millisecond) {
		if time.Since(start) > harness.MountLimit {
			t.Fatalf("%s did not mount within %v", program, harness.MountLimit)
		}
	}
	pid := cmd.Process.Pid
	return &mounted{filepath.Join(dir, file), unmount, func() float64 { return secondsOf(pid) },
		func() int64 { return harness.Status(t, pid, "VmHWM") }}
}

// stopServer unmounts and ends the process.
func stopServer(t *testing.T, dir string, cmd *exec.Cmd, ended <-chan struct{}) {
	if harness.IsMounted(t, dir) {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmounting %s: %v", cmd.Path, err)
			unix.Unmount(dir, unix.MNT_DETACH) //nolint:errcheck // nothing else helps
		}
	}
	for _, signal := range []syscall.Signal{0, syscall.SIGTERM, syscall.SIGKILL} {
		cmd.Process.Signal(signal) //nolint:errcheck // it may have ended
		select {
		case <-ended:
			return
		case <-time.After(time.Second):
		}
	}
}
