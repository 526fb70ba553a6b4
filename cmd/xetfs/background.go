package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"golang.org/x/sys/unix"
)

// readyFlag is the flag by which the parent tells the child of the pipe between them.
const readyFlag = "ready-fd"

// A report is what a background mount tells its parent: that it can be read, or why not.
// Before that one may say what the mount waits for.
type report struct {
	Status   int      `json:"status"`
	Error    string   `json:"error,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	Waiting  string   `json:"waiting,omitempty"` // not ready yet; another report follows
}

// startBackground starts this program once more, as a daemon, and returns when the
// mount answers or has failed.
func (o *mountOptions) startBackground(cmd *cobra.Command, source, mountpoint string) error {
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	child := o.daemon(cmd, source, mountpoint, write)
	err = child.Start()
	write.Close()
	if err != nil {
		return mountError{fmt.Errorf("the background process cannot be started: %w", err)}
	}
	waiting := waitNotice(cmd.ErrOrStderr(), cmd.CommandPath(), source)
	r, err := o.await(cmd.Context(), child, read, waiting)
	if err != nil {
		return err
	}
	name := cmd.CommandPath()
	for _, w := range r.Warnings {
		fmt.Fprintln(cmd.ErrOrStderr(), ui.NoticeLine(name, w))
	}
	if r.Status != exitGood {
		fmt.Fprintln(cmd.ErrOrStderr(), ui.NoticeLine(name, r.Error))
		return statusError(r.Status)
	}
	if o.log.none != nil {
		fmt.Fprintln(cmd.ErrOrStderr(), ui.NoticeLine(name, fmt.Sprintf("there is no log: %v; --log-file names a file, --foreground logs to standard error", o.log.none)))
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "mounted %s at %s\nlog:     %s\nunmount: xetfs umount %s\n",
		ui.Printable(source), ui.Printable(mountpoint), ui.Printable(o.log.place()), ui.ShellWord(mountpoint))
	return err
}

// daemon is the command line of the child: all flags as they were given, the paths
// absolute. It leads a session of its own, has no terminal and no folder that it would
// keep busy.
func (o *mountOptions) daemon(cmd *cobra.Command, source, mountpoint string, ready *os.File) *exec.Cmd {
	args := []string{os.Args[0], cmd.Name(), "--" + readyFlag + "=3", "--log-file=" + o.log.file}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Name != "log-file" {
			args = append(args, "--"+f.Name+"="+f.Value.String())
		}
	})
	return &exec.Cmd{
		Path:        "/proc/self/exe", // this very program, also if its file was replaced
		Args:        append(args, "--", source, mountpoint),
		Dir:         "/",
		ExtraFiles:  []*os.File{ready},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
}

// await waits for the report of the child. If the user gives up, the child does too.
func (o *mountOptions) await(ctx context.Context, child *exec.Cmd, read io.Reader, waiting func()) (report, error) {
	stop := context.AfterFunc(ctx, func() { _ = child.Process.Signal(syscall.SIGTERM) })
	defer stop()
	reports := json.NewDecoder(read)
	var r report
	err := reports.Decode(&r)
	for err == nil && r.Waiting != "" {
		if waiting != nil {
			waiting()
		}
		r = report{}
		err = reports.Decode(&r)
	}
	if err == nil && r.Status == exitGood && ctx.Err() == nil {
		return r, child.Process.Release()
	}
	died := child.Wait()
	switch {
	case ctx.Err() != nil:
		return r, ctx.Err()
	case err != nil:
		return r, mountError{fmt.Errorf("the background process ended before the mount was ready (%v); log: %s", died, o.log.place())}
	}
	return r, nil
}

// serveInBackground is serve in the child. Whatever happens before the mount is ready
// goes to the parent.
func (o *mountOptions) serveInBackground(ctx context.Context, source, mountpoint string) error {
	unix.CloseOnExec(o.readyFD)
	pipe := os.NewFile(uintptr(o.readyFD), "parent")
	awaited := whileAwaited(interrupterOf(ctx), o.readyFD)
	tell := func(r report) {
		awaited()
		_ = json.NewEncoder(pipe).Encode(r) // the parent may have gone
		pipe.Close()
	}
	log, file, err := o.log.open(io.Discard)
	if err != nil {
		tell(report{Status: exitMount, Error: err.Error()})
		return mountError{err}
	}
	// What the runtime says when the program dies has no terminal to go to.
	_ = debug.SetCrashOutput(file.file(), debug.CrashOptions{})

	told := false
	d := daemon{options: o, source: source, mountpoint: mountpoint, log: log, logFile: file}
	d.waiting = func() { _ = json.NewEncoder(pipe).Encode(report{Waiting: waitingFor(source)}) }
	d.ready = func(warnings []string) {
		told = true
		tell(report{Warnings: warnings})
	}
	err = d.run(ctx)
	if err != nil && !told {
		status := exitStatus(ctx, err)
		tell(report{Status: status, Error: ui.Printable(userText(err))})
	}
	return err
}

// whileAwaited interrupts this process when its parent ends, until stop is called: after
// a killed mount command the user expects no mount. A child that does not end within
// parentGrace is ended. (PDEATHSIG belongs to a thread of the parent, so it is of no use.)
func whileAwaited(it *interrupter, readyFD int) (stop func()) {
	fd, err := unix.FcntlInt(uintptr(readyFD), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return func() {} // no parent
	}
	var told atomic.Bool
	go func() {
		defer unix.Close(fd)
		for !told.Load() {
			gone := []unix.PollFd{{Fd: int32(fd)}} //nolint:gosec // a file descriptor
			if n, _ := unix.Poll(gone, parentPoll); n > 0 && !told.Load() {
				it.interrupt(syscall.SIGTERM)
				time.Sleep(parentGrace)
				it.interrupt(syscall.SIGTERM)
				return
			}
		}
	}()
	return func() { told.Store(true) }
}

// parentGrace is how long a child without parent may take to end by itself.
const parentGrace = time.Second

// parentPoll is how many milliseconds after the report the last look at the parent ends.
const parentPoll = 100

// serve is the mount in the foreground.
func (o *mountOptions) serve(cmd *cobra.Command, source, mountpoint string) error {
	log, file, err := o.log.open(cmd.ErrOrStderr())
	if err != nil {
		return mountError{err}
	}
	d := daemon{options: o, source: source, mountpoint: mountpoint, log: log, logFile: file}
	d.waiting = waitNotice(cmd.ErrOrStderr(), cmd.CommandPath(), source)
	d.ready = func([]string) {} // warnings are in the log, which is on the screen
	return d.run(cmd.Context())
}
