package fetch

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/names"
)

// unavailable is an ErrUnavailable of the object.
func (a *answer) unavailable(format string, args ...any) error {
	return fmt.Errorf("%q: %w: %w", a.r.Key, origin.ErrUnavailable, fmt.Errorf(format, args...))
}

// notSent is the error of a request that was not sent.
func notSent(k names.Key, err error) error {
	if errors.As(err, new(downError)) {
		return fmt.Errorf("%q: %w: %w", k, origin.ErrUnavailable, err)
	}
	return fmt.Errorf("%q: %w", k, err)
}

// permanent is unavailable for an error that a retry cannot solve.
func (a *answer) permanent(format string, args ...any) error {
	return &origin.HintError{Err: a.unavailable(format, args...), Tries: 1}
}

// ErrMismatch is the error of an answer that does not fit its request. It is an ErrUnavailable.
var ErrMismatch = fmt.Errorf("%w: the answer does not fit", origin.ErrUnavailable)

// mismatch is an ErrMismatch of the object. A second attempt may reach a better server.
func (a *answer) mismatch(format string, args ...any) error {
	return mismatch(a.r.Key, format, args...)
}

func mismatch(k names.Key, format string, args ...any) error {
	return &origin.HintError{Err: fmt.Errorf("%q: %w: %w", k, ErrMismatch, fmt.Errorf(format, args...)), Tries: 2}
}

// lost translates the error of a request without a complete answer. Errors of net/http contain
// the address, which may be secret.
func (a *answer) lost(err error) error {
	if ended := a.caller.Err(); ended != nil {
		return fmt.Errorf("%q: %w", a.r.Key, ended)
	}
	cause := context.Cause(a.guard.ctx)
	switch {
	case errors.Is(cause, errStalled):
		err = fmt.Errorf("hardly any bytes arrived within %v", a.c.o.Stall)
		a.pool.CloseIdleConnections() // the same cause may have hit them, too
		a.pool.congested(a.guard.start)
	case errors.Is(cause, errHealed):
		return lostError{error: a.unavailable("%w", errHealed)}
	}
	var address *url.Error
	if errors.As(err, &address) {
		err = address.Err
	}
	var redirect redirectError
	var certificate *tls.CertificateVerificationError
	var status proxyError
	var refused *origin.HintError // of Options.Transport
	switch {
	case errors.As(err, &refused):
		return &origin.HintError{Err: a.unavailable("%w", refused.Err), After: refused.After, Tries: refused.Tries}
	case errors.As(err, &certificate):
		return a.permanent("%s", certificateReason(certificate))
	case strings.Contains(err.Error(), "protocol version"): // of crypto/tls, in two spellings
		return a.permanent("the server does not speak TLS 1.2 or later; it needs an update")
	case errors.Is(err, http.ErrSchemeMismatch):
		return a.permanent("the server speaks http, not https")
	case errors.As(err, &redirect):
		return a.permanent("%v", redirect)
	case errors.As(err, &status) && !isTemporary(int(status)):
		return a.permanent("%v", status)
	case errors.Is(err, errProxy):
		return a.permanent("%w", errProxy)
	case strings.Contains(err.Error(), "Location"): // of net/http, with the whole address
		return a.permanent("a redirect leads nowhere")
	}
	err, isAnswer := a.unavailable("%.300v", err), isAnswer(err) // it may quote a server that does not speak HTTP
	if isAnswer {
		return err
	}
	a.c.health.lost(a.guard.start)
	return lostError{err, a.Response != nil && cause == nil}
}

// isAnswer reports whether an error is an answer of a proxy or a name server.
func isAnswer(err error) bool {
	var name *net.DNSError
	return errors.As(err, new(proxyError)) || errors.As(err, &name) && name.IsNotFound
}

// certificateReason returns the problem of a server's certificate, and the next step.
func certificateReason(err *tls.CertificateVerificationError) string {
	var unknown x509.UnknownAuthorityError
	if errors.As(err, &unknown) {
		return "its certificate is signed by an unknown authority; add it with SSL_CERT_FILE"
	}
	return "its certificate is not good: " + strings.TrimPrefix(err.Err.Error(), "x509: ")
}

// errMethod is the error of a server that does not support the method of a request.
var errMethod = errors.New("the method is not supported")

