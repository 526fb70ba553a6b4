package daemon

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// An Interruption is the cause of a context that a signal canceled.
type Interruption struct{ Signal syscall.Signal }

// Error implements error.
func (i Interruption) Error() string { return "interrupted by " + i.Signal.String() }

// Status returns the exit status of a process that the signal ended: 130 or 143.
func (i Interruption) Status() int { return 128 + int(i.Signal) }

// An interrupter cancels a context with the first SIGINT or SIGTERM, and ends the process with
// the second one. The second step is necessary because a system call on a hung file system
// ignores the context.
type interrupter struct {
	cancel context.CancelCauseFunc
	notice func(text string)
	exit   func(status int)
	limit  time.Duration // of the notices and tidy before exit

	mu       sync.Mutex
	canceled bool             // the next signal ends the process; guarded by mu
	mount    chan<- os.Signal // receives the signals of a mount that is ready; nil: no such mount; guarded by mu
	starting bool             // a mount is being made; guarded by mu
	child    bool             // the parent handles SIGINT of a terminal; guarded by mu
	tidy     func()           // runs before the end of the process; nil: nothing to do; guarded by mu
}

type interrupterKey struct{}

// lastNotices is the limit of an interrupter. Standard error may be a pipe that is full.
const lastNotices = time.Second

// WithSignals returns a context that the first SIGINT or SIGTERM cancels with an Interruption. The
// second one ends the process: WithSignals passes each hung path to notice, and the status to
// exit. stop releases the context.
func WithSignals(parent context.Context, notice func(text string), exit func(status int)) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	it := &interrupter{cancel: cancel, notice: notice, exit: exit, limit: lastNotices}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		for s := range signals {
			it.interrupt(s.(syscall.Signal))
		}
	}()
	return context.WithValue(ctx, interrupterKey{}, it), func() {
		signal.Stop(signals)
		close(signals)
		cancel(nil)
	}
}

// interrupterOf returns the interrupter of a context, or a new one without signals.
func interrupterOf(ctx context.Context) *interrupter {
	if it, ok := ctx.Value(interrupterKey{}).(*interrupter); ok {
		return it
	}
	return &interrupter{cancel: func(error) {}, notice: func(string) {}, exit: func(int) {}, limit: lastNotices}
}

// interrupt handles one signal.
func (it *interrupter) interrupt(s syscall.Signal) {
	it.mu.Lock()
	canceled, mount, starting, tidy := it.canceled, it.mount, it.starting, it.tidy
	ignored := mount != nil || it.child && s == syscall.SIGINT
	it.canceled = canceled || !ignored
	it.mu.Unlock()
	switch {
	case mount != nil:
		select {
		case mount <- s:
		default: // it has signals enough
		}
	case ignored:
	case !canceled:
		it.cancel(Interruption{s})
		if starting {
			go it.endHung(s)
		}
	default:
		it.end(Interruption{s}.Status(), tidy)
	}
}

// hungGrace is the time for the orderly end of an interrupted start.
const hungGrace = 500 * time.Millisecond

// BoundStart makes the first signal end the process of ctx, whose signals WithSignals handles, also
// while a system call waits in the kernel. Such a call may wait for an automounter, which may wait
// for a silent server. It is in force until the mount is ready.
func BoundStart(ctx context.Context) {
	it := interrupterOf(ctx)
	it.mu.Lock()
	defer it.mu.Unlock()
	it.starting = true
}

// endHung ends the process while one of its threads, or a child, waits for a file system. It
// returns when the start has ended.
func (it *interrupter) endHung(s syscall.Signal) {
	for {
		time.Sleep(hungGrace)
		it.mu.Lock()
		starting, tidy := it.starting, it.tidy
		it.mu.Unlock()
		if !starting {
			return
		}
		if len(hungPaths()) > 0 {
			it.end(Interruption{s}.Status(), tidy)
			return
		}
	}
}

// leaveKeyboard makes a background process ignore SIGINT before the mount is ready. A terminal sends
// it to the whole process group, and the parent sends SIGTERM.
func (it *interrupter) leaveKeyboard() {
	it.mu.Lock()
	defer it.mu.Unlock()
	it.child = true
}

// passTo passes the signals to a mount that is ready. No other channel of the mount may receive
// them: a copy that arrives after release counts as a second signal.
func (it *interrupter) passTo(mount chan<- os.Signal) {
	it.mu.Lock()
	defer it.mu.Unlock()
	it.mount, it.starting, it.tidy = mount, false, nil
}

// release reverses passTo: the next signal ends the process.
func (it *interrupter) release() {
	it.mu.Lock()
	defer it.mu.Unlock()
	it.mount, it.canceled, it.child = nil, true, false
}

// onExit sets the function that runs before a signal ends the process. It must not wait for a
// file system.
func (it *interrupter) onExit(tidy func()) {
	it.mu.Lock()
	defer it.mu.Unlock()
	it.tidy = tidy
}

// end ends the process. It first reports the paths that do not answer: until they do, the
// kernel may not end the process.
func (it *interrupter) end(status int, tidy func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, path := range hungPaths() {
			it.notice(path + ": the file system does not answer; the kernel may keep this process until it does")
		}
		if tidy != nil {
			tidy()
		}
	}()
	select {
	case <-done:
	case <-time.After(it.limit):
	}
	it.exit(status)
}
