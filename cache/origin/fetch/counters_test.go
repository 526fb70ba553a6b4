package fetch_test

import (
	"bytes"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin/fetch"
)

// The counts are those of the server: requests, bytes and errors.
func TestCounters(t *testing.T) {
	content := bytes.Repeat([]byte("x"), 1000)
	var calls atomic.Int64
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch n := calls.Add(1); {
		case r.URL.Path == "/absent":
			http.NotFound(w, r)
		case n == 1:
			w.Header().Set("Content-Length", "0")
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
		}
	})
	var counters fetch.Counters
	c := newClient(t, server, fetch.Options{Counters: &counters, Pause: time.Millisecond})
	p := make([]byte, 100)
	for range 3 {
		if err := c.ReadAt(t.Context(), fetch.Request{Key: "k", URL: server}, p, 10, ignore); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.ReadAt(t.Context(), fetch.Request{Key: "absent", URL: server + "/absent"}, p, 10, ignore); err == nil {
		t.Fatal("an absent object was read")
	}
	s := counters.Load()
	if s.Requests != calls.Load() || s.Requests != 5 || s.Errors != 1 || s.Retries != 1 || s.NotFound != 1 || s.Lost != 0 {
		t.Errorf("stats = %+v of %d calls", s, calls.Load())
	}
	if notFound := int64(len("404 page not found\n")); s.Bytes != 300+notFound || s.FirstByte.Count != 5 {
		t.Errorf("%d bytes, %d first bytes", s.Bytes, s.FirstByte.Count)
	}
	if s.LastError == "" || s.LastFail == nil {
		t.Errorf("last error %q at %v", s.LastError, s.LastFail)
	}
}

// A server that refuses connections is failing until it answers again.
func TestCountersFailing(t *testing.T) {
	var fails atomic.Bool
	fails.Store(true)
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if fails.Load() {
			panic(http.ErrAbortHandler)
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(make([]byte, 10)))
	})
	var counters fetch.Counters
	c := newClient(t, server, fetch.Options{Counters: &counters, Attempts: 2, Pause: time.Millisecond})
	r := fetch.Request{Key: "k", URL: server}
	if err := c.ReadAt(t.Context(), r, make([]byte, 1), 0, ignore); err == nil {
		t.Fatal("a lost answer was read")
	}
	if s := counters.Load(); !s.Failing || s.Lost == 0 {
		t.Errorf("stats = %+v", s)
	}
	fails.Store(false)
	if err := c.ReadAt(t.Context(), r, make([]byte, 1), 0, ignore); err != nil {
		t.Fatal(err)
	}
	if s := counters.Load(); s.Failing {
		t.Errorf("stats = %+v", s)
	}
}
