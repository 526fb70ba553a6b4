package fetch

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
)

// movedFixture is a server that redirects to another one, which accepts one signature.
type movedFixture struct {
	first, second   *httptest.Server
	signature       atomic.Value
	resolved, moved atomic.Int32
	leaked          atomic.Bool
	content         string
}

func newMovedFixture(t *testing.T) *movedFixture {
	t.Helper()
	f := &movedFixture{content: strings.Repeat("0123456789", 100)}
	f.signature.Store("one")
	f.second = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.moved.Add(1)
		if r.Header.Get("Authorization") != "" || r.Header.Get("X-Secret") != "" {
			f.leaked.Store(true)
		}
		if r.URL.Query().Get("signature") != f.signature.Load() {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		w.Header().Set("ETag", `"tag"`)
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(f.content))
	}))
	t.Cleanup(f.second.Close)
	f.first = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.resolved.Add(1)
		http.Redirect(w, r, f.second.URL+"/x?signature="+f.signature.Load().(string), http.StatusFound)
	}))
	t.Cleanup(f.first.Close)
	return f
}

// A remembered address saves the first server's requests. It gets no secrets, and is dropped when the
// second server refuses it.
func TestRedirected(t *testing.T) {
	f := newMovedFixture(t)
	base, err := url.Parse(f.first.URL)
	if err != nil {
		t.Fatal(err)
	}
	c := New(base, Options{})
	defer c.Close()
	moved := new(Redirected)
	r := Request{
		Key: "object", URL: f.first.URL, Redirected: moved, Header: http.Header{"X-Secret": {"secret"}},
		Prepare: func(r *http.Request) error { r.Header.Set("Authorization", "Bearer secret"); return nil },
	}
	read := func(off int64) {
		t.Helper()
		b := make([]byte, 10)
		if err := c.ReadAt(t.Context(), r, b, off, func(int) {}); err != nil || string(b) != "0123456789" {
			t.Fatalf("ReadAt(%d) = %q, %v", off, b, err)
		}
	}
	for off := int64(0); off < 100; off += 10 {
		read(off)
	}
	if f.resolved.Load() != 1 || !moved.Known() {
		t.Errorf("%d requests of the first server for 10 reads", f.resolved.Load())
	}
	expire := func(signature string) {
		t.Helper()
		f.signature.Store(signature)
		err := c.ReadAt(t.Context(), r, make([]byte, 10), 200, func(int) {})
		if !errors.Is(err, ErrExpired) || moved.Known() {
			t.Errorf("ReadAt = %v, known %t; want an expired address", err, moved.Known())
		}
	}
	expire("two")
	read(200)
	read(210)
	if f.resolved.Load() != 2 || f.moved.Load() != 13 {
		t.Errorf("after the address expired: %d and %d requests, want 2 and 13", f.resolved.Load(), f.moved.Load())
	}
	expire("three")
	f.first.Config.Handler = http.NotFoundHandler()
	if err := c.ReadAt(t.Context(), r, make([]byte, 1), 0, func(int) {}); !errors.Is(err, origin.ErrNotFound) {
		t.Errorf("the object is gone: %v", err)
	}
	if f.leaked.Load() {
		t.Error("the second server got a secret of the first one")
	}
}

// A part behind the end is no reason to request the address again.
func TestRedirectedBehindEnd(t *testing.T) {
	f := newMovedFixture(t)
	base, err := url.Parse(f.first.URL)
	if err != nil {
		t.Fatal(err)
	}
	c := New(base, Options{})
	defer c.Close()
	r := Request{Key: "object", URL: f.first.URL, Redirected: new(Redirected)}
	for _, off := range []int64{0, 5000, 0} {
		err := c.ReadAt(t.Context(), r, make([]byte, 10), off, func(int) {})
		if (err != nil) != (off > 0) {
			t.Errorf("ReadAt(%d) = %v", off, err)
		}
	}
	if n := f.resolved.Load(); n != 1 {
		t.Errorf("%d requests of the first server", n)
	}
}

// A remembered address remains if the caller cancels a request, and is dropped at the limit of a call.
func TestRedirectedCanceled(t *testing.T) {
	tests := []struct {
		name    string
		limits  Limits
		cancels bool
		err     error
	}{
		{"canceled", Limits{}, true, context.Canceled},
		{"limit", Limits{Read: time.Millisecond}, false, origin.ErrUnavailable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newMovedFixture(t)
			base, err := url.Parse(f.first.URL)
			if err != nil {
				t.Fatal(err)
			}
			moved := new(Redirected)
			moved.to.Store(&destination{url: f.second.URL})
			c := New(base, Options{Limits: tt.limits})
			defer c.Close()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			f.second.Config.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if tt.cancels {
					cancel()
				}
				<-r.Context().Done()
			})
			r := Request{Key: "object", URL: f.first.URL, Redirected: moved}
			if err := c.ReadAt(ctx, r, make([]byte, 10), 0, func(int) {}); !errors.Is(err, tt.err) {
				t.Errorf("error %v, want %v", err, tt.err)
			}
			if moved.Known() != tt.cancels {
				t.Errorf("known %t, want %t", moved.Known(), tt.cancels)
			}
		})
	}
}

// A publicContent answers for http://public.example with a redirect to http://cdn.example, and for
// the first request to that. Further requests go below.
type publicContent struct {
	port  string
	below http.RoundTripper
	moved atomic.Int32
}

func (p *publicContent) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	switch {
	case r.URL.Hostname() == "public.example":
		w.Header().Set("Location", "http://cdn.example:"+p.port+"/x")
		w.WriteHeader(http.StatusFound)
	case p.moved.Add(1) == 1:
		w.Header().Set("Content-Range", "bytes 0-0/100")
		w.WriteHeader(http.StatusPartialContent)
		w.WriteString("a")
	default:
		return p.below.RoundTrip(r)
	}
	resp := w.Result()
	resp.Request = r
	return resp, nil
}

// S35: a remembered name that later has a private address is refused, too.
func TestS35_RedirectedRebinding(t *testing.T) {
	resolve(t)
	var requested atomic.Bool
	inner := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requested.Store(true) }))
	defer inner.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(inner.URL, "http://"), ":")
	base := &url.URL{Scheme: "http", Host: "public.example"}
	o := Options{Attempts: 1}.withDefaults()
	o.Transport = &publicContent{port: port, below: o.transport(4)}
	c := New(base, o)
	defer c.Close()
	r := Request{Key: "object", URL: base.String(), Redirected: new(Redirected)}
	if err := c.ReadAt(t.Context(), r, make([]byte, 1), 0, func(int) {}); err != nil || !r.Redirected.Known() {
		t.Fatalf("first read: %v, known %t", err, r.Redirected.Known())
	}
	err := c.ReadAt(t.Context(), r, make([]byte, 1), 0, func(int) {})
	if err == nil || !strings.Contains(err.Error(), errInside.Error()) || requested.Load() {
		t.Errorf("ReadAt = %v, requested %t", err, requested.Load())
	}
}
