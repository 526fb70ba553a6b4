package hubserve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	iofs "io/fs"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/xetfs/xetfs/cache/lru"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/hub"
)

// HandlerOptions are the data that a handler shows. Repos and Content are required.
type HandlerOptions struct {
	Repos   Repos
	Content Content
	Tokens  Tokens // nil: files have no Xet headers, and clients read all by resolve

	// User returns the client of a request for whoami; nil: no client has a name.
	User func(*http.Request) User

	Writes Writes // nil: requests that change repositories get 403

	Private bool // by the answer of a repository

	// Report is called with an error that ends an answer early, or is one of the server or its upstream.
	// It is also called with a LeftOutError, once for each commit. nil: no call.
	Report func(r *http.Request, err error)
}

// Writes answers requests that change repositories.
type Writes interface {
	// ServeWrite answers a request, or returns an error before the first byte.
	ServeWrite(w http.ResponseWriter, r *http.Request, t Target) error
}

// A User is the client of a request.
type User struct {
	Name     string // "": the request has no token
	MayWrite bool
}

// A handler serves the Hub API.
type handler struct {
	o HandlerOptions

	mu      sync.Mutex
	leftOut *lru.Cache[string, struct{}] // commits whose LeftOutError was reported; guarded by mu
}

// NewHandler returns a handler with the routes of the package comment. It checks no tokens: the
// Repos decide by the context what a request may read.
//
// A file is served directly, with ranges and an ETag, beside the headers of the Xet protocol. A
// redirect to the same host would lose these headers in huggingface_hub. A read error after the
// first byte aborts the connection.
func NewHandler(o HandlerOptions) http.Handler {
	return &handler{o: o, leftOut: lru.New[string, struct{}](maxLeftOut, nil)}
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	err := h.serve(w, r)
	if err == nil {
		return
	}
	if refusalOf(err).Status >= http.StatusInternalServerError || errors.Is(err, iofs.ErrPermission) || errors.Is(err, origin.ErrNotFound) {
		h.report(r, err)
	}
	serveError(w, r, err)
}

func (h *handler) report(r *http.Request, err error) {
	if h.o.Report != nil {
		h.o.Report(r, err)
	}
}

// serve answers a request, or returns an error before the first byte.
func (h *handler) serve(w http.ResponseWriter, r *http.Request) error {
	if r.URL.Path == "/api/whoami-v2" {
		return h.serveUser(w, r)
	}
	if t, ok := listType(r.URL.EscapedPath()); ok {
		return h.serveList(w, r, t)
	}
	rt, isRoute := parseRoute(r.URL.EscapedPath())
	if t, ok := writeTarget(r); ok && !(isRoute && rt.hasOwner() && rt.allows(r.Method)) {
		if h.o.Writes == nil {
			return errReadOnly
		}
		return h.o.Writes.ServeWrite(w, r, t)
	}
	if !isRoute {
		return errNoRoute
	}
	if !rt.allows(r.Method) {
		w.Header().Set("Allow", rt.methods())
		return &Refusal{Status: http.StatusMethodNotAllowed, Text: "only " + rt.methods()}
	}
	if rt.verb == verbRefs {
		return h.serveRefs(w, r, rt)
	}
	c, err := h.o.Repos.Resolve(r.Context(), rt.repo, rt.revision)
	if err != nil {
		return err
	}
	w.Header().Set("X-Repo-Commit", c.ID())
	switch rt.verb {
	case verbInfo:
		return h.serveInfo(w, r, rt, c)
	case verbTree:
		return h.serveTree(w, r, rt, c)
	case verbPaths:
		return h.servePaths(w, r, c)
	case verbCommits:
		return h.serveCommits(w, r, rt, c)
	case verbToken:
		return h.serveToken(w, r, rt, c)
	}
	return h.serveFile(w, r, rt, c)
}

// methods returns the method of a route. GET includes HEAD.
func (rt *route) methods() string {
	if rt.verb == verbPaths {
		return http.MethodPost
	}
	return http.MethodGet
}

// allows reports whether a request for the route may have a method.
func (rt *route) allows(method string) bool {
	allowed := rt.methods()
	return method == allowed || method == http.MethodHead && allowed == http.MethodGet
}

// hasOwner reports whether the repository has two segments. The second one may be the verb of a request that
// changes a repository of one segment.
func (rt *route) hasOwner() bool { return strings.Contains(rt.repo.Name, "/") }

// Errors of requests.
var (
	errNoRoute  = &Refusal{Status: http.StatusNotFound, Text: "no such path in this API"}
	errNoUser   = &Refusal{Status: http.StatusUnauthorized, Text: "a token is required"}
	errDisabled = &Refusal{Status: http.StatusNotFound, Text: "this server has no Xet API"}
	errReadOnly = &Refusal{Status: http.StatusForbidden, Text: "this server is read-only; a folder or a bucket takes uploads with xetfs serve --writable, and a mirror takes none"}
)

