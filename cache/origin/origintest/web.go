package origintest

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/listing"
	"github.com/xetfs/xetfs/codec/names"
)

// A Web serves a store like a plain web server, on loopback. It records its requests.
type Web struct {
	URL  string                          // of the server; set by ServeWeb
	Wrap func(http.Handler) http.Handler // changes responses; nil: no changes

	store origin.Store

	mu       sync.Mutex
	requests []*Request // guarded by mu, and so are those it points to
}

// A Request is a request to a Web, with the size of its response.
type Request struct {
	Method, Path, Range string
	Status              int
	Bytes               int64 // of the body
}

// ServeWeb serves a store until the test ends. If through is not nil, it wraps the handler.
func ServeWeb(t testing.TB, s origin.Store, through func(http.Handler) http.Handler) *Web {
	t.Helper()
	w := NewWeb(s)
	h := http.Handler(w)
	if through != nil {
		h = through(h)
	}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	w.URL = server.URL
	return w
}

// NewWeb returns a Web without an address, for Transport.
func NewWeb(s origin.Store) *Web { return &Web{store: s} }

// Requests returns the requests since the last call.
func (w *Web) Requests() []Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	requests := make([]Request, len(w.requests))
	for i, r := range w.requests {
		requests[i] = *r
	}
	w.requests = nil
	return requests
}

// ServeHTTP implements http.Handler.
func (w *Web) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	request := &Request{Method: r.Method, Path: r.URL.Path, Range: r.Header.Get("Range")}
	w.mu.Lock()
	w.requests = append(w.requests, request)
	w.mu.Unlock()
	counted := &countedWriter{ResponseWriter: rw, status: http.StatusOK}
	h := http.Handler(http.HandlerFunc(w.serve))
	if w.Wrap != nil {
		h = w.Wrap(h)
	}
	h.ServeHTTP(counted, r)
	w.mu.Lock()
	defer w.mu.Unlock()
	request.Status, request.Bytes = counted.status, counted.bytes
}

func (w *Web) serve(rw http.ResponseWriter, r *http.Request) {
	k := names.Key(strings.TrimPrefix(r.URL.Path, "/"))
	var value []byte
	var tag origin.Tag
	var err error
	if k == listing.Key {
		value, err = listing.Encode(listing.Prefixes(), origin.ListPrefixes(r.Context(), w.store, listing.Prefixes()))
	} else {
		value, tag, err = w.store.Get(r.Context(), k, "")
	}
	if tag == "" {
		tag = origin.Tag(fmt.Sprintf("%x", sha256.Sum256(value)))
	}
	if err != nil {
		http.NotFound(rw, r)
		return
	}
	rw.Header().Set("Content-Type", "application/octet-stream")
	rw.Header().Set("ETag", `"`+string(tag)+`"`)
	http.ServeContent(rw, r, "", time.Time{}, bytes.NewReader(value))
}

type countedWriter struct {
	http.ResponseWriter
	status int
	bytes  int64
}

// Unwrap is for http.ResponseController.
func (c *countedWriter) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (c *countedWriter) WriteHeader(code int) {
	c.status = code
	c.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (c *countedWriter) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.bytes += int64(n)
	return n, err
}
