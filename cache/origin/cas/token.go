package cas

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/xetfs/xetfs/cache/flight"
	"github.com/xetfs/xetfs/cache/lru"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/fetch"
)

// A Token gives access to a CAS server.
type Token struct {
	URL      string        // of the server, without a path of the API
	Value    string        // secret; "": requests have no token
	Lifetime time.Duration // from receipt; 0: unknown
}

// A TokenSource returns a new token with each call. Its errors contain no secrets. The Client
// calls it once for all waiting requests, and in the background from 30 s before the end of a token on.
// It remembers io/fs.ErrPermission and origin.ErrNotFound for 10 s, see also Client.RetryToken.
type TokenSource interface {
	Token(ctx context.Context) (Token, error)
}

// A TokenFunc is a function that is a TokenSource, for example one that reads a file anew.
type TokenFunc func(ctx context.Context) (Token, error)

// Token implements TokenSource.
func (f TokenFunc) Token(ctx context.Context) (Token, error) { return f(ctx) }

// StaticToken returns a TokenSource for a server with a fixed token; "": none.
func StaticToken(address, value string) TokenSource {
	return TokenFunc(func(context.Context) (Token, error) { return Token{URL: address, Value: value}, nil })
}

// rememberRefusal is how long a refusal of the TokenSource is returned without another call, and the
// least time between renewals that did not help.
const rememberRefusal = 10 * time.Second

// renewAhead is the remaining lifetime at which a token or an address is renewed, but at most a
// tenth of its lifetime.
const renewAhead = 30 * time.Second

// usable returns the part of a lifetime in which a token or an address is used.
func usable(lifetime time.Duration) time.Duration {
	return lifetime - min(renewAhead, lifetime/10)
}

// tokens has the current token. Times are measured with the local clock since receipt only, so a
// wrong clock has no effect.
type tokens struct {
	source     TokenSource
	now        func() time.Time
	group      flight.Group[struct{}, *activeToken]
	background sync.WaitGroup  // renewals without a caller
	closing    context.Context // of these

	mu      sync.Mutex
	current *activeToken  // nil: none; guarded by mu
	pause   time.Duration // 0: the last token was not refused; guarded by mu
	next    time.Time     // of the next token after a refusal; guarded by mu
	refusal error         // until then; guarded by mu

	useless   time.Time                     // end of the time in which a new token will not read more files; guarded by mu
	forbidden error                         // of files that the current one may not read, until then; guarded by mu
	refused   *lru.Cache[string, time.Time] // by path: the end of that time for one file; guarded by mu
}

// An activeToken is a Token in use.
type activeToken struct {
	Token
	base   *url.URL
	begin  time.Time
	expiry time.Time // zero: unknown
	renew  time.Time // time of the next renewal, if expiry is known; guarded by tokens.mu
}

// get returns the current token, or a new one. Shortly before the end of a token it starts a renewal
// and does not wait for it: the source of tokens may be down.
func (ts *tokens) get(ctx context.Context) (*activeToken, error) {
	t, err := ts.replace(ctx, nil)
	if err == nil && ts.isEnding(t) {
		ts.background.Go(func() { _, _ = ts.replace(ts.closing, t) })
	}
	return t, err
}

// isEnding reports whether to renew a token now. The next time is after a pause.
func (ts *tokens) isEnding(t *activeToken) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	now := ts.now()
	if t.expiry.IsZero() || now.Before(t.renew) {
		return false
	}
	t.renew = now.Add(rememberRefusal)
	return true
}

// replace returns the current token if it is not old, or a new one. The current one stays in use until
// then.
func (ts *tokens) replace(ctx context.Context, old *activeToken) (*activeToken, error) {
	if t, ok, err := ts.known(old); ok {
		return t, err
	}
	return ts.group.Do(ctx, struct{}{}, func(ctx context.Context) (*activeToken, error) {
		if t, ok, err := ts.known(old); ok {
			return t, err // a call that has ended since has renewed it
		}
		return ts.request(ctx)
	})
}

// wait returns when no call runs.
func (ts *tokens) wait() {
	ts.background.Wait()
	ts.group.Wait()
}

// known returns the current token if it is not old, or an error during the pause after a refusal. If ok
// is false, a new token is needed.
func (ts *tokens) known(old *activeToken) (t *activeToken, ok bool, err error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t, now := ts.current, ts.now()
	switch {
	case t != nil && t != old && (t.expiry.IsZero() || now.Before(t.expiry)):
		return t, true, nil
	case ts.next.After(now):
		return nil, true, ts.refusal
	}
	return nil, false, nil
}

