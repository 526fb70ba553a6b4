package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/fetch"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
)

// DefaultEndpoint is the address of the Hub.
const DefaultEndpoint = "https://huggingface.co"

// Options tune Open. The zero value is right.
type Options struct {
	fetch.Options                        // Classify and Observe are set here
	Endpoint      string                 // "": DefaultEndpoint
	Token         func() (string, error) // is called for each request; "" or nil: no token
}

// A Repo is a repository of the Hub. It is safe for concurrent use.
type Repo struct {
	address  Address
	endpoint *url.URL
	client   *fetch.Client
	auth     authorizer
	pacer    *pacer
	log      *slog.Logger
	moved    atomic.Pointer[Address] // after a rename; nil: none
	commit   atomic.Pointer[string]  // of the last Resolve; nil: none
	casHost  atomic.Pointer[string]  // host of the last ReadToken; nil: none
}

// Open returns a repository. It sends no request.
func Open(a Address, o Options) (*Repo, error) {
	endpoint, err := parseEndpoint(o.Endpoint)
	if err != nil {
		return nil, err
	}
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	r := &Repo{address: a, endpoint: endpoint, auth: authorizer{token: o.Token, now: time.Now}, pacer: newPacer(log), log: log}
	o.Classify = r.classify
	o.Observe = r.observe
	r.client = fetch.New(endpoint, o.Options)
	return r, nil
}

// parseEndpoint parses HF_ENDPOINT.
func parseEndpoint(text string) (*url.URL, error) {
	if text == "" {
		text = DefaultEndpoint
	}
	u, err := url.Parse(strings.TrimRight(text, "/"))
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("the address of the Hub (HF_ENDPOINT) is not valid; its form is https://HOST")
	}
	return u, nil
}

// Close closes the idle connections. Requests under way continue.
func (r *Repo) Close() { r.client.Close() }

// Address returns the address that the repository was opened with.
func (r *Repo) Address() Address { return r.address }

// Endpoint returns the address of the Hub.
func (r *Repo) Endpoint() string { return r.endpoint.String() }

// observe records the rate limits in an answer of the Hub, and that it accepts the token.
func (r *Repo) observe(resp *http.Response) {
	if resp.Request.URL.Host != r.endpoint.Host {
		return
	}
	r.pacer.observe(strings.TrimPrefix(resp.Request.URL.Path, r.endpoint.Path), resp.Header)
	if c := resp.StatusCode; c < http.StatusMultipleChoices || c == http.StatusNotModified { // redirects check no token
		r.auth.accepted(resp.Request.Header.Get("Authorization"))
	}
}

// current returns the address after renames.
func (r *Repo) current() Address {
	if a := r.moved.Load(); a != nil {
		return *a
	}
	return r.address
}

// request returns a request for a path of the Hub. what names it in errors.
func (r *Repo) request(what, path string) fetch.Request {
	return fetch.Request{
		Key: names.Key(what), URL: r.endpoint.String() + path, Names: true, Prepare: r.auth.authorize,
		Wait: func(ctx context.Context) error { return r.pacer.wait(ctx, path) },
	}
}

// get returns an answer of at most limit bytes. An error of the Hub has no further text.
func (r *Repo) get(ctx context.Context, q fetch.Request, limit int64) ([]byte, http.Header, error) {
	value, header, err := r.client.Get(ctx, q, limit)
	return value, header, unwrapStatus(err)
}

// unwrapStatus returns the StatusError of an error without the texts around it, or the error.
func unwrapStatus(err error) error {
	var status *StatusError
	if errors.As(err, &status) {
		return status
	}
	return err
}

// A State is a commit of a repository.
type State struct {
	ID   string    // 40 hex digits; of a bucket, the time of the last change
	Time time.Time // of the commit; zero: unknown
	Tag  string    // for the next Resolve; "": none
}

// maxInfo bounds the description of a repository, which may list all its files.
const maxInfo = 16 << 20

// Resolve returns the commit of the revision. If it is that of an earlier call with this Tag,
// the error is origin.ErrUnchanged.
func (r *Repo) Resolve(ctx context.Context, tag string) (State, error) {
	a := r.current()
	path := a.repo().API()
	if a.Type != Bucket {
		path += "/revision/" + url.PathEscape(a.Revision) + "?expand=sha&expand=lastModified"
	}
	q := r.request("revision "+a.Revision, path)
	if tag != "" {
		q.Header = http.Header{"If-None-Match": {tag}}
	}
	b, header, err := r.get(ctx, q, maxInfo)
	if err != nil {
		return State{}, err
	}
	return r.readInfo(b, header)
}

// readInfo reads the description of a repository.
func (r *Repo) readInfo(b []byte, header http.Header) (State, error) {
	var info struct {
		ID           string
		SHA          string
		LastModified time.Time
		UpdatedAt    time.Time
	}
	if err := json.Unmarshal(b, &info); err != nil {
		return State{}, notJSON("the description of the repository", err)
	}
	st := State{ID: info.SHA, Time: info.LastModified, Tag: header.Get("ETag")}
	if r.address.Type == Bucket {
		st.ID, st.Time = info.UpdatedAt.UTC().Format(time.RFC3339Nano), info.UpdatedAt
		if info.UpdatedAt.IsZero() {
			return State{}, codec.Corrupt("description of the bucket", 0, "no time of the last change")
		}
	} else if !IsCommitID(st.ID) {
		return State{}, codec.Corrupt("description of the repository", 0, "its commit %.80q is not 40 hex digits", st.ID)
	}
	if r.address.IsCommit() && st.ID != r.address.Revision {
		return State{}, codec.Corrupt("description of the repository", 0, "commit %s instead of %s", st.ID, r.address.Revision)
	}
	r.rename(info.ID)
	r.commit.Store(&st.ID)
	return st, nil
}

// rename uses the name in an answer from now on. An invalid one is ignored.
func (r *Repo) rename(id string) {
	a := r.current()
	owner, name, ok := strings.Cut(id, "/")
	if !ok || id == a.ID() {
		return
	}
	a.Owner, a.Name = owner, name
	if a.checkName() == nil {
		r.moved.Store(&a)
	}
}

// notJSON is the error of an answer that is no JSON, for example a page of a login.
func notJSON(what string, err error) error {
	return fmt.Errorf("%w: %s is no JSON of the Hub (%.100v); check HF_ENDPOINT", origin.ErrUnavailable, what, err)
}
