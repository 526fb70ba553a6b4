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

// A Web is a store on a plain web server, on loopback, that remembers what it was asked.
type Web struct {
	URL     string                          // where it is, if ServeWeb made it
	Through func(http.Handler) http.Handler // changes how it answers; nil: nothing does

	store origin.Store

	mu       sync.Mutex
	requests []*Request // guarded by mu, and so are those it points to
}

// A Request is what a Web was asked, and how much it answered.
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

// Requests returns what was asked since the last call.
func (w *Web) Requests() []Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	asked := make([]Request, len(w.requests))
	for i, r := range w.requests {
		asked[i] = *r
	}
	w.requests = nil
	return asked
}

// Sum returns how many requests there were, and the bytes of their answers.
func Sum(requests []Request) (n int, bytes int64) {
	for _, r := range requests {
		bytes += r.Bytes
	}
	return len(requests), bytes
}

// ServeHTTP implements http.Handler.
func (w *Web) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	asked := &Request{Method: r.Method, Path: r.URL.Path, Range: r.Header.Get("Range")}
	w.mu.Lock()
	w.requests = append(w.requests, asked)
	w.mu.Unlock()
	counted := &countedWriter{ResponseWriter: rw, status: http.StatusOK}
	h := http.Handler(http.HandlerFunc(w.serve))
	if w.Through != nil {
		h = w.Through(h)
	}
	h.ServeHTTP(counted, r)
	w.mu.Lock()
	defer w.mu.Unlock()
	asked.Status, asked.Bytes = counted.status, counted.bytes
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
