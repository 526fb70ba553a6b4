package cas

import (
	"bytes"
	"errors"
	"fmt"
	iofs "io/fs"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xetfs/xetfs/cache/flight"
	"github.com/xetfs/xetfs/cache/lru"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/fetch"
)

// maxHosts bounds the servers of one Client. The one that was idle longest is closed for another one.
const maxHosts = 64

// rememberFor is how long a Client remembers that a server lacks an ability.
const rememberFor = 10 * time.Minute

// A host is a server of the API, or of transfers, with its connections.
type host struct {
	*fetch.Client
	now func() time.Time

	ranges   atomic.Int32 // support of parts of signed ranges: partsUnknown, partsTried, partsYes
	noParts  deadline
	asking   flight.Turn // of the request for a plan that may name another server
	verdict  atomic.Pointer[verdict]
	noV2     deadline
	noBatch  deadline
	yesV2    deadline    // version 2 has worked
	yesBatch atomic.Bool // a batch has worked
}

// Values of host.ranges.
const (
	partsUnknown = iota
	partsTried   // refused, but maybe for another reason
	partsYes
)

// A deadline is a time until which something is known; nil: it is unknown. A time.Time has the monotonic
// clock, so a wall clock that is set back does not move it.
type deadline struct{ at atomic.Pointer[time.Time] }

func (d *deadline) set(t time.Time) { d.at.Store(&t) }

func (d *deadline) isAfter(now time.Time) bool {
	at := d.at.Load()
	return at != nil && now.Before(*at)
}

// A verdict is what new plans name instead of an unavailable server, until a time.
type verdict struct {
	isOther bool // another server; false: the same one
	until   time.Time
}

// hasMoved reports whether new plans name another server.
func (h *host) hasMoved() bool {
	v := h.verdict.Load()
	return v.isOther && h.now().Before(v.until)
}

// stays returns how long new plans are believed to name this server, too; 0 or less: that is unknown.
func (h *host) stays() time.Duration {
	v := h.verdict.Load()
	if v.isOther {
		return 0
	}
	return v.until.Sub(h.now())
}

// hosts has all servers of a Client.
type hosts struct {
	o   fetch.Options
	now func() time.Time

	closing sync.WaitGroup // of replaced hosts

	mu  sync.Mutex
	all *lru.Cache[string, *host] // by role and address; nil: closed; guarded by mu
}

func (hs *hosts) init(o fetch.Options, now func() time.Time) {
	hs.o, hs.now = o, now
	hs.all = lru.New(maxHosts, func(_ string, h *host) { hs.closing.Go(h.Close) }) // its requests continue
}

// Roles of servers. Transfers have connections of their own, so that plans never wait for data.
const (
	roleAPI      = "api "
	roleTransfer = "transfer "
)

// get returns the host of an address.
func (hs *hosts) get(role string, u *url.URL) (*host, error) {
	base := &url.URL{Scheme: u.Scheme, Host: u.Host}
	key := role + base.String()
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if hs.all == nil {
		return nil, fmt.Errorf("%w: the client is closed", origin.ErrUnavailable)
	}
	if h, ok := hs.all.Get(key); ok {
		return h, nil
	}
	h := &host{Client: fetch.New(base, hs.o), now: hs.now}
	h.verdict.Store(new(verdict))
	return hs.all.Add(key, h, 1), nil
}

// close closes all hosts.
func (hs *hosts) close() {
	hs.mu.Lock()
	all := hs.all
	hs.all = nil
	hs.mu.Unlock()
	if all == nil {
		return
	}
	for _, h := range all.All() {
		h.Close()
	}
	hs.closing.Wait()
}

// A codeError is an answer with a status that the Client handles itself.
type codeError struct {
	code    int
	isRange bool // the server refuses the range, not the address
}

func (e codeError) Error() string {
	return fmt.Sprintf("the server says %d %s", e.code, http.StatusText(e.code))
}

// Unwrap returns the kind.
func (e codeError) Unwrap() error {
	if e.code == http.StatusUnauthorized || e.code == http.StatusForbidden {
		return iofs.ErrPermission
	}
	return &origin.HintError{Err: origin.ErrUnavailable, Tries: 1}
}

// classify is fetch.Options.Classify.
func classify(r *http.Response, body []byte) error {
	switch r.StatusCode {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return codeError{r.StatusCode, bytes.Contains(bytes.ToLower(body), []byte("invalid range"))}
	}
	return nil
}

// code returns the status of a codeError, or 0.
func code(err error) int {
	var e codeError
	_ = errors.As(err, &e)
	return e.code
}

// isInvalidRange reports whether a server refuses a range, not the address.
func isInvalidRange(err error) bool {
	var e codeError
	return errors.As(err, &e) && e.isRange
}
