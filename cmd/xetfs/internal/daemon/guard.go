package daemon

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/fs"
	"github.com/xetfs/xetfs/fs/fusemount"
)

// GuardName is the name of a guard: the program of a process that runs Guard.
const GuardName = "xetfs-guard"

// guardedFD is the descriptor of OpenAbort in a guard.
const guardedFD = 3

// startGuard starts a process that aborts the connection of a mount when this process is killed.
//
// A thread that pushes a file waits for a READ of the same page, and no signal ends that wait. A killed
// process would stay, with the readers of the mount, until the kernel ends the connection.
//
// stop ends the guard.
func (d *Daemon) startGuard() (stop func(), err error) {
	m, err := findMountpoint(d.Mountpoint)
	if err != nil {
		return nil, err
	}
	fd, err := fusemount.OpenAbort(unix.Mkdev(0, m.on.Minor))
	if err != nil {
		return nil, err
	}
	abort := os.NewFile(uintptr(fd), "abort")
	defer abort.Close()
	return guard(abort)
}

// guard starts a guard that writes to a file, and returns when the guard is ready. The kernel sends it a
// signal at the end of the thread that started it. The thread waits for stop, and ends at once when the
// process is killed.
func guard(abort *os.File) (stop func(), err error) {
	started, end, ended := make(chan error), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread()
		c := exec.Command("/proc/self/exe", strconv.Itoa(os.Getpid())) //nolint:noctx // it outlives any context
		c.Args[0], c.Dir, c.Env = GuardName, "/", []string{}
		c.ExtraFiles = []*os.File{abort}
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGUSR1}
		ready, err := c.StdoutPipe()
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			started <- err
			return
		}
		_, _ = io.Copy(io.Discard, ready) // until Guard closes it
		started <- nil
		<-end
		_ = c.Process.Kill()
		_ = c.Wait()
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	return func() { close(end); <-ended }, nil
}

// Guard waits for the end of its parent, and then aborts the connection of the parent's mount. Other
// signals have no effect: a service manager sends them to all processes of a service.
func Guard(args []string) {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE)
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGUSR1)
	unix.Close(1) // startGuard waits for it
	if len(args) == 1 && args[0] == strconv.Itoa(os.Getppid()) {
		<-ended
	}
	_, _ = unix.Write(guardedFD, []byte("1"))
}

// guardPushes starts a guard for a mount with pushes, and returns a function that ends it.
func (d *Daemon) guardPushes(server *fs.Server) (stop func()) {
	if !server.Pushes() {
		return func() {}
	}
	stop, err := d.startGuard()
	if err != nil {
		d.Log.Debug("no guard", "event", "no_guard", "err", err)
		return func() {}
	}
	return stop
}
