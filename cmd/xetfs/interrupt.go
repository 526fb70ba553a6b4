package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
)

// An interrupted is the cause of a context that a signal ended.
type interrupted struct{ signal syscall.Signal }

// Error implements error.
func (i interrupted) Error() string { return "interrupted by " + i.signal.String() }

// status is the exit status of a process that a signal ended: 130 or 143.
func (i interrupted) status() int { return 128 + int(i.signal) }

// An interrupter ends a context with the first SIGINT or SIGTERM, and the process with the
// second one. The second step is necessary because a system call on a hung file system ignores
// the context.
type interrupter struct {
	cancel context.CancelCauseFunc
	stderr io.Writer

	mu    sync.Mutex
	asked bool   // the next signal ends the process; guarded by mu
	held  bool   // a mount handles its signals; guarded by mu
	tidy  func() // runs before the end of the process; nil: nothing to do; guarded by mu
}

type interrupterKey struct{}

// withSignals returns a context that ends with the first signal. stop releases it.
func withSignals(parent context.Context, stderr io.Writer) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	it := &interrupter{cancel: cancel, stderr: stderr}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		for s := range signals {
			it.Interrupt(s.(syscall.Signal))
		}
	}()
	return context.WithValue(ctx, interrupterKey{}, it), func() {
		signal.Stop(signals)
		cancel(nil)
	}
}

// interrupterOf returns the interrupter of a context, or a new one without signals.
func interrupterOf(ctx context.Context) *interrupter {
	if it, ok := ctx.Value(interrupterKey{}).(*interrupter); ok {
		return it
	}
	return &interrupter{cancel: func(error) {}, stderr: io.Discard}
}

// Interrupt handles one signal.
func (it *interrupter) Interrupt(s syscall.Signal) {
	it.mu.Lock()
	asked, held, tidy := it.asked, it.held, it.tidy
	it.asked = asked || !held
	it.mu.Unlock()
	switch {
	case held:
	case !asked:
		it.cancel(interrupted{s})
	default:
		it.Exit(interrupted{s}.status(), tidy)
	}
}

// Hold leaves the signals to a mount that is ready.
func (it *interrupter) Hold() {
	it.mu.Lock()
	defer it.mu.Unlock()
	it.held, it.tidy = true, nil
}

// Release ends hold: the next signal ends the process.
func (it *interrupter) Release() {
	it.mu.Lock()
	defer it.mu.Unlock()
	it.held, it.asked = false, true
}

// OnExit sets what runs before a signal ends the process. It must not wait for a file system.
func (it *interrupter) OnExit(tidy func()) {
	it.mu.Lock()
	defer it.mu.Unlock()
	it.tidy = tidy
}

// Exit ends the process. It first names the paths that do not answer: until they do, the
// kernel may keep the process.
func (it *interrupter) Exit(status int, tidy func()) {
	said := make(chan struct{})
	go func() { // standard error may be a pipe that is full
		defer close(said)
		for _, path := range hungPaths() {
			fmt.Fprintln(it.stderr, ui.NoticeLine("xetfs", path+": the file system does not answer; the kernel may keep this process until it does"))
		}
		if tidy != nil {
			tidy()
		}
	}()
	select {
	case <-said:
	case <-time.After(time.Second):
	}
	os.Exit(status)
}
