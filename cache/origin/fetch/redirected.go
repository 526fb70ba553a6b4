package fetch

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/xetfs/xetfs/cache/flight"
	"github.com/xetfs/xetfs/cache/origin"
)

// A Redirected holds the address on another server to which the requests for one object were
// redirected. Later requests skip the first server. While one request asks that for the address, others wait
// for its answer, and share its error. An error of Request.Wait is not shared with a later limit. The zero value
// has no address. It is safe for concurrent use.
type Redirected struct {
	turn flight.Turn // of the request for the address
	mu   sync.Mutex
	to   *destination // nil: unknown; guarded by mu
	next *destination // of the last redirect, until its server has answered; guarded by mu
	none bool         // the first server has answered without an address to remember; guarded by mu
}

// ErrExpired is the error of a request that the other server refuses. The next one goes to the first server.
var ErrExpired = errors.New("the address has expired")

// A destination is the end of redirects.
type destination struct {
	url     string // may contain a signature
	checked bool   // connections must not reach a private address
	since   time.Time
}

// leastUse is how long an address is used although its server is unavailable. It spares the first server.
const leastUse = 2 * time.Second

// known returns the address; nil: the first server. ok is false if the first server was not asked.
func (r *Redirected) known() (to *destination, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.to, r.to != nil || r.none
}

// ask returns the address; nil: the request goes to the first server. Other requests may wait until end
// is called.
func (r *Redirected) ask(ctx context.Context) (to *destination, end func(error), err error) {
	for end == nil {
		if to, ok := r.known(); ok {
			return to, func(error) {}, nil
		}
		if end, err = r.turn.Begin(ctx); err != nil && !mayWaitLonger(ctx, err) {
			return nil, nil, err
		}
	}
	to, _ = r.known() // since the turn of another request
	return to, end, nil
}

// A heldError is an error of Request.Wait. The request was not sent.
type heldError struct{ error }

// Unwrap returns the error of Request.Wait.
func (e *heldError) Unwrap() error { return e.error }

// mayWaitLonger reports whether a request that shares the error of Request.Wait of another one may be sent
// before the deadline of ctx.
func mayWaitLonger(ctx context.Context, err error) bool {
	var hint *origin.HintError
	if !errors.As(err, new(*heldError)) || !errors.As(err, &hint) || ctx.Err() != nil {
		return false
	}
	end, limited := ctx.Deadline()
	return !limited || hint.After < time.Until(end)
}

// note records a redirect to another server.
func (r *Redirected) note(redirect *http.Request) {
	inspect, _ := redirect.Context().Value(checked{}).(bool)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next = &destination{redirect.URL.String(), inspect, time.Now()}
}

// ended records the result of a request to the address, or to the first server if to is nil. It returns the
// error for the requests that wait; nil: they ask again.
func (r *Redirected) ended(ctx context.Context, to *destination, a *answer, err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	isDown := errors.Is(err, origin.ErrUnavailable) && !errors.Is(err, ErrExpired)
	switch hasLeft := errors.Is(context.Cause(ctx), context.Canceled); {
	case hasLeft: // the caller, which says nothing about the address
	case to != nil && to == r.to && err != nil && !(isDown && time.Since(to.since) < leastUse):
		r.to = nil
	case to == nil && r.next != nil && (isDown || a != nil && a.StatusCode == http.StatusPartialContent):
		r.to, r.next, r.none = r.next, nil, false
	case to == nil && a != nil:
		r.none = true
	}
	if ctx.Err() != nil { // also at the limit of the call
		return nil
	}
	return err
}

// isExpired reports whether a status may be that of an address that was valid before.
func isExpired(code int) bool {
	return code >= 400 && code < 500 && !isBusy(code) && !isTemporary(code) && code != http.StatusRequestedRangeNotSatisfiable
}