// A Refusal is an error with a status and a text for the client. The text is printable ASCII and
// has no secret.
type Refusal struct {
	Status int
	Code   string // X-Error-Code, by which clients choose an error; may be empty
	Text   string // one sentence
}

func (e *Refusal) Error() string { return e.Text }

// badRequest returns the error of a mistake of the client. The text quotes nothing of the request.
func badRequest(text string) error { return &Refusal{Status: http.StatusBadRequest, Text: text} }

// refusalOf returns the answer for an error. It has no text of an error of a store.
func refusalOf(err error) *Refusal {
	var refusal *Refusal
	switch {
	case errors.As(err, &refusal):
		return refusal
	case errors.Is(err, hub.ErrRepoNotFound):
		return &Refusal{http.StatusNotFound, "RepoNotFound", "Repository not found"}
	case errors.Is(err, hub.ErrRevisionNotFound):
		return &Refusal{http.StatusNotFound, "RevisionNotFound", "Revision not found"}
	case errors.Is(err, hub.ErrRepoGated):
		return &Refusal{http.StatusForbidden, "GatedRepo", "Access to this repository is restricted"}
	case errors.Is(err, iofs.ErrNotExist):
		return &Refusal{http.StatusNotFound, "EntryNotFound", "Entry not found"}
	case errors.Is(err, origin.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		return &Refusal{http.StatusServiceUnavailable, "", "the store cannot be read just now"}
	case errors.Is(err, origin.ErrNotFound): // no code: clients take EntryNotFound for a file that never existed
		return &Refusal{http.StatusNotFound, "", "the store no longer has the content"}
	case errors.Is(err, iofs.ErrPermission):
		return &Refusal{http.StatusForbidden, "", "the upstream refuses the token of this server"}
	}
	return &Refusal{http.StatusInternalServerError, "", "it cannot be read"}
}

// serveError sends the answer for an error.
func serveError(w http.ResponseWriter, r *http.Request, err error) {
	refusal := refusalOf(err)
	head := w.Header()
	for _, name := range []string{"ETag", "Link", "Cache-Control", "Content-Length", "Content-Disposition", "Content-Range"} {
		head.Del(name)
	}
	if refusal.Code != "" {
		head.Set("X-Error-Code", refusal.Code)
	}
	head.Set("X-Error-Message", refusal.Text)
	switch refusal.Status {
	case http.StatusUnauthorized:
		head.Set("WWW-Authenticate", `Bearer realm="xetfs"`)
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		head.Set("Retry-After", "1")
	}
	doc := map[string]string{"error": refusal.Text, "message": refusal.Text} // git-lfs reads message only
	_ = SendJSON(w, r, refusal.Status, doc)                                  // a map of strings
}

// SendJSON sends a document.
func SendJSON(w http.ResponseWriter, r *http.Request, status int, doc any) error {
	b, err := json.Marshal(doc)
	if err != nil {
		return fmt.Errorf("encode the answer: %v", err)
	}
	head := w.Header()
	head.Set("Content-Type", "application/json; charset=utf-8")
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(b) // the client may have closed the connection
	}
	return nil
}

// Base returns the address of the server as the client wrote it.
func Base(r *http.Request) string {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + r.Host
}

// serveUser answers whoami for a request with a token.
func (h *handler) serveUser(w http.ResponseWriter, r *http.Request) error {
	var u User
	if h.o.User != nil {
		u = h.o.User(r)
	}
	name, role := u.Name, "read"
	if name == "" {
		return errNoUser
	}
	if u.MayWrite && h.o.Writes != nil {
		role = "write"
	}
	return SendJSON(w, r, http.StatusOK, map[string]any{
		"type": "user", "id": name, "name": name, "fullname": name, "email": "", "emailVerified": false,
		"isPro": false, "canPay": false, "periodEnd": nil, "avatarUrl": "", "orgs": []string{},
		"auth": map[string]any{"type": "access_token", "accessToken": map[string]string{
			"displayName": name, "role": role, "createdAt": wireTime(time.Unix(0, 0)),
		}},
	})
}

// serveToken sends a token for the CAS API, in the body and in headers: clients read one or the
// other.
func (h *handler) serveToken(w http.ResponseWriter, r *http.Request, rt route, c Commit) error {
	if h.o.Tokens == nil {
		return errDisabled
	}
	token, expires, err := h.o.Tokens.ReadToken(r.Context(), rt.repo, c)
	if err != nil {
		return err
	}
	head := w.Header()
	head.Set("X-Xet-Access-Token", token)
	head.Set("X-Xet-Token-Expiration", strconv.FormatInt(expires.Unix(), 10))
	head.Set("X-Xet-Cas-Url", Base(r))
	head.Set("Cache-Control", "no-store")
	return SendJSON(w, r, http.StatusOK, tokenInfo{token, expires.Unix(), Base(r)})
}