// request requests a token.
func (ts *tokens) request(ctx context.Context) (*activeToken, error) {
	begin := ts.now()
	t, err := ts.source.Token(ctx)
	if errors.Is(err, iofs.ErrPermission) || errors.Is(err, origin.ErrNotFound) {
		ts.mu.Lock()
		ts.next, ts.refusal = ts.now().Add(rememberRefusal), err
		ts.mu.Unlock()
	}
	if err != nil {
		return nil, err
	}
	base, err := parseServer(t.URL)
	if err != nil {
		return nil, fmt.Errorf("%w: the address of the CAS server: %w", origin.ErrUnavailable, err)
	}
	if t.Value != "" && !fetch.IsConfidential(base) {
		return nil, errPlain
	}
	a := &activeToken{Token: t, base: base, begin: begin}
	if t.Lifetime > 0 {
		a.expiry, a.renew = begin.Add(t.Lifetime), begin.Add(usable(t.Lifetime))
	}
	ts.mu.Lock()
	ts.current, ts.useless, ts.forbidden = a, begin.Add(minAge), errForbidden
	ts.mu.Unlock()
	return a, nil
}

// refuse reports a 401 to a request with token t. The next call of get requests a new token. If
// the new one is refused, too, no request follows until the pause has ended.
func (ts *tokens) refuse(t *activeToken) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.current != t {
		return
	}
	ts.current = nil
	if ts.pause > 0 {
		ts.next, ts.refusal = ts.now().Add(ts.pause), errToken
	}
	ts.pause = origin.RefusalPause(ts.pause)
}

// maxRefused bounds the paths of refused files, in bytes.
const maxRefused = 1 << 20

// minAge is the age from which a token that may not read a file is replaced. A token may be limited
// to the files of the commit that a branch had when the token was issued.
const minAge = 2 * time.Second

// renewForbidden replaces token t, which may be too old for a file that it may not read. It returns the error
// for that file if t is new, has replaced another one for it, or cannot be replaced. For some time, no token is
// then replaced for the file, or for any file.
func (ts *tokens) renewForbidden(ctx context.Context, t *activeToken, path string, hasReplaced bool) error {
	ts.mu.Lock()
	reason := ts.forbiddenLocked(t, path, hasReplaced)
	ts.mu.Unlock()
	if reason != nil {
		return reason
	}
	_, err := ts.replace(ctx, t)
	if err == nil || ctx.Err() != nil {
		return err
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.useless, ts.forbidden = ts.now().Add(rememberRefusal), fmt.Errorf("%w: %w", errForbidden, err)
	return ts.forbidden
}

// forbiddenLocked returns the error for a file if a new token will not read it, or nil.
func (ts *tokens) forbiddenLocked(t *activeToken, path string, hasReplaced bool) error {
	now := ts.now()
	if hasReplaced {
		ts.refused.Remove(path)
		ts.refused.Add(path, now.Add(rememberRefusal), int64(len(path)))
	}
	switch until, _ := ts.refused.Get(path); {
	case now.Before(until):
		return errForbidden
	case ts.current == t && now.Before(ts.useless):
		return ts.forbidden
	}
	return nil
}

// retryAbsent ends the memory of a repository that the TokenSource has not found.
func (ts *tokens) retryAbsent() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if errors.Is(ts.refusal, origin.ErrNotFound) {
		ts.next, ts.refusal = time.Time{}, nil
	}
	if errors.Is(ts.forbidden, origin.ErrNotFound) {
		ts.useless = time.Time{}
	}
}

// accept records that the server has accepted a token.
func (ts *tokens) accept() {
	ts.mu.Lock()
	ts.pause, ts.next = 0, time.Time{}
	ts.mu.Unlock()
}

// A refusal is the status of a refused request, and the next step. It is io/fs.ErrPermission.
type refusal string

func (e refusal) Error() string { return string(e) }

// Unwrap returns the kind.
func (refusal) Unwrap() error { return iofs.ErrPermission }

const (
	errToken        = refusal("permission denied: the server says 401 Unauthorized; check the token, and that it may read the repository")
	errPlain        = refusal("permission denied: a token is only sent over https; the address of the server must begin with https://")
	errForbidden    = refusal("permission denied: the server says 403 Forbidden; the token may not read the repository")
	errRefusedAgain = refusal("permission denied: the transfer server says 401 or 403 to a new address")
)

// parseServer parses the address of a server.
func parseServer(address string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSuffix(address, "/"))
	switch {
	case err != nil:
		return nil, errors.New("it is no address")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("it has a query or a fragment")
	}
	return u, checkAddress(u)
}

// checkAddress returns an error unless an address is of an http server, and has no user name
// (S11). Errors contain no address.
func checkAddress(u *url.URL) error {
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("its scheme is %.20q, want https", u.Scheme)
	case u.Hostname() == "":
		return errors.New("it names no host")
	case u.User != nil:
		return errors.New("it has a user name")
	case u.Fragment != "":
		return errors.New("it has a fragment")
	}
	return nil
}

// authorize adds a token to a request for the server that it belongs to.
func (t *activeToken) authorize(r *http.Request) {
	if t.Value != "" && r.URL.Host == t.base.Host && r.URL.Scheme == t.base.Scheme {
		r.Header.Set("Authorization", "Bearer "+t.Value)
	}
}
