package main

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/daemon"
	"github.com/xetfs/xetfs/fs/fusemount"
)

// K49: a server that is slow to end, as on a busy machine, does not count as one that another
// mount namespace uses.
func TestK49_SlowServer(t *testing.T) {
	if !canMount() {
		t.Skip("this machine cannot mount")
	}
	t.Parallel() // it waits for seconds
	device, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	dir := t.TempDir()
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", device.Fd())
	if err := unix.Mount("slow", dir, fusemount.FSType, 0, options); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH) //nolint:errcheck // the test has unmounted it
	server := exec.Command("sleep", "3")     // longer than the patience of umount
	server.ExtraFiles = []*os.File{device}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	device.Close()
	go server.Wait() //nolint:errcheck // else it would stay a zombie
	notice := func(text string) { t.Errorf("notice: %s", text) }
	if _, ended, err := daemon.Unmount(t.Context(), dir, false, notice); err != nil || !ended {
		t.Errorf("Unmount: %t, %v, want true", ended, err)
	}
}
