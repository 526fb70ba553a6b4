package daemon

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/fs/fusemount"
)

// GuardName is the name of a guard: the program of a process that runs Guard.
const GuardName = "xetfs-guard"

// guardedFD is the descriptor of OpenAbort in a guard.
const guardedFD = 3

// A guard is a process that aborts the connection of a mount when this process is killed.
//
// A thread that pushes or drops a page waits for a READ of it. One that drops a name waits for a LOOKUP
// in its folder. No signal ends these waits. A killed process would stay, with the callers of the mount,
// until the connection is aborted.
type guard struct {
	ready io.Reader     // ends when the guard is ready
	end   chan struct{} // closed by stop
	ended chan struct{}
}

// startGuard starts a guard that writes to a file. The kernel sends it a signal at the end of the thread
// that started it. The thread waits for stop, and ends at once when the process is killed.
func startGuard(abort *os.File) (*guard, error) {
	g := &guard{end: make(chan struct{}), ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		defer close(g.ended)
		runtime.LockOSThread()
		c := exec.Command("/proc/self/exe", strconv.Itoa(os.Getpid())) //nolint:noctx // it outlives any context
		c.Args[0], c.Dir, c.Env = GuardName, "/", []string{}
		c.ExtraFiles = []*os.File{abort}
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGUSR1}
		var err error
		if g.ready, err = c.StdoutPipe(); err == nil {
			err = c.Start()
		}
		started <- err
		if err != nil {
			return
		}
		<-g.end
		_ = c.Process.Kill()
		_ = c.Wait()
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	return g, nil
}

func (g *guard) stop() {
	close(g.end)
	<-g.ended
}

// Guard waits for the end of its parent, and then aborts the connection of the parent's mount. Other
// signals have no effect: a service manager sends them to all processes of a service.
func Guard(args []string) {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE)
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGUSR1)
	unix.Close(1) // guard.ready ends
	if len(args) == 1 && args[0] == strconv.Itoa(os.Getppid()) {
		<-ended
	}
	_, _ = unix.Write(guardedFD, []byte("1"))
}

// guardMount starts a guard for the mount, and returns a function that ends it. Without
// /sys/fs/fuse/connections there is no guard.
func (d *Daemon) guardMount() (stop func()) {
	g, err := d.newGuard()
	if err != nil {
		d.Log.Debug("no guard", "event", "no_guard", "err", err)
		return func() {}
	}
	return g.stop
}

// errNoMountpoint means that the connection of a mount is unknown.
var errNoMountpoint = errors.New("the mount has no known mountpoint")

func (d *Daemon) newGuard() (*guard, error) {
	// The descriptor of a passed mount may be closed by now, and another file may have its number.
	if _, passed := fusemount.PassedFD(d.Mountpoint); passed {
		return nil, errNoMountpoint
	}
	m, err := findMountpoint(d.Mountpoint)
	if err != nil {
		return nil, err
	}
	if m.on == nil || m.on.Type != fusemount.FSType {
		return nil, errNoMountpoint
	}
	fd, err := fusemount.OpenAbort(unix.Mkdev(0, m.on.Minor))
	if err != nil {
		return nil, err
	}
	abort := os.NewFile(uintptr(fd), "abort")
	defer abort.Close()
	return startGuard(abort)
}
