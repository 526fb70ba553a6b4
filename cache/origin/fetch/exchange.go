package fetch

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/xetfs/xetfs/cache/flight"
)

// An attempt is one request on one connection.
type attempt struct {
	*http.Response // nil: none
	pool           *pool
	guard          *stallGuard
	received       int64 // bytes of the body
	sent           bool
	ended          bool
	err            error
}

// end closes the body and releases the connection, which is closed if the body was not read to its
// end. An attempt may end twice.
func (at *attempt) end() {
	if at.Response != nil {
		at.Body.Close()
	}
	at.guard.stop()
	if !at.ended {
		at.ended = true
		at.pool.release(at.received)
	}
}

// An exchange is one request and, if its headers are late, a second one: the rival. The first
// headers win, and the other attempt ends.
type exchange struct {
	c       *Client
	pool    *pool
	caller  context.Context
	request func(ctx context.Context) (*http.Request, error)

	mu     sync.Mutex
	over   bool          // no rival may begin or win; guarded by mu
	first  *attempt      // set before the rival can begin
	rival  *attempt      // guarded by mu; nil: none
	winner *attempt      // the rival with headers; guarded by mu
	ended  chan struct{} // closed when the rival has ended or won
}

// errHedged is the cause of an attempt whose rival had headers first.
var errHedged = errors.New("another connection was faster")

// newAttempt returns an attempt with an acquired connection.
func (x *exchange) newAttempt() *attempt {
	return &attempt{pool: x.pool, guard: newStallGuard(x.caller, x.c.o.Stall)}
}

// run returns the attempt with the first headers, or the error of the first attempt. The caller
// has acquired a connection.
func (x *exchange) run() *attempt {
	x.first = x.newAttempt()
	start := x.first.guard.start
	timer := x.schedule()
	x.send(x.first)
	if timer != nil {
		timer.Stop()
	}
	at := x.decide()
	if at.err == nil {
		x.c.health.heard()
		x.c.hedges.add(time.Since(start))
	}
	return at
}

// schedule starts the timer of the rival; nil: no rival.
func (x *exchange) schedule() *time.Timer {
	delay := x.c.hedges.delay()
	if delay == 0 {
		return nil
	}
	return time.AfterFunc(delay, x.hedge)
}

// send sends a request and waits for its headers. A panic is the error of the attempt: the rival
// runs in a goroutine of its own.
func (x *exchange) send(at *attempt) {
	defer flight.Guard(&at.err)
	r, err := x.request(at.guard.ctx)
	if err != nil {
		at.err = err
		return
	}
	x.c.health.begin(at.guard)
	defer x.c.health.end(at.guard)
	at.Response, at.err = x.pool.Do(r) //nolint:bodyclose // attempt.end does
	at.sent = true
}

// decide returns the winner after the first attempt. If the first one failed, the rival may
// still win.
func (x *exchange) decide() *attempt {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.rival != nil && x.first.err != nil {
		x.mu.Unlock()
		<-x.ended
		x.mu.Lock()
	}
	x.over = true
	switch {
	case x.winner != nil:
		x.first.end()
		return x.winner
	case x.rival != nil:
		x.rival.guard.cancel(errHedged)
	}
	return x.first
}

// hedge sends the rival, if a connection is free and the budget allows it.
func (x *exchange) hedge() {
	if x.c.health.silent.Load() {
		return
	}
	if !x.pool.tryAcquire() {
		return
	}
	rival := x.newAttempt()
	x.mu.Lock()
	if x.over || !x.c.hedges.take() {
		x.mu.Unlock()
		rival.end()
		return
	}
	x.rival, x.ended = rival, make(chan struct{})
	x.mu.Unlock()
	x.send(rival)
	x.mu.Lock()
	defer x.mu.Unlock()
	defer close(x.ended)
	if rival.err != nil || x.over {
		rival.end()
		return
	}
	x.winner, x.over = rival, true
	x.first.guard.cancel(errHedged)
}
