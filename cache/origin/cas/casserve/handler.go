package casserve

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"strings"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/upload"
	"github.com/xetfs/xetfs/codec"
)

// HandlerOptions tune NewHandler. The zero value is good.
type HandlerOptions struct {
	// Authorize returns the scope of a bearer token; the token is empty if the client sends
	// none. ErrToken is status 401, io/fs.ErrPermission 403. nil: every client may read all.
	Authorize func(ctx context.Context, token string) (scope string, err error)

	Signer *Signer       // of presigned URLs; nil: a random key
	Life   time.Duration // of presigned URLs; 0: 1 hour

	// Base returns the address that presigned URLs begin with, without a slash at the end. nil:
	// scheme and host of the request.
	Base func(r *http.Request) string

	// Uploads accepts xorbs and shards; nil: 403. AuthorizeWrite returns the session of a bearer
	// token that may write, with the errors of Authorize.
	Uploads        Uploads
	AuthorizeWrite func(ctx context.Context, token string) (upload.SessionID, error)

	// Report is called with an error that ends an answer early, or has a status of 500 or more. nil: no
	// call.
	Report func(r *http.Request, err error)

	// ExactRanges refuses a part of a signed range, as some services do.
	ExactRanges bool
}

// A handler serves the CAS API.
type handler struct {
	content Content
	HandlerOptions
	plans chan struct{} // slots for large plans
}

// The routes of the read side. Every unknown request gets 404, also a POST: a client of uploads
// would take another status for an answer.
const (
	plansV1Path  = "/v1/reconstructions"
	plansV2Path  = "/v2/reconstructions"
	filesPath    = "/v1/files/"
	xorbsPath    = "/v1/xorbs/default/"
	transferPath = "/v1/transfer/default/"
)

// NewHandler returns a handler for the CAS API. It has reconstructions in both versions, for one or
// several files, and sizes of files and xorbs. Presigned URLs serve ranges of xorbs. Uploads of
// xorbs and shards go to HandlerOptions.Uploads.
func NewHandler(c Content, o HandlerOptions) http.Handler {
	if o.Authorize == nil {
		o.Authorize = func(context.Context, string) (string, error) { return "", nil }
	}
	if o.Signer == nil {
		o.Signer, _ = NewSigner(nil) // a random key is never too short
	}
	if o.Life == 0 {
		o.Life = time.Hour
	}
	if o.Base == nil {
		o.Base = requestBase
	}
	if o.Report == nil {
		o.Report = func(*http.Request, error) {}
	}
	return &handler{content: c, HandlerOptions: o, plans: make(chan struct{}, maxLargePlans)}
}

// requestBase returns scheme and host of a request.
func requestBase(r *http.Request) string {
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	out := &answer{ResponseWriter: w}
	err := h.serve(out, r)
	if err == nil {
		return
	}
	if out.began || isFault(err) {
		h.Report(r, err)
	}
	if out.began {
		panic(http.ErrAbortHandler) // the client must see that the answer is not complete
	}
	Fail(w, err)
}

// An answer remembers whether it has begun. Before that, an error can still have its own status.
type answer struct {
	http.ResponseWriter
	began bool
}

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	a.began = true
	a.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) {
	a.began = true
	return a.ResponseWriter.Write(p)
}

func (h *handler) serve(w *answer, r *http.Request) error {
	path, get := r.URL.Path, r.Method == http.MethodGet
	if text, ok := strings.CutPrefix(path, transferPath); ok && get {
		return h.serveTransfer(w, r, text)
	}
	w.Header().Set("Cache-Control", "no-store") // plans have signed URLs
	if text, ok := strings.CutPrefix(path, plansV2Path+"/"); ok && get {
		return h.servePlan(w, r, text, writeV2)
	}
	if text, ok := strings.CutPrefix(path, plansV1Path+"/"); ok && get {
		return h.servePlan(w, r, text, writeV1)
	}
	if path == plansV1Path && get {
		return h.serveBatch(w, r)
	}
	if text, ok := strings.CutPrefix(path, filesPath); ok && r.Method == http.MethodHead {
		return h.serveSize(w, r, text, h.fileSize)
	}
	if text, ok := strings.CutPrefix(path, xorbsPath); ok && r.Method == http.MethodHead {
		return h.serveSize(w, r, text, h.content.XorbSize)
	}
	if text, ok := strings.CutPrefix(path, chunksPath); ok && get {
		return h.serveChunk(w, r, text)
	}
	if r.Method == http.MethodPost {
		return h.servePost(w, r)
	}
	return origin.ErrNotFound
}

