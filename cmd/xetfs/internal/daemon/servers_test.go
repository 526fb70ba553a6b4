package daemon

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/fs/fusemount"
)

// sleeper starts a process that holds some files, and ends with the test.
func sleeper(t *testing.T, files ...*os.File) (pid int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sleep", "3600")
	cmd.ExtraFiles = files
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill() //nolint:errcheck // it may have ended
		cmd.Wait()         //nolint:errcheck // by a signal
	})
	return cmd.Process.Pid
}

// A process that has the connections of two mounts open serves both.
func TestServersOfTwoMounts(t *testing.T) {
	if unix.Geteuid() != 0 || unix.Access("/dev/fuse", unix.R_OK|unix.W_OK) != nil {
		t.Skip("only root mounts without a helper, and only with /dev/fuse")
	}
	var mounts []mountpoint
	var files []*os.File
	for range 2 {
		dir := t.TempDir()
		d, err := fusemount.Mount(dir, fusemount.Options{Source: "test"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := d.Unmount(true); err != nil {
				t.Error(err)
			}
			d.Close()
		})
		mounts = append(mounts, mountpoint{dir, &fusemount.Entry{Minor: unix.Minor(d.Number())}})
		own, err := unix.FcntlInt(uintptr(d.FD), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, os.NewFile(uintptr(own), "connection"))
	}
	pid := sleeper(t, files...)
	for _, f := range files {
		f.Close()
	}
	for _, m := range mounts {
		if !slices.Contains(servers(m), pid) {
			t.Errorf("process %d does not serve %s", pid, m.path)
		}
	}
}

// A process that never ends does not keep Unmount waiting: it may have inherited the connection of an
// older mount.
func TestAwaitServersLimit(t *testing.T) {
	defer func(old time.Duration) { serverLimit = old }(serverLimit)
	serverLimit = 0
	pid := sleeper(t)
	notice := ""
	ended, err := awaitServers(t.Context(), mountpoint{"/m", &fusemount.Entry{}}, -1, []int{pid}, func(text string) { notice = text })
	if ended || err != nil || !strings.Contains(notice, "which had it open, still runs") {
		t.Errorf("awaitServers = %v, %v; %q", ended, err, notice)
	}
}

// killedServer mounts at a folder, and kills the server of the mount while a thread of it waits for a
// reply of the mount. Without a guard the process cannot end.
func killedServer(t *testing.T, guarded bool) (m mountpoint, server *exec.Cmd) {
	t.Helper()
	if unix.Geteuid() != 0 || unix.Access("/dev/fuse", unix.R_OK|unix.W_OK) != nil {
		t.Skip("only root mounts without a helper, and only with /dev/fuse")
	}
	dir := t.TempDir()
	d, err := fusemount.Mount(dir, fusemount.Options{Source: "test"})
	if err != nil {
		t.Fatal(err)
	}
	connection := os.NewFile(uintptr(d.FD), "connection")
	m, err = findMountpoint(dir)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := fusemount.OpenAbort(unix.Mkdev(0, m.on.Minor))
	if err != nil {
		t.Skipf("only the kernel could end the server: %v", errors.Join(err, d.Unmount(true)))
	}
	server = exec.CommandContext(t.Context(), "stat", dir)
	if guarded {
		server = exec.CommandContext(t.Context(), os.Args[0])
		server.Env = append(os.Environ(), guardedEnv+"="+dir)
	}
	t.Cleanup(func() {
		if err := d.Abort(); err != nil && !guarded {
			t.Error(err)
		}
		server.Wait()   //nolint:errcheck // by a signal
		d.Unmount(true) //nolint:errcheck // the test may have unmounted it
		d.Close()
	})
	message := make([]byte, 1<<20)
	if _, err := connection.Read(message); err != nil { // INIT
		t.Fatal(err)
	}
	reply := make([]byte, 80)
	order := binary.NativeEndian
	order.PutUint32(reply, uint32(len(reply)))
	copy(reply[8:], message[8:16]) // number of the message
	order.PutUint32(reply[16:], 7)
	order.PutUint32(reply[20:], 31)
	order.PutUint32(reply[40:], 4096) // largest write
	if _, err := connection.Write(reply); err != nil {
		t.Fatal(err)
	}
	abort := os.NewFile(uintptr(fd), "abort")
	defer abort.Close()
	server.ExtraFiles = []*os.File{connection, abort}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := connection.Read(message); err != nil { // of stat; there is no reply
		t.Fatal(err)
	}
	connection.Close()
	if servedByKilled(m) {
		t.Error("a running server counts as killed")
	}
	if err := server.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	return m, server
}

// guardedEnv is the folder of the mount of a guarded server.
const guardedEnv = "XETFS_TEST_GUARDED"

func TestMain(m *testing.M) {
	dir := os.Getenv(guardedEnv)
	switch {
	case os.Args[0] == GuardName:
		Guard(os.Args[1:])
	case dir != "":
		g, err := startGuard(os.NewFile(4, "abort"))
		if err != nil {
			panic(err)
		}
		_, _ = io.Copy(io.Discard, g.ready)
		_, _ = os.Stat(dir)
	case os.Getenv(crashEnv) != "":
		crash(os.Getenv(crashEnv))
	default:
		os.Exit(m.Run())
	}
}

// A guard ends a killed server that waits for its own mount.
func TestGuard(t *testing.T) {
	_, server := killedServer(t, true)
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the server does not end")
	}
}

// A killed server that waits for its own mount does not keep the mount busy.
func TestUnmountKilled(t *testing.T) {
	m, _ := killedServer(t, false)
	if _, _, err := Unmount(t.Context(), m.path, false, func(text string) { t.Error(text) }); err != nil {
		t.Error(err)
	}
}

// A mount takes the place of one with such a server.
func TestKilledIsStale(t *testing.T) {
	if m, _ := killedServer(t, false); !m.isStale() {
		t.Error("a killed process serves the mount")
	}
}

// A mount on a passed descriptor has no guard, whatever has its number by now. Neither has a folder
// whose mount is gone.
func TestNoGuard(t *testing.T) {
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	for _, mountpoint := range []string{fmt.Sprintf("/dev/fd/%d", dir.Fd()), dir.Name()} {
		d := &Daemon{Mountpoint: mountpoint}
		if g, err := d.newGuard(); g != nil || !errors.Is(err, errNoMountpoint) {
			t.Errorf("%s: guard %v, %v; want %v", mountpoint, g, err, errNoMountpoint)
		}
	}
}
