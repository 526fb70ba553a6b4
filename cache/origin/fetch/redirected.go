package fetch

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"sync/atomic"
)

// A Redirected holds the address on another server to which the requests for one object were
// redirected. Later requests skip the first server. When the other server refuses one, the address
// is dropped. The zero value has no address. It is safe for concurrent use.
type Redirected struct{ to atomic.Pointer[destination] }

// ErrExpired is the error of a request that the server of a Redirected refuses. The next one is sent to
// the first server again.
var ErrExpired = errors.New("the address has expired")

// A destination is the end of redirects.
type destination struct {
	url     string // may contain a signature
	checked bool   // connections must not reach a private address
}

// Known reports whether the next request skips the first server.
func (r *Redirected) Known() bool { return r.to.Load() != nil }

// load returns the address; nil: none. r may be nil.
func (r *Redirected) load() *destination {
	if r == nil {
		return nil
	}
	return r.to.Load()
}

// note stores the last address of a request that was first sent to address. r may be nil.
func (r *Redirected) note(address string, resp *http.Response) {
	if r == nil || resp.StatusCode != http.StatusPartialContent {
		return
	}
	if u, err := url.Parse(address); err != nil || u.Host == resp.Request.URL.Host {
		return // the first server wants its headers again
	}
	inspect, _ := resp.Request.Context().Value(checked{}).(bool)
	r.to.Store(&destination{resp.Request.URL.String(), inspect})
}

// request returns a request to the address, without the secrets of the first server.
func (d *destination) request(ctx context.Context, method string) (*http.Request, error) {
	if d.checked {
		ctx = context.WithValue(ctx, checked{}, true)
	}
	return http.NewRequestWithContext(ctx, method, d.url, nil)
}

// isExpired reports whether a status may be that of an address that was valid before.
func isExpired(code int) bool {
	return code >= 400 && code < 500 && !isBusy(code) && !isTemporary(code) && code != http.StatusRequestedRangeNotSatisfiable
}
