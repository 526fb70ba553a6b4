package web

import (
	"fmt"
	iofs "io/fs"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/fetch"
)

// rereadEach is the time between two reads of the credentials during a pause.
const rereadEach = time.Second

// credentials are the header Authorization of the requests to one server. After a 401 or 403 they
// are read again, so that a token can be rotated. A server that answers 401 gets no further request
// during a pause, which ends early if they change.
type credentials struct {
	read func() (string, error)
	log  *slog.Logger

	mu     sync.Mutex
	known  bool          // value was read; guarded by mu
	value  string        // "": none; guarded by mu
	pause  time.Duration // 0: the last request was not refused; guarded by mu
	next   time.Time     // of the next request after a refusal; guarded by mu
	reread time.Time     // earliest time to read the credentials in a pause; guarded by mu
}

func newCredentials(o Options) *credentials {
	c := &credentials{read: o.Authorization, log: o.Logger}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	return c
}

// prepare adds the header to a request to the server of the store.
func (c *credentials) prepare(r *http.Request) error {
	if c.read == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known {
		if _, err := c.readLocked(); err != nil {
			return err
		}
	}
	if err := c.waitLocked(); err != nil {
		return err
	}
	if c.value != "" && fetch.IsConfidential(r.URL) {
		r.Header.Set("Authorization", c.value)
	}
	return nil
}

// readLocked reads the credentials and reports whether they have changed.
func (c *credentials) readLocked() (changed bool, err error) {
	value, err := c.read()
	if err != nil {
		return false, fmt.Errorf("%w: %w", iofs.ErrPermission, err)
	}
	changed = c.known && value != c.value
	c.known, c.value = true, value
	if changed {
		c.pause = 0
		c.log.Info("the credentials have changed", slog.String("event", "auth_refreshed"))
	}
	return changed, nil
}

// waitLocked returns an error during a pause. One request may then try whether it ends.
func (c *credentials) waitLocked() error {
	now := time.Now()
	switch {
	case c.pause == 0:
		return nil
	case !now.Before(c.next):
		c.next = now.Add(c.pause)
		return nil
	case now.Before(c.reread):
		return c.refusalLocked()
	}
	c.reread = now.Add(rereadEach)
	if changed, err := c.readLocked(); changed || err != nil {
		return err
	}
	return c.refusalLocked()
}

// A statusError is a 401 or 403, and the next step. It is io/fs.ErrPermission.
type statusError string

func (e statusError) Error() string { return string(e) }

// Unwrap returns the kind.
func (statusError) Unwrap() error { return iofs.ErrPermission }

const (
	errNoToken   = statusError("permission denied: the server says 401 Unauthorized; name a file with a token in XETFS_TOKEN_FILE, or add the host to ~/.netrc")
	errToken     = statusError("permission denied: the server says 401 Unauthorized to the token; check the file that XETFS_TOKEN_FILE names, or the netrc file")
	errPlain     = statusError("permission denied: the server says 401 Unauthorized, and a token is only sent over https; type the https:// address")
	errElsewhere = statusError("permission denied: a redirect leads to a server that says 401 Unauthorized, and tokens are only sent to the first server; type its address")
	errForbidden = statusError("permission denied: the server says 403 Forbidden; check its access rules, and the token")
)

// refusalLocked returns the error of a refused request.
func (c *credentials) refusalLocked() error {
	if c.value == "" {
		return errNoToken
	}
	return errToken
}

// errRotated is the error of a request with credentials that have changed meanwhile.
var errRotated = fmt.Errorf("%w: the credentials have changed", origin.ErrUnavailable)

// classify is fetch.Options.Classify.
func (c *credentials) classify(r *http.Response, _ []byte) error {
	switch r.StatusCode {
	case http.StatusForbidden:
		return c.forbid(r.Request)
	case http.StatusUnauthorized:
		return c.refuse(r.Request)
	}
	return nil
}

// refuse returns the error of a 401 to a request. It reads the credentials again, and starts a
// pause if they are the same.
func (c *credentials) refuse(r *http.Request) error {
	if c.read == nil {
		return errNoToken
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	sent := r.Header.Get("Authorization")
	changed, err := c.rereadLocked(sent)
	switch {
	case err != nil:
		return err
	case c.value != "" && !fetch.IsConfidential(r.URL):
		return errPlain
	case changed:
		return errRotated
	case c.value != "" && sent == "":
		return errElsewhere
	}
	now := time.Now()
	c.pause = origin.RefusalPause(c.pause)
	c.next, c.reread = now.Add(c.pause), now.Add(rereadEach)
	return c.refusalLocked()
}

// forbid returns the error of a 403 to a request. It reads the credentials again. A 403 starts no
// pause, because it may concern one object.
func (c *credentials) forbid(r *http.Request) error {
	if c.read == nil {
		return errForbidden
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	changed, err := c.rereadLocked(r.Header.Get("Authorization"))
	switch {
	case err != nil:
		return err
	case changed:
		return errRotated
	}
	return errForbidden
}

// rereadLocked reads the credentials after a request with the header sent was refused. It reports
// whether they have changed, also if another request noticed that.
func (c *credentials) rereadLocked(sent string) (changed bool, err error) {
	if sent != "" && sent != c.value {
		return true, nil
	}
	return c.readLocked()
}

// accept ends the pause after an answer other than a refusal.
func (c *credentials) accept() {
	c.mu.Lock()
	c.pause = 0
	c.mu.Unlock()
}
