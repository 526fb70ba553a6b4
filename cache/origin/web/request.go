package web

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/names"
)

// An answer is one that has begun. It must be closed.
type answer struct {
	*http.Response
	s      *Store
	key    names.Key
	parent context.Context // of the caller
	watch  *watch
	leave  func() // gives the turn back
}

// ask sends one request for an object. It returns the answer only with status 200, 206, 304 or
// 416. A shard or xorb that is not found is looked up in the listing once.
func (s *Store) ask(ctx context.Context, method string, k names.Key, header map[string]string) (*answer, error) {
	path, err := s.pathOf(k)
	if err != nil {
		return nil, err
	}
	a, err := s.askAt(ctx, method, k, path, header)
	if errors.Is(err, origin.ErrNotFound) && s.elsewhere(ctx, k, path) {
		if path, err = s.pathOf(k); err == nil {
			return s.askAt(ctx, method, k, path, header)
		}
	}
	return a, err
}

func (s *Store) askAt(ctx context.Context, method string, k names.Key, path string, header map[string]string) (*answer, error) {
	conns := s.conns(k)
	leave, err := conns.turn(ctx)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", k, err)
	}
	w := newWatch(ctx, s.stall)
	r, err := http.NewRequestWithContext(new(hop).trace(w.ctx), method, s.base+path, nil)
	if err != nil {
		w.stop()
		leave()
		return nil, fmt.Errorf("%q: %w: %v", k, origin.ErrUnavailable, err) //nolint:errorlint // foreign
	}
	r.Header.Set("Accept-Encoding", "identity")
	r.Header.Set("User-Agent", "xetfs")
	for name, value := range header {
		r.Header.Set(name, value)
	}
	if origin.IsNoCache(ctx) {
		r.Header.Set("Cache-Control", "no-cache")
	}
	a := &answer{s: s, key: k, parent: ctx, watch: w, leave: leave}
	a.Response, err = conns.Do(r) //nolint:bodyclose // answer.close does
	if err != nil {
		err = a.broken(err)
		w.stop()
		leave()
		return nil, err
	}
	w.came(0)
	if !passes(a.StatusCode) {
		origin.Answered(ctx, a.bodySize())
	}
	if err := a.check(); err != nil {
		a.forget()
		return nil, err
	}
	return a, nil
}

// bodySize returns the length of the body, as the headers say; -1: unknown.
func (a *answer) bodySize() int64 {
	if a.Request.Method == http.MethodHead {
		return 0
	}
	return a.ContentLength
}

// conns returns the connections for an object.
func (s *Store) conns(k names.Key) conns {
	if strings.HasPrefix(string(k), names.XorbPrefix) || strings.HasPrefix(string(k), names.ShardPrefix) {
		return s.data
	}
	return s.names
}

// close ends an answer. One that was not read to its end costs the connection.
func (a *answer) close() {
	a.Body.Close()
	a.watch.stop()
	a.leave()
}

// finish is close for an answer that was read completely. It reads the end, so that the
// connection can be used again. Without a Content-Length the end may be late, so finish waits
// for it only a short time.
func (a *answer) finish() {
	if a.ContentLength < 0 {
		a.watch.hurry()
	}
	var one [1]byte
	if n, _ := a.Body.Read(one[:]); n > 0 {
		a.watch.stop() // the rest has an unknown length
	}
	a.close()
}

// smallBody is how much of an unwanted answer is read so that its connection can be used again.
// The body of an error fits.
const smallBody = 4 << 10

// forget is close for an unwanted answer. It does not read after a switch to another protocol,
// because those bytes are no body and may never arrive.
func (a *answer) forget() {
	if a.ContentLength <= smallBody && a.StatusCode != http.StatusSwitchingProtocols {
		a.watch.hurry()
		_, _ = io.CopyN(io.Discard, a.Body, smallBody)
	}
	a.close()
}

// read fills p and returns how much came. It returns an error unless all did.
func (a *answer) read(p []byte) (int, error) { return a.readTelling(p, func(int) {}) }

// readTelling is read, and calls came with the number of bytes so far after each read but the
// last.
func (a *answer) readTelling(p []byte, came func(n int)) (int, error) {
	for n := 0; ; {
		m, err := a.Body.Read(p[n:])
		n += m
		a.watch.came(m)
		switch {
		case n == len(p):
			return n, nil
		case err != nil && !errors.Is(err, io.EOF):
			return n, a.broken(err)
		case err != nil:
			return n, a.broken(errors.New("the answer ended early"))
		}
		came(n)
	}
}

// broken is the error of a request that got no whole answer.
func (a *answer) broken(err error) error {
	if ended := a.parent.Err(); ended != nil {
		return fmt.Errorf("%q: %w", a.key, ended)
	}
	if errors.Is(context.Cause(a.watch.ctx), errStalled) {
		err = fmt.Errorf("hardly anything came for %v", a.s.stall)
		a.s.conns(a.key).CloseIdleConnections() // what this one died of may have hit them, too
	}
	var address *url.Error
	if errors.As(err, &address) {
		err = address.Err // it names the address, which may be one that is only for us
	}
	var redirect errRedirect
	var certificate *tls.CertificateVerificationError
	var proxy proxyError
	switch {
	case errors.As(err, &certificate):
		return a.final("%s", certificateReason(certificate))
	case errors.Is(err, http.ErrSchemeMismatch):
		return a.final("the server speaks http, not https")
	case errors.As(err, &redirect):
		return a.final("%v", redirect)
	case errors.As(err, &proxy) && !passes(int(proxy)):
		return a.final("%v", proxy)
	case errors.Is(err, errProxy):
		return a.final("%w", errProxy)
	case strings.Contains(err.Error(), "Location"): // of net/http, with all of the address in it
		return a.final("a redirect leads nowhere")
	}
	return a.failed("%.300v", err) // it may quote what the server said instead of HTTP
}

