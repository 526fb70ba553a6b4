package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	iofs "io/fs"
	"net/http"
	"net/url"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
)

// A ReadToken gives access to the CAS server of a repository.
type ReadToken struct {
	URL      string        // of the server
	Value    string        // secret
	Lifetime time.Duration // from receipt; 0: unknown
}

// maxToken bounds the answer with a token.
const maxToken = 1 << 20

// ReadToken returns a new token for the files in Xet. The error is origin.ErrNotFound if the Hub no
// longer has the repository. If it no longer has the branch, the token is that of the last resolved commit.
func (r *Repo) ReadToken(ctx context.Context) (ReadToken, error) {
	b, header, err := r.getToken(ctx, r.address.Revision)
	if commit := r.commit.Load(); commit != nil && errors.Is(err, ErrRevisionNotFound) {
		b, header, err = r.getToken(ctx, *commit)
	}
	switch {
	case errors.Is(err, iofs.ErrNotExist): // the files exist in the listing
		return ReadToken{}, fmt.Errorf("%w: %v", origin.ErrNotFound, err) //nolint:errorlint // see above
	case err != nil:
		return ReadToken{}, err
	}
	var answer struct {
		AccessToken string
		Expires     int64 `json:"exp"` // Unix seconds
		CASURL      string
	}
	if err := json.Unmarshal(b, &answer); err != nil {
		return ReadToken{}, notJSON("the token", nil)
	}
	if err := r.checkCAS(answer.CASURL); err != nil {
		return ReadToken{}, err
	}
	life := lifetime(answer.Expires, header)
	if life <= 0 && answer.Expires != 0 {
		return ReadToken{}, fmt.Errorf("%w: the token of the Hub for its Xet server has already expired", origin.ErrUnavailable)
	}
	return ReadToken{answer.CASURL, answer.AccessToken, life}, nil
}

// getToken returns the answer with a token for a revision.
func (r *Repo) getToken(ctx context.Context, revision string) ([]byte, http.Header, error) {
	a := r.current()
	path := a.repo().API() + "/xet-read-token"
	if a.Type != Bucket {
		path += "/" + url.PathEscape(revision)
	}
	return r.get(ctx, r.request("token for Xet", path), maxToken)
}

// checkCAS refuses the address of a CAS server without encryption, unless the Hub has none either.
// The Hub may name any server.
func (r *Repo) checkCAS(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || r.endpoint.Scheme != "http") {
		return fmt.Errorf("%w: the Hub names no valid address of its Xet server", origin.ErrUnavailable)
	}
	if host := u.Host; r.casHost.Swap(&host) == nil {
		r.log.Info("the Hub has named its Xet server", "event", "cas_host", "host", host)
	}
	return nil
}

// lifetime returns the time until the end of a token by the server's clock. The local clock may be
// wrong. It is negative for an expired token, and 0 for one without a known end.
func lifetime(exp int64, header http.Header) time.Duration {
	if exp == 0 {
		return 0
	}
	now, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return time.Unix(exp, 0).Sub(now)
}
