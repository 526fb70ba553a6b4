package fs

import (
	"context"
	"sync"
	"time"
)

// A request is the context of one message of the kernel. It ends when the kernel takes
// the message back, because the process was interrupted or killed, and at a deadline.
//
// Most messages are answered without waiting for anything, so a timer and a goroutine
// are only started once somebody asks for Done.
type request struct {
	interrupted <-chan struct{} // closed by go-fuse
	deadline    time.Time

	mu    sync.Mutex
	ctx   context.Context    // guarded by mu; nil: nobody waits
	stop  context.CancelFunc // guarded by mu; of ctx
	ended bool               // guarded by mu
}

var _ context.Context = (*request)(nil)

func newRequest(interrupted <-chan struct{}, limit time.Duration) *request {
	return &request{interrupted: interrupted, deadline: time.Now().Add(limit)}
}

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
func (r *request) Done() <-chan struct{} { return r.waiting().Done() }

// Value implements context.Context. It is that of the context behind Done, by which
// package context knows that it can attach to it without another goroutine.
func (r *request) Value(key any) any { return r.waiting().Value(key) }

// Err implements context.Context.
func (r *request) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.ctx != nil:
		return r.ctx.Err()
	case r.ended || isClosed(r.interrupted):
		return context.Canceled
	case time.Now().After(r.deadline):
		return context.DeadlineExceeded
	}
	return nil
}

// waiting returns a context that really ends.
func (r *request) waiting() context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx != nil {
		return r.ctx
	}
	r.ctx, r.stop = context.WithDeadline(context.Background(), r.deadline)
	if r.ended || isClosed(r.interrupted) {
		r.stop()
		return r.ctx
	}
	go watch(r.interrupted, r.ctx.Done(), r.stop)
	return r.ctx
}

func watch(interrupted, done <-chan struct{}, stop func()) {
	select {
	case <-interrupted:
		stop()
	case <-done:
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
