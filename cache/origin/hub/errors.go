package hub

import (
	"cmp"
	"fmt"
	iofs "io/fs"
	"net/http"
	"strings"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/fetch"
)

// A StatusError is a refusal of the Hub, and the next step. It is io/fs.ErrNotExist or
// io/fs.ErrPermission. One about the repository or the revision is also ErrRepoNotFound, ErrRepoGated or
// ErrRevisionNotFound.
type StatusError struct {
	text string
	kind error
}

// Error implements error.
func (e *StatusError) Error() string { return e.text }

// Unwrap returns the kind.
func (e *StatusError) Unwrap() error { return e.kind }

// The kinds of refusals about a repository or a revision.
var (
	errNoRepo     = fmt.Errorf("%w: %w", ErrRepoNotFound, iofs.ErrNotExist)
	errNoRevision = fmt.Errorf("%w: %w", ErrRevisionNotFound, iofs.ErrNotExist)
	errGated      = fmt.Errorf("%w: %w", ErrRepoGated, iofs.ErrPermission)
)

// classify is fetch.Options.Classify: it returns the error of a refusal. The Hub reports the reason
// in a header.
func (r *Repo) classify(resp *http.Response, _ []byte) error {
	if resp.Request.URL.Host != r.endpoint.Host {
		return nil // of a content server, where a redirect leads
	}
	sent := resp.Request.Header.Get("Authorization") != ""
	if resp.StatusCode == http.StatusUnauthorized {
		r.auth.refused(resp.Request.Header.Get("Authorization"))
	}
	if resp.StatusCode == http.StatusTooManyRequests {
		return r.limited(resp, sent)
	}
	return r.refusal(resp.StatusCode, resp.Header.Get("X-Error-Code"), r.commitOf(resp.Request), sent)
}

// commitOf returns the commit in the path of a request; "": none. A file may have the name of one, so the first
// one counts.
func (r *Repo) commitOf(q *http.Request) string {
	id := r.current().repo()
	path := strings.TrimPrefix(q.URL.EscapedPath(), r.endpoint.EscapedPath())
	path = strings.TrimPrefix(strings.TrimPrefix(path, id.API()), id.Page())
	for segment := range strings.SplitSeq(path, "/") {
		if IsCommitID(segment) {
			return segment
		}
	}
	return ""
}

// refusal returns the error of a status and a code of the Hub; nil: another status. commit is that of the
// request, or "".
func (r *Repo) refusal(status int, code, commit string, sent bool) error {
	switch {
	case status != http.StatusUnauthorized && status != http.StatusForbidden && status != http.StatusNotFound:
		return nil
	case code == "GatedRepo":
		return refused(errGated, "it is gated: request access at %s%s, and %s", r.endpoint, r.address.repo().Page(), r.login(sent))
	case code == "RevisionNotFound" && commit != "" && commit != r.address.Revision:
		return refused(errNoRevision, "the Hub no longer has commit %s", commit)
	case code == "RevisionNotFound":
		return refused(errNoRevision, "no branch, tag or commit %s; check the part after @", r.address.Revision)
	case code == "EntryNotFound":
		return refused(iofs.ErrNotExist, "no such file or folder in the repository")
	case status == http.StatusUnauthorized && sent && code != "RepoNotFound":
		return refused(iofs.ErrPermission, "the Hub refuses the token (401); renew it with hf auth login, or correct HF_TOKEN")
	case status == http.StatusForbidden:
		return refused(iofs.ErrPermission, "the Hub says 403 Forbidden; check the permissions of the token at %s/settings/tokens", r.endpoint)
	case sent:
		return refused(errNoRepo, "no such repository, or a private one that the token may not read; check the name and the token")
	}
	return refused(errNoRepo, "no such repository, or a private one; check the name, and for a private one %s", r.login(sent))
}

// login returns the next step for access. sent means that the request had a token.
func (r *Repo) login(sent bool) string {
	if sent {
		return "use a token of that account"
	}
	if r.auth.token != nil && !fetch.IsConfidential(r.endpoint) {
		if token, err := r.auth.token(); err == nil && token != "" {
			return "use https in HF_ENDPOINT, because the token is not sent over http"
		}
	}
	return "set HF_TOKEN, or run hf auth login"
}

func refused(kind error, format string, args ...any) error {
	return &StatusError{fmt.Sprintf(format, args...), kind}
}

// limited returns the error of a 429. The next attempt is after the end of the window. If that is late, the
// call ends, and the pacer holds the next one.
func (r *Repo) limited(resp *http.Response, sent bool) error {
	after, tries, step := fetch.RetryAfter(resp.Header), 0, ""
	if l, ok := parseRateLimit(resp.Header); ok {
		after = cmp.Or(after, l.reset)
		if l.remaining == 0 && l.reset > fetch.MaxRetryAfter {
			tries = 1
		}
	}
	if !sent {
		step = "; a token (HF_TOKEN) raises the limit"
	}
	return noMore(after, tries, step)
}

// errNoMore is the kind of noMore.
var errNoMore = fmt.Errorf("%w: the Hub allows no more requests", origin.ErrUnavailable)

// noMore is the error of a request that the Hub does not allow for some time; 0: unknown. It ends with a next step,
// if there is one.
func noMore(after time.Duration, tries int, step string) error {
	if known := after.Round(time.Second); known > 0 {
		step = fmt.Sprintf(" for %v%s", known, step)
	}
	return &origin.HintError{Err: fmt.Errorf("%w%s", errNoMore, step), After: after, Tries: tries}
}