// servePost answers an upload.
func (h *handler) servePost(w *answer, r *http.Request) error {
	if text, ok := strings.CutPrefix(r.URL.Path, xorbsPath); ok {
		return h.serveXorb(w, r, text)
	}
	switch r.URL.Path {
	case shardsV1Path:
		return h.serveShardV1(w, r)
	case shardsV2Path:
		return h.serveShardV2(w, r)
	}
	return origin.ErrNotFound
}

// scope returns the scope of the token in the header Authorization.
func (h *handler) scope(r *http.Request) (string, error) {
	return h.Authorize(r.Context(), bearer(r))
}

// serveSize answers a HEAD for the object whose hash is text.
func (h *handler) serveSize(w http.ResponseWriter, r *http.Request, text string, size func(context.Context, string, codec.Hash) (int64, error)) error {
	scope, err := h.scope(r)
	if err != nil {
		return err
	}
	hash, err := parseHash(text)
	if err != nil {
		return err
	}
	n, err := size(r.Context(), scope, hash)
	if err == nil {
		setLength(w.Header(), n)
	}
	return err
}

func (h *handler) fileSize(ctx context.Context, scope string, file codec.Hash) (int64, error) {
	f, err := h.open(ctx, scope, file)
	if err != nil {
		return 0, err
	}
	return f.Size(), nil
}

// open opens a file of the content. The empty file exists in every content.
func (h *handler) open(ctx context.Context, scope string, file codec.Hash) (File, error) {
	if file.IsZero() {
		return emptyFile{}, nil
	}
	return h.content.Open(ctx, scope, file)
}

// A statusError is an error with a status of its own.
type statusError struct {
	status int
	text   string
}

func (e *statusError) Error() string { return e.text }

// parseHash parses a hash in a path.
func parseHash(text string) (codec.Hash, error) {
	hash, err := codec.ParseHash(text)
	if err != nil {
		return hash, &statusError{http.StatusBadRequest, "the path does not end with a hash of 64 hex digits"}
	}
	return hash, nil
}

// ErrChanged means that a xorb was replaced by one with the same chunks, packed otherwise. A
// client requests a new plan, as for an expired URL.
var ErrChanged = errors.New("the xorb was stored again; request the reconstruction again")

// Fail answers a request with the status of err and one line of text.
func Fail(w http.ResponseWriter, err error) {
	status, text := statusOf(err)
	w.Header().Del("Cache-Control")
	if status != http.StatusRequestedRangeNotSatisfiable {
		w.Header().Del("Content-Range") // of a part that was not sent
	}
	switch status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Bearer realm="xetfs"`)
	case http.StatusTooManyRequests:
		w.Header().Set("Retry-After", retryAfter)
	case http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
	}
	http.Error(w, text, status)
}

// isFault reports whether an error has a status of 500 or more.
func isFault(err error) bool {
	status, _ := statusOf(err)
	return status >= http.StatusInternalServerError
}

// statusOf returns the status of err and one line of text. The text of other errors may name parts of
// the server, so it is not sent.
func statusOf(err error) (status int, text string) {
	var e *statusError
	if status, text = uploadStatus(err); status != 0 {
		return status, text
	}
	switch {
	case errors.As(err, &e):
		return e.status, e.text
	case errors.Is(err, ErrToken):
		return http.StatusUnauthorized, err.Error()
	case errors.Is(err, ErrChanged):
		return http.StatusForbidden, ErrChanged.Error()
	case errors.Is(err, fs.ErrPermission):
		return http.StatusForbidden, "the token is not for this file"
	case errors.Is(err, origin.ErrNotFound):
		return http.StatusNotFound, "not found"
	case errors.Is(err, origin.ErrUnavailable):
		return http.StatusServiceUnavailable, "the data cannot be read just now"
	}
	return http.StatusInternalServerError, "the data cannot be read"
}
