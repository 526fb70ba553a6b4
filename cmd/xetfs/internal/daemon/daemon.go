package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/fs"
	"github.com/xetfs/xetfs/fs/fusemount"
)

// exitDelay bounds the end of a mount after the second signal.
const exitDelay = 2 * time.Second

// grace is the time for open files after a request to end the mount.
const grace = 10 * time.Second

// A Daemon is one mount from its start to its end.
type Daemon struct {
	Source     string // for messages
	Folder     string // absolute path of a local SOURCE; "": SOURCE is on a web server
	Mountpoint string // absolute, or /dev/fd/N for a mount of another process
	Nonempty   bool   // mount over a folder with content
	AllowOther bool
	Pprof      string // address for Go profiles; "": none
	Log        *slog.Logger
	LogFile    *LogFile // nil: standard error

	// Open opens SOURCE for a mount at mountpoint, and returns the options of the mount. Run sets
	// FSName, AllowOther, Logger, Start and Check. Open calls waiting while a server does not answer.
	Open     func(ctx context.Context, mountpoint string, waiting func(reason string)) (*stack.Source, fs.Options, error)
	Notifier *Notifier // reports to systemd; nil: none
	Journal  bool      // the log is the journal

	// Serve is called with a ready mount. It returns a function that runs at its end. nil: no call.
	Serve func(ctx context.Context, server *fs.Server) (stop func(), err error)

	Ready   func(warnings []string) // called when the files can be read
	Waiting func(reason string)     // called while SOURCE does not answer; nil: no call

	mounted     atomic.Bool
	stopServing func() // nil: nothing to stop
	stopGuard   func()
}

// An Error means that a mount could not be made or did not end cleanly.
type Error struct{ Err error }

// Error implements error.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// A SignalError means that a second signal ended the mount. It has been logged.
type SignalError struct{ Interruption }

// Run mounts, serves until an unmount or a signal, and leaves no mount behind. It returns an
// Error, a SignalError or an error of Open.
func (d *Daemon) Run(ctx context.Context) error {
	if err := os.Chdir("/"); err != nil { // so that it keeps no folder busy
		return err
	}
	ignoresHangup := signal.Ignored(syscall.SIGHUP) || d.Notifier != nil || d.Journal
	if d.Notifier != nil {
		d.Notifier.log = d.Log
	}
	d.Notifier.notify(status("opening " + stack.WithoutSecrets(d.Source)))
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGQUIT) // others: interrupterOf(ctx)
	defer signal.Stop(signals)
	signal.Ignore(syscall.SIGPIPE, syscall.SIGXFSZ)

	src, server, err := d.start(ctx, signals)
	if err != nil {
		why := err
		if ctx.Err() != nil {
			why = errors.New("interrupted before it was ready")
		}
		d.Log.Error("not mounted", "event", "mount_failed", "mountpoint", d.Mountpoint, "err", why)
		return err
	}
	defer src.Close()
	defer d.stopGuard()
	defer interrupterOf(ctx).release() // a hung SOURCE may delay Close
	defer d.Notifier.notify(sd.SdNotifyStopping, status("closing"))
	if d.stopServing != nil {
		defer d.stopServing()
	}
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { d.Notifier.watch(watching, server) })
	defer watch.Wait()
	defer stop()
	return d.serve(ctx, src, server, signals, ignoresHangup)
}

// abandon removes the mount of this process at path, if it was made, before the process ends.
func abandon(path string) {
	e, err := fusemount.At(path)
	if err == nil && e != nil && e.Type == fusemount.FSType && serves("/proc/self", mountpoint{path: path, on: e}) {
		_ = fusemount.Unmount(path, true)
	}
}

// start returns when the files can be read. From then on signals receives SIGINT and SIGTERM. It leaves
// no mount behind after an error or a panic.
func (d *Daemon) start(ctx context.Context, signals chan<- os.Signal) (*stack.Source, *fs.Server, error) {
	if err := servePprof(ctx, d.Pprof, d.Log); err != nil {
		return nil, nil, err
	}
	if err := d.prepare(); err != nil {
		return nil, nil, &Error{err}
	}
	src, options, err := d.Open(ctx, d.Mountpoint, d.stillWaiting)
	if err != nil {
		return nil, nil, err
	}
	var server *fs.Server
	ready := false
	defer func() {
		if !ready {
			d.undo(ctx, src, server)
		}
	}()
	path := d.Mountpoint
	interrupterOf(ctx).onExit(func() { abandon(path) })
	if server, err = d.mount(ctx, src, options); err != nil {
		return nil, nil, err
	}
	interrupterOf(ctx).passTo(signals)
	if ctx.Err() != nil {
		return nil, nil, ctx.Err()
	}
	if err := d.startServing(ctx, server); err != nil {
		return nil, nil, &Error{err}
	}
	// Until a new process runs its program, it has the connection open, as a server has.
	d.stopGuard = d.guardMount()
	fresh := d.warnings(ctx, src, options)
	for _, w := range fresh {
		d.Log.Warn(w)
	}
	d.Log.Info("mounted", "event", "mount_ready", "source", d.Source, "mountpoint", d.Mountpoint, "pid", os.Getpid())
	d.mounted.Store(true)
	d.Notifier.notify(sd.SdNotifyReady, status("mounted "+stack.WithoutSecrets(d.Source)+" at "+d.Mountpoint))
	d.Ready(slices.Concat(src.Warnings, fresh)) // the log has src.Warnings already
	ready = true
	return src, server, nil
}

