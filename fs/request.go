package fs

import (
	"context"
	"sync"
	"time"
)

// patience is how long a request goes on after the kernel has taken it back, if nobody
// means to end the reader. The kernel says that a signal came, not which. Profilers and
// progress bars send signals all the time, to programs that expect EINTR from a file
// least of all, and a page fault would become SIGBUS.
const (
	cancelGrace = 500 * time.Millisecond
	signalPoll  = 20 * time.Millisecond // whether the reader was meanwhile asked to end
)

// idleSignalPoll is how often the same is looked at while nothing was taken back. What is read
// ahead into the kernel's pages never is: a program that handles SIGINT by itself, and waits
// for such a page, would be left waiting, and nobody told.
const idleSignalPoll = 80 * time.Millisecond

// A request is the context of one message of the kernel. It ends when the kernel has
// taken the message back because the reader is to end, and some time (patience) after it
// was taken back for another reason, and at a deadline.
//
// Most messages are answered without waiting for anything, so a timer and a goroutine
// are only started once somebody asks for Done.
type request struct {
	interrupted <-chan struct{} // closed by go-fuse
	thread      uint32          // that asked
	start       time.Time
	deadline    time.Time

	mu    sync.Mutex
	ctx   context.Context    // guarded by mu; nil: nobody waits
	stop  context.CancelFunc // guarded by mu; of ctx
	ended bool               // guarded by mu
}

var _ context.Context = (*request)(nil)

func newRequest(interrupted <-chan struct{}, thread uint32, limit time.Duration) *request {
	now := time.Now()
	return &request{interrupted: interrupted, thread: thread, start: now, deadline: now.Add(limit)}
}

// elapsed returns how long ago the message came.
func (r *request) elapsed() time.Duration { return time.Since(r.start) }

// end must be called when the message is answered: go-fuse uses its channel again.
func (r *request) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	if r.stop != nil {
		r.stop()
	}
}

// Deadline implements context.Context.
func (r *request) Deadline() (time.Time, bool) { return r.deadline, true }

// Done implements context.Context.
func (r *request) Done() <-chan struct{} { return r.context().Done() }

// Value implements context.Context. It is that of the context behind Done, by which
// package context knows that it can attach to it without another goroutine.
func (r *request) Value(key any) any { return r.context().Value(key) }

// Err implements context.Context.
func (r *request) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx == nil && !r.ended && isClosed(r.interrupted) {
		r.startLocked() // from now on patience runs
	}
	switch {
	case r.ctx != nil:
		return r.ctx.Err()
	case r.ended:
		return context.Canceled
	case time.Now().After(r.deadline):
		return context.DeadlineExceeded
	}
	return nil
}

// context returns a context that really ends.
func (r *request) context() context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.startLocked()
	return r.ctx
}

func (r *request) startLocked() {
	if r.ctx != nil {
		return
	}
	r.ctx, r.stop = context.WithDeadline(context.Background(), r.deadline)
	if r.ended {
		r.stop()
		return
	}
	go r.watch(r.ctx.Done(), r.stop)
}

func (r *request) watch(done <-chan struct{}, stop func()) {
	seldom := time.NewTicker(idleSignalPoll)
	defer seldom.Stop()
	for taken := false; !taken; {
		select {
		case <-r.interrupted:
			taken = true
		case <-seldom.C:
			if isEnding(r.thread) {
				stop()
				return
			}
		case <-done:
			return
		}
	}
	look := time.NewTicker(signalPoll)
	defer look.Stop()
	for waited := time.Duration(0); waited < cancelGrace && !isEnding(r.thread); waited += signalPoll {
		select {
		case <-look.C:
		case <-done:
			return
		}
	}
	stop()
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
