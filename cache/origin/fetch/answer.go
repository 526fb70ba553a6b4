package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"

	"github.com/xetfs/xetfs/cache/origin"
)

// An answer is a response whose headers have arrived. It must be ended.
type answer struct {
	*attempt
	c      *Client
	r      *Request
	caller context.Context
	direct *destination        // of the request; nil: the address of r
	moved  func(*http.Request) // is called with a redirect to another server; nil: no call
}

// A field is one header of a request.
type field struct{ name, value string }

// send sends a request. It returns only answers with status 200, 206, 304 or 416.
func (c *Client) send(ctx context.Context, method string, r *Request, fields ...field) (a *answer, err error) {
	to := r.Redirected
	if to == nil {
		return c.sendTo(ctx, &answer{c: c, r: r, caller: ctx}, method, fields)
	}
	direct, end, err := to.ask(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { end(to.ended(ctx, direct, a, err)) }()
	next := &answer{c: c, r: r, caller: ctx, direct: direct}
	if direct == nil {
		next.moved = to.note
	}
	return c.sendTo(ctx, next, method, fields)
}

// sendTo sends the request of an answer, to a remembered address if that has one.
func (c *Client) sendTo(ctx context.Context, a *answer, method string, fields []field) (*answer, error) {
	if a.direct == nil && a.r.Wait != nil {
		if err := a.r.Wait(ctx); err != nil {
			return nil, &heldError{notSent(a.r.Key, err)}
		}
	}
	if err := c.health.wait(ctx, callStart(ctx)); err != nil {
		return nil, notSent(a.r.Key, err)
	}
	pool := c.pool(a.r)
	if err := pool.acquire(ctx); err != nil {
		return nil, notSent(a.r.Key, err)
	}
	x := &exchange{c: c, pool: pool, caller: ctx, request: func(ctx context.Context) (*http.Request, error) {
		return a.request(ctx, method, fields)
	}}
	if a.attempt = x.run(); a.err != nil {
		defer a.end()
		if a.sent {
			return nil, a.lost(a.err)
		}
		return nil, a.err
	}
	a.guard.restart()
	noteAnswer(ctx, a.Response)
	if isBusy(a.StatusCode) {
		pool.congested(a.guard.start)
	}
	if err := a.check(); err != nil {
		a.discard()
		if a.direct != nil && isExpired(a.StatusCode) {
			return nil, fmt.Errorf("%w: %w", ErrExpired, err)
		}
		return nil, err
	}
	return a, nil
}

// request returns the request with all headers, signed.
func (a *answer) request(ctx context.Context, method string, fields []field) (*http.Request, error) {
	hr, err := a.newRequest((&hop{moved: a.moved}).trace(ctx), method)
	if err != nil {
		return nil, a.permanent("the address is not valid")
	}
	maps.Copy(hr.Header, a.r.Header.Clone())
	hr.Header.Set("Accept-Encoding", "identity")
	hr.Header.Set("User-Agent", "xetfs")
	for _, f := range fields {
		hr.Header.Set(f.name, f.value)
	}
	if origin.IsNoCache(a.caller) {
		hr.Header.Set("Cache-Control", "no-cache")
	}
	if a.direct != nil {
		dropSecrets(hr.Header)
		return hr, nil
	}
	if a.r.Prepare != nil {
		if err := a.r.Prepare(hr); err != nil {
			return nil, fmt.Errorf("%q: %w", a.r.Key, err)
		}
	}
	return hr, nil
}

// newRequest returns the request without headers.
func (a *answer) newRequest(ctx context.Context, method string) (*http.Request, error) {
	address := a.r.URL
	if d := a.direct; d != nil {
		address = d.url
		if d.checked {
			ctx = context.WithValue(ctx, checked{}, true)
		}
	}
	return http.NewRequestWithContext(ctx, method, address, nil)
}

// noteAnswer reports the headers of an answer to the call of ctx.
func noteAnswer(ctx context.Context, resp *http.Response) {
	call, ok := ctx.Value(callKey{}).(*call)
	switch {
	case !ok || isTemporary(resp.StatusCode):
	case resp.Request.Method == http.MethodHead:
		call.extend(0)
	default:
		call.extend(resp.ContentLength)
	}
}

// finish ends an answer that was read completely. It reads the end, so that the connection
// can be used again. Without a Content-Length the end may be late, so finish waits for it only
// a short time.
func (a *answer) finish() {
	if a.ContentLength < 0 {
		a.guard.shorten()
	}
	var b [1]byte
	if n, _ := a.Body.Read(b[:]); n > 0 {
		a.guard.stop() // the rest has an unknown length
	}
	a.end()
}

// smallBody is the part of an unwanted answer that is read so that its connection can be used
// again. The body of an error fits.
const smallBody = 4 << 10

// discard ends an unwanted answer. It does not read after a switch to another protocol,
// because those bytes are no body and may never arrive.
func (a *answer) discard() {
	if a.ContentLength <= smallBody && a.StatusCode != http.StatusSwitchingProtocols {
		a.guard.shorten()
		_, _ = io.CopyN(io.Discard, a.Body, smallBody)
	}
	a.end()
}

// read fills p. It returns the number of bytes that arrived, and an error unless all did.
func (a *answer) read(p []byte) (int, error) { return a.readProgress(p, func(int) {}) }

// readProgress is read. It calls progress with the number of bytes so far after each read but
// the last.
func (a *answer) readProgress(p []byte, progress func(n int)) (int, error) {
	for n := 0; ; {
		m, err := a.Read(p[n:])
		n += m
		switch {
		case n == len(p):
			return n, nil
		case errors.Is(err, io.EOF):
			return n, a.lost(errEndedEarly)
		case err != nil:
			return n, a.lost(err)
		}
		progress(n)
	}
}

var errEndedEarly = errors.New("the answer ended early")

// Read implements io.Reader for the body.
func (a *answer) Read(p []byte) (int, error) {
	n, err := a.Body.Read(p)
	if n > 0 {
		a.received += int64(n)
		a.guard.received(n)
		a.c.health.heard()
	}
	return n, err
}