// undo ends a start that failed. The server is nil if there is no mount.
func (d *Daemon) undo(ctx context.Context, src *stack.Source, server *fs.Server) {
	if server != nil {
		interrupterOf(ctx).release() // a hung SOURCE may delay Close
		_ = server.Shutdown(0)
	}
	src.Close()
}

// startServing calls Serve.
func (d *Daemon) startServing(ctx context.Context, server *fs.Server) (err error) {
	if d.Serve != nil {
		d.stopServing, err = d.Serve(ctx, server)
	}
	return err
}

// stillWaiting calls Waiting before the mount is ready.
func (d *Daemon) stillWaiting(reason string) {
	if !d.mounted.Load() {
		d.Notifier.notify(status(stack.WaitingFor(d.Source, reason)))
	}
	if d.Waiting != nil && !d.mounted.Load() {
		d.Waiting(reason)
	}
}

// serve waits for the end of the mount and handles signals.
func (d *Daemon) serve(ctx context.Context, src *stack.Source, server *fs.Server, signals <-chan os.Signal, ignoresHangup bool) error {
	gone := make(chan struct{})
	go func() {
		server.Wait()
		close(gone)
	}()
	for {
		select {
		case <-gone:
			return d.checkEnd()
		case s := <-signals:
			if s == syscall.SIGINT || s == syscall.SIGTERM || s == syscall.SIGHUP && d.LogFile == nil && !ignoresHangup {
				return d.shutdown(ctx, server, s, signals)
			}
			d.dump(s, src)
		}
	}
}

// checkEnd checks the mount table after the kernel has closed the connection without a
// request of this process. A mount that is still in the table was aborted and does not answer,
// so it is removed.
func (d *Daemon) checkEnd() error {
	e, err := fusemount.At(d.Mountpoint)
	if err == nil && e != nil && fusemount.IsStale(d.Mountpoint) {
		_ = fusemount.Unmount(d.Mountpoint, true)
		err := errors.New("the connection to the kernel was aborted from outside")
		d.Log.Error("unmounted", "event", "unmounted", "mountpoint", d.Mountpoint, "err", err)
		return &Error{fmt.Errorf("%s: %w", d.Mountpoint, err)}
	}
	d.Log.Info("unmounted", "event", "unmounted", "mountpoint", d.Mountpoint)
	return nil
}

// shutdown unmounts. If files are open, the mount disappears from the tree of files at once.
// Open files are served until they are closed or grace is over. A second signal ends the wait.
func (d *Daemon) shutdown(ctx context.Context, server *fs.Server, s os.Signal, signals <-chan os.Signal) error {
	d.Notifier.notify(sd.SdNotifyStopping, status("unmounting "+d.Mountpoint))
	d.Log.Info("ending after a signal", "event", "shutdown", "signal", s.String())
	ended := make(chan error, 1)
	go func() { ended <- server.Shutdown(grace) }()
	for {
		select {
		case err := <-ended:
			if err != nil {
				d.Log.Error("not unmounted cleanly", "event", "unmounted", "mountpoint", d.Mountpoint, "err", err)
				return &Error{fmt.Errorf("%s: %w", d.Mountpoint, err)}
			}
			d.Log.Info("unmounted", "event", "unmounted", "mountpoint", d.Mountpoint)
			return nil
		case s := <-signals:
			if s == syscall.SIGINT || s == syscall.SIGTERM {
				by := &SignalError{Interruption{s.(syscall.Signal)}}
				time.AfterFunc(exitDelay, func() { interrupterOf(ctx).end(by.Status(), nil) })
				_ = server.Shutdown(0) // readers get ENOTCONN
				d.Log.Warn("ending at once after a second signal", "event", "unmounted", "signal", s.String())
				return by
			}
		}
	}
}

// prepare checks the mountpoint and removes the mount of a killed process.
func (d *Daemon) prepare() error {
	if fd, ok := fusemount.PassedFD(d.Mountpoint); ok {
		if err := fusemount.CheckPassed(fd); err != nil {
			return fmt.Errorf("%s: %w", d.Mountpoint, err)
		}
		return nil
	}
	m, err := findForMount(d.Mountpoint)
	if err != nil {
		return err
	}
	if m.isStale() {
		if err := fusemount.Unmount(m.path, true); err != nil {
			return fmt.Errorf("%s: a mount is left there whose process was killed, and cannot be taken away: %w", d.Mountpoint, err)
		}
		d.Log.Warn("a mount whose process was killed was taken away", "event", "stale_mount_cleared", "mountpoint", m.path)
		if m, err = findMountpoint(d.Mountpoint); err != nil {
			return err
		}
	}
	d.Mountpoint = m.path
	if d.Folder != "" {
		if err := checkApart(d.Folder, d.Mountpoint); err != nil {
			return err
		}
	}
	if err := d.checkFree(); err != nil {
		return err
	}
	if err := fusemount.Check(d.AllowOther); err != nil {
		return fmt.Errorf("%s: %w", d.Mountpoint, err)
	}
	return nil
}

// checkFree returns an error if another process has mounted at the mountpoint, or if nothing can be
// mounted there.
func (d *Daemon) checkFree() error {
	if _, passed := fusemount.PassedFD(d.Mountpoint); passed {
		return nil
	}
	return checkMountpoint(d.Mountpoint, d.Nonempty)
}
