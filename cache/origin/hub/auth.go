package hub

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"net/http"
	"sync"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/fetch"
)

// An authorizer adds the token to requests. The token is read for each request, so that it can be
// renewed. A refused one is not sent again during a pause.
type authorizer struct {
	token func() (string, error) // nil: none
	now   func() time.Time

	mu     sync.Mutex
	value  string        // the header of the last request with a token; guarded by mu
	pause  time.Duration // 0: value was not refused; guarded by mu
	resume time.Time     // end of the pause; guarded by mu
}

// authorize is fetch.Request.Prepare. It is called for requests to the Hub, not for redirects.
func (a *authorizer) authorize(r *http.Request) error {
	if a.token == nil || !fetch.IsConfidential(r.URL) {
		return nil
	}
	token, err := a.token()
	if errors.Is(err, origin.ErrUnavailable) {
		return err
	}
	if err != nil {
		return &StatusError{err.Error(), iofs.ErrPermission}
	}
	if token == "" {
		return nil
	}
	value := "Bearer " + token
	a.mu.Lock()
	defer a.mu.Unlock()
	if value != a.value {
		a.value, a.pause, a.resume = value, 0, time.Time{}
	} else if wait := a.resume.Sub(a.now()); wait > 0 {
		return &StatusError{fmt.Sprintf("the Hub has refused the token (401); renew it with hf auth login, or correct HF_TOKEN; next try in %v", wait.Round(time.Second)), iofs.ErrPermission}
	}
	r.Header.Set("Authorization", value)
	return nil
}

// refused starts a pause for the token of a request. It ignores a replaced token, and requests that were
// sent before the pause.
func (a *authorizer) refused(value string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := a.now(); value == a.value && !now.Before(a.resume) {
		a.pause = origin.RefusalPause(a.pause)
		a.resume = now.Add(a.pause)
	}
}

// accepted records that the Hub has accepted the token of a request.
func (a *authorizer) accepted(value string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if value == a.value {
		a.pause, a.resume = 0, time.Time{}
	}
}
