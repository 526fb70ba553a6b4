package fetch

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/origintest"
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

// isKnown reports whether an address is remembered.
func isKnown(r *Redirected) bool {
	to, _ := r.known()
	return to != nil
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
	if f.resolved.Load() != 1 || !isKnown(moved) {
		t.Errorf("%d requests of the first server for 10 reads", f.resolved.Load())
	}
	expire := func(signature string) {
		t.Helper()
		f.signature.Store(signature)
		err := c.ReadAt(t.Context(), r, make([]byte, 10), 200, func(int) {})
		if !errors.Is(err, ErrExpired) || isKnown(moved) {
			t.Errorf("ReadAt = %v, known %t; want an expired address", err, isKnown(moved))
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
			moved.to = &destination{url: f.second.URL}
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
			if isKnown(moved) != tt.cancels {
				t.Errorf("known %t, want %t", isKnown(moved), tt.cancels)
			}
		})
	}
}

// twoServers answers for http://first and for any other host.
func twoServers(first, second http.HandlerFunc) http.RoundTripper {
	return origintest.Transport(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Host == "first" {
			first(w, r)
			return
		}
		second(w, r)
	}))
}

// redirect redirects to another server.
func redirect(w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, "http://second/x", http.StatusFound)
}

func serveDigits(w http.ResponseWriter, r *http.Request) {
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader("0123456789"))
}

// startReaders reads a byte of one object in n goroutines, each one a nanosecond after the one before. They
// call done with the result.
func startReaders(t *testing.T, n int, transport http.RoundTripper, o Options, contexts map[int]context.Context, done func(i int, err error)) {
	t.Helper()
	o.Transport = transport
	c := New(&url.URL{Scheme: "http", Host: "first"}, o)
	t.Cleanup(c.Close)
	r := Request{Key: "object", URL: "http://first/x", Redirected: new(Redirected)}
	for i := range n {
		go func() {
			time.Sleep(time.Duration(i))
			ctx := t.Context()
			if contexts[i] != nil {
				ctx = contexts[i]
			}
			done(i, c.ReadAt(ctx, r, make([]byte, 1), 3, func(int) {}))
		}()
	}
}

// Reads wait for the answer to the first one. They share its error, unless its caller has left.
func TestRedirectedShared(t *testing.T) {
	tests := []struct {
		name          string
		first, second http.HandlerFunc
		leaves        bool // the caller of the first read
		want          error
		asked         int32 // requests of the first server
		moved         int32 // requests of the second server
	}{
		{"answer", redirect, serveDigits, false, nil, 1, 11},
		{"absent", http.NotFound, nil, false, origin.ErrNotFound, 1, 0},
		{"refused by the second server", redirect, http.NotFound, false, origin.ErrNotFound, 1, 1},
		{"the caller has left", redirect, serveDigits, true, nil, 2, 10},
		{"no redirect", serveDigits, nil, false, nil, 11, 0},
		{"the whole object", redirect, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("0123456789")) }, false, nil, 11, 11},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked, moved, ended atomic.Int32
				first := func(w http.ResponseWriter, r *http.Request) {
					if asked.Add(1) == 1 {
						time.Sleep(time.Second)
					}
					tt.first(w, r)
				}
				second := func(w http.ResponseWriter, r *http.Request) {
					moved.Add(1)
					tt.second(w, r)
				}
				limited, cancel := context.WithCancel(t.Context())
				defer cancel()
				contexts := map[int]context.Context{0: limited}
				startReaders(t, 11, twoServers(first, second), Options{Attempts: 1}, contexts, func(i int, err error) {
					if ended.Add(1); (i > 0 || !tt.leaves) && !errors.Is(err, tt.want) {
						t.Errorf("read %d: %v, want %v", i, err, tt.want)
					}
				})
				time.Sleep(time.Second / 2)
				if n := asked.Load(); n != 1 || ended.Load() != 0 {
					t.Errorf("%d requests before the answer, and %d reads ended", n, ended.Load())
				}
				if tt.leaves {
					cancel()
				}
				time.Sleep(time.Second)
				if a, m := asked.Load(), moved.Load(); a != tt.asked || m != tt.moved || ended.Load() != 11 {
					t.Errorf("%d and %d requests, want %d and %d; %d reads ended", a, m, tt.asked, tt.moved, ended.Load())
				}
			})
		})
	}
}

// Only the first read of an object delays others if the first server does not redirect.
func TestRedirectedToNowhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const reads, latency = 20, 50 * time.Millisecond
		start := time.Now()
		slow := func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(latency)
			serveDigits(w, r)
		}
		c := New(&url.URL{Scheme: "http", Host: "first"}, Options{Transport: twoServers(slow, nil)})
		defer c.Close()
		r := Request{Key: "object", URL: "http://first/x", Redirected: new(Redirected)}
		var running sync.WaitGroup
		for i := range 8 {
			running.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				for range reads {
					if err := c.ReadAt(t.Context(), r, make([]byte, 1), 3, func(int) {}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		running.Wait()
		if took := time.Since(start); took > (reads+1)*latency {
			t.Errorf("%d reads in a row took %v, want at most %v", reads, took, (reads+1)*latency)
		}
	})
}

// The first server is asked once per leastUse while the second one is unavailable.
func TestRedirectedOutage(t *testing.T) {
	tests := []struct {
		name   string
		second http.HandlerFunc
	}{
		{"503", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }},
		{"lost connections", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked, failed atomic.Int32
				first := func(w http.ResponseWriter, r *http.Request) {
					asked.Add(1)
					redirect(w, r)
				}
				o := Options{Limits: Limits{First: 20 * time.Second, Read: 20 * time.Second}}
				start := time.Now()
				startReaders(t, 20, twoServers(first, tt.second), o, nil, func(_ int, err error) {
					if failed.Add(1); !errors.Is(err, origin.ErrUnavailable) {
						t.Error(err)
					}
				})
				for failed.Load() < 20 {
					time.Sleep(time.Second)
				}
				if n, most := asked.Load(), 1+int32(time.Since(start)/leastUse); n > most {
					t.Errorf("%d requests of the first server within %v, want at most %d", n, time.Since(start), most)
				}
			})
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
	if err := c.ReadAt(t.Context(), r, make([]byte, 1), 0, func(int) {}); err != nil || !isKnown(r.Redirected) {
		t.Fatalf("first read: %v, known %t", err, isKnown(r.Redirected))
	}
	err := c.ReadAt(t.Context(), r, make([]byte, 1), 0, func(int) {})
	if err == nil || !strings.Contains(err.Error(), errInside.Error()) || requested.Load() {
		t.Errorf("ReadAt = %v, requested %t", err, requested.Load())
	}
}