// certificateReason says what is wrong with the certificate of a server, and what to do.
func certificateReason(err *tls.CertificateVerificationError) string {
	var unknown x509.UnknownAuthorityError
	if errors.As(err, &unknown) {
		return "its certificate is signed by an unknown authority; add it with SSL_CERT_FILE"
	}
	return "its certificate is not good: " + strings.TrimPrefix(err.Err.Error(), "x509: ")
}

// failed is an ErrUnavailable of the object.
func (a *answer) failed(format string, args ...any) error {
	return fmt.Errorf("%q: %w: %w", a.key, origin.ErrUnavailable, fmt.Errorf(format, args...))
}

// final is failed for what will not get better.
func (a *answer) final(format string, args ...any) error {
	return &origin.HintError{Err: a.failed(format, args...), Tries: 1}
}

// mismatch is the error of an answer that does not fit the request. A second attempt may reach
// a better server.
func (a *answer) mismatch(format string, args ...any) error {
	return &origin.HintError{Err: a.failed("the answer does not fit: "+format, args...), Tries: 2}
}

// check says what an answer without bytes means.
func (a *answer) check() error {
	switch code := a.StatusCode; {
	case code == http.StatusOK, code == http.StatusPartialContent:
		if coding := a.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
			return a.mismatch("it is encoded as %.40q", coding)
		}
		if code == http.StatusOK {
			return a.checkPage()
		}
		return nil
	case code == http.StatusNotModified, code == http.StatusRequestedRangeNotSatisfiable:
		return nil
	case code == http.StatusNotFound, code == http.StatusGone:
		return fmt.Errorf("%q: %w", a.key, origin.ErrNotFound)
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		return fmt.Errorf("%q: %w: the server says %s", a.key, iofs.ErrPermission, status(code))
	case code == http.StatusTooManyRequests, code == http.StatusServiceUnavailable:
		return &origin.HintError{Err: a.failed("the server says %s", status(code)), After: a.retryAfter()}
	case passes(code):
		return a.failed("the server says %s", status(code))
	case code == http.StatusMethodNotAllowed, code == http.StatusNotImplemented:
		return a.final("%w: the server says %s", errMethod, status(code))
	default:
		return a.final("the server says %s", status(code))
	}
}

// passes reports whether a status is temporary.
func passes(code int) bool {
	switch code {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return code >= 500 && code != http.StatusNotImplemented
}

// checkPage refuses a web page for people, which some servers send for absent or protected
// files. An object may have the Content-Type of a page, but no object begins with "<".
func (a *answer) checkPage() error {
	if !strings.HasPrefix(strings.ToLower(a.Header.Get("Content-Type")), "text/html") {
		return nil
	}
	begin := make([]byte, 64)
	n, _ := io.ReadFull(a.Body, begin) // an error comes again
	begin = begin[:n]
	a.Body = &rest{io.MultiReader(bytes.NewReader(begin), a.Body), a.Body}
	if text := bytes.TrimLeft(bytes.TrimPrefix(begin, []byte("\xef\xbb\xbf")), " \t\r\n"); bytes.HasPrefix(text, []byte("<")) {
		return a.mismatch("it is a web page; a browser shows whether the address is wrong, or a login is needed")
	}
	return nil
}

// A rest is a body of which the beginning was read.
type rest struct {
	io.Reader
	io.Closer
}

// errMethod says that a server does not know the method that it was asked with.
var errMethod = errors.New("not the way to ask")

// status is a code and what it means, in our words and not the server's.
func status(code int) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", code, http.StatusText(code)))
}

// retryAfter returns how long the server wants to be left alone; 0 if it does not say.
func (a *answer) retryAfter() time.Duration {
	text := a.Header.Get("Retry-After")
	if seconds, err := strconv.ParseInt(text, 10, 32); err == nil {
		return max(0, time.Duration(seconds)*time.Second)
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(a.Header.Get("Date")) // by its own clock
	if err != nil {
		now = time.Now()
	}
	return max(0, at.Sub(now))
}

// A watch ends a request of which too little comes.
type watch struct {
	ctx    context.Context // of the request
	cancel context.CancelCauseFunc
	each   time.Duration
	timer  *time.Timer
	bytes  atomic.Int64 // since the timer was set
}

// leastRate is how many bytes a second must come.
const leastRate = 1 << 10

var errStalled = errors.New("stalled")

func newWatch(ctx context.Context, each time.Duration) *watch {
	w := &watch{each: each}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	w.timer = time.AfterFunc(each, w.look)
	return w
}

func (w *watch) look() {
	if w.bytes.Swap(0) < int64(leastRate*w.each.Seconds()) {
		w.cancel(errStalled)
		return
	}
	w.timer.Reset(w.each)
}

// came notes that bytes have come; 0: the headers.
func (w *watch) came(n int) {
	if n == 0 {
		w.timer.Reset(w.each)
	}
	w.bytes.Add(int64(n))
}

// endLimit is how long the end of an answer is waited for of which all has come.
const endLimit = 50 * time.Millisecond

// hurry ends the request soon.
func (w *watch) hurry() {
	w.bytes.Store(0)
	w.timer.Reset(min(w.each, endLimit))
}

func (w *watch) stop() {
	w.timer.Stop()
	w.cancel(nil)
}