// check returns the error of an answer by its status, and nil for 200, 206, 304 and 416.
func (a *answer) check() error {
	switch code := a.StatusCode; code {
	case http.StatusOK, http.StatusPartialContent:
		if coding := a.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
			return a.mismatch("it is encoded as %.40q", coding)
		}
		if code == http.StatusOK {
			return a.checkPage()
		}
		return nil
	case http.StatusNotModified, http.StatusRequestedRangeNotSatisfiable:
		return nil
	}
	if err := a.classify(); err != nil {
		return fmt.Errorf("%q: %w", a.r.Key, err)
	}
	return a.statusError()
}

// classify returns the result of Options.Classify, or the error of a server that speaks https.
func (a *answer) classify() error {
	isBad := a.StatusCode == http.StatusBadRequest && a.Request.URL.Scheme == "http"
	if a.c.o.Classify == nil && !isBad || a.StatusCode == http.StatusSwitchingProtocols {
		return nil
	}
	body, _ := origin.ReadBounded(a, 0, smallBody) // without a complete one, status and headers decide
	switch {
	case isBad && tlsOnly.Match(body):
		return &origin.HintError{Err: fmt.Errorf("%w: the server speaks https, not http", origin.ErrUnavailable), Tries: 1}
	case a.c.o.Classify == nil:
		return nil
	}
	return a.c.o.Classify(a.Response, body)
}

// tlsOnly matches what Go, nginx and Apache answer to http on a port for https.
var tlsOnly = regexp.MustCompile("HTTP request to an HTTPS server|HTTP request was sent to HTTPS port|plain HTTP to an SSL-enabled server port")

// statusError returns the error of a status.
func (a *answer) statusError() error {
	switch code := a.StatusCode; {
	case code == http.StatusNotFound, code == http.StatusGone:
		return fmt.Errorf("%q: %w", a.r.Key, origin.ErrNotFound)
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		return fmt.Errorf("%q: %w: the server says %s", a.r.Key, iofs.ErrPermission, statusText(code))
	case isBusy(code):
		return &origin.HintError{Err: a.unavailable("the server says %s", statusText(code)), After: RetryAfter(a.Header)}
	case isTemporary(code):
		return a.unavailable("the server says %s", statusText(code))
	case code == http.StatusMethodNotAllowed, code == http.StatusNotImplemented:
		return a.permanent("%w: the server says %s", errMethod, statusText(code))
	default:
		return a.permanent("the server says %s", statusText(code))
	}
}

// isTemporary reports whether a status may be another one in the next attempt.
func isTemporary(code int) bool {
	switch code {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return code >= 500 && code != http.StatusNotImplemented
}

// isBusy reports whether a status means that the server has too many requests.
func isBusy(code int) bool {
	switch code {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// statusText is a code with its standard meaning. The text of the server is not repeated.
func statusText(code int) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", code, http.StatusText(code)))
}

// RetryAfter returns the pause that a server requests before the next attempt; 0: none.
func RetryAfter(h http.Header) time.Duration {
	text := h.Get("Retry-After")
	if seconds, err := strconv.ParseInt(text, 10, 32); err == nil {
		return max(0, time.Duration(seconds)*time.Second)
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(h.Get("Date")) // the server's own clock
	if err != nil {
		now = time.Now()
	}
	return max(0, at.Sub(now))
}

// checkPage refuses a web page for people, which some servers send for absent or protected
// files. An object may have the Content-Type of a page, but no object begins with "<".
func (a *answer) checkPage() error {
	if !strings.HasPrefix(strings.ToLower(a.Header.Get("Content-Type")), "text/html") {
		return nil
	}
	begin := make([]byte, 64)
	n, _ := io.ReadFull(a.Body, begin) // the next read returns an error again
	begin = begin[:n]
	a.Body = &prefixedBody{io.MultiReader(bytes.NewReader(begin), a.Body), a.Body}
	if text := bytes.TrimLeft(bytes.TrimPrefix(begin, []byte("\xef\xbb\xbf")), " \t\r\n"); bytes.HasPrefix(text, []byte("<")) {
		return a.mismatch("it is a web page; a browser shows whether the address is wrong, or a login is needed")
	}
	return nil
}

// A prefixedBody is a body whose beginning was read before.
type prefixedBody struct {
	io.Reader
	io.Closer
}
