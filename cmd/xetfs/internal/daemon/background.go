package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A Report is a message of a background process to its parent: the mount is ready, or has
// failed. A Report with Waiting may precede it.
type Report struct {
	Status   int      `json:"status"`
	Error    string   `json:"error,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	Waiting  string   `json:"waiting,omitempty"` // the reason: not ready yet; another report follows
}

// ReadyFD is the descriptor of the pipe to the parent in the background process.
const ReadyFD = 3

// PassedFD is the descriptor of a mount of another process in the background process.
const PassedFD = 4

// Start starts this program again, with args, as a background process, and returns its report.
// The process has no terminal and works in "/". It stays in the process group of this one until the
// mount is ready: an automounter lets only its own group use the path. Then the process gets its
// own session. If ctx ends, so does the process.
//
// Start calls waiting while SOURCE does not answer; waiting may be nil. log names the log of the
// process. passed becomes its descriptor PassedFD; nil: none.
func Start(ctx context.Context, args []string, log string, passed *os.File, waiting func(reason string)) (Report, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return Report{}, err
	}
	defer read.Close()
	child := &exec.Cmd{
		Path:       "/proc/self/exe", // this very program, also if its file was replaced
		Args:       args,
		Dir:        "/",
		ExtraFiles: []*os.File{write}, // ReadyFD
	}
	if passed != nil {
		child.ExtraFiles = append(child.ExtraFiles, passed)
	}
	err = child.Start()
	write.Close()
	if err != nil {
		return Report{}, &Error{fmt.Errorf("the background process cannot be started: %w", err)}
	}
	return await(ctx, child, read, log, waiting)
}

// await waits for the last report of the child.
func await(ctx context.Context, child *exec.Cmd, read io.Reader, log string, waiting func(reason string)) (Report, error) {
	stop := context.AfterFunc(ctx, func() { _ = child.Process.Signal(syscall.SIGTERM) })
	defer stop()
	reports := json.NewDecoder(read)
	var r Report
	err := reports.Decode(&r)
	for err == nil && r.Waiting != "" {
		if waiting != nil {
			waiting(r.Waiting)
		}
		r = Report{}
		err = reports.Decode(&r)
	}
	if err == nil && r.Status == 0 && ctx.Err() == nil {
		return r, child.Process.Release()
	}
	died := child.Wait()
	switch {
	case ctx.Err() != nil:
		return r, ctx.Err()
	case err != nil:
		return r, &Error{fmt.Errorf("the background process ended before the mount was ready (%v); log: %s", died, log)}
	}
	return r, nil
}

// A Parent is the pipe from a background process to Start.
type Parent struct {
	pipe      *os.File
	unwatch   func()
	hasReport bool // the last report was sent
}

// OpenParent returns the pipe behind a descriptor. It interrupts this process, whose signals
// WithSignals handles, if the parent ends before the last report.
func OpenParent(ctx context.Context, fd int) *Parent {
	unix.CloseOnExec(fd)
	interrupterOf(ctx).leaveKeyboard()
	return &Parent{pipe: os.NewFile(uintptr(fd), "parent"), unwatch: watchParent(interrupterOf(ctx), fd)}
}

// Waiting sends a report that another one follows.
func (p *Parent) Waiting(reason string) {
	_ = json.NewEncoder(p.pipe).Encode(Report{Waiting: reason}) // the parent may have gone
}

// Ready reports a mount that can be read. From here on the process has its own session, so that the
// end of a terminal does not end it.
func (p *Parent) Ready(warnings []string) {
	_, _ = unix.Setsid() // an error means that it leads a process group: no terminal signals it
	p.report(Report{Warnings: warnings})
}

// Fail reports a mount that failed. After Ready it does nothing.
func (p *Parent) Fail(status int, text string) { p.report(Report{Status: status, Error: text}) }

// report sends the last report, once.
func (p *Parent) report(r Report) {
	if p.hasReport {
		return
	}
	p.hasReport = true
	p.unwatch()
	_ = json.NewEncoder(p.pipe).Encode(r) // the parent may have gone
	p.pipe.Close()
}

// watchParent interrupts this process when its parent ends, until stop is called: after a
// killed mount command the user expects no mount. A process that does not end within
// parentGrace is ended. (PDEATHSIG belongs to a thread of the parent, so it is of no use.)
func watchParent(it *interrupter, readyFD int) (stop func()) {
	fd, err := unix.FcntlInt(uintptr(readyFD), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return func() {} // no parent
	}
	var stopped atomic.Bool
	go func() {
		defer unix.Close(fd)
		for !stopped.Load() {
			gone := []unix.PollFd{{Fd: int32(fd)}} //nolint:gosec // a file descriptor
			if n, _ := unix.Poll(gone, parentPoll); n > 0 && !stopped.Load() {
				it.interrupt(syscall.SIGTERM)
				time.Sleep(parentGrace)
				it.interrupt(syscall.SIGTERM)
				return
			}
		}
	}()
	return func() { stopped.Store(true) }
}

// parentGrace is the time for a process without parent to end after its first interrupt.
const parentGrace = time.Second

// parentPoll is the limit of one poll of the parent, in milliseconds.
const parentPoll = 100
