package hub

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/fetch"
	"github.com/xetfs/xetfs/cache/origin/origintest"
)

// The start of a path behind the endpoint decides which count a request belongs to. Names of files
// and the path of the endpoint do not matter. Each row exhausts the count of the first request.
func TestPaceCounts(t *testing.T) {
	const api, file, apiFile = "/api/models/o/n", "/o/n/resolve/C/a", "/o/n/resolve/C/docs/api/x.json"
	tests := []struct {
		name, first, second string
		delayed             bool // the second request
	}{
		{"API", api, api + "/tree/main?limit=1", true},
		{"content", file, file, true},
		{"content after the API", api, file, false},
		{"the API after content", file, api, false},
		{"content in a folder api", file, apiFile, true},
		{"content in a folder api after the API", api, apiFile, false},
		{"the API after content in a folder api", apiFile, api, false},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("RateLimit", `"x";r=0;t=100`)
	}))
	defer server.Close()
	for _, endpoint := range []string{"", "/hub", "/a%20b/api/hub"} {
		for _, tt := range tests {
			t.Run(tt.name+" at "+endpoint, func(t *testing.T) {
				r, err := Open(Address{Model, "o", "n", "main", ""}, Options{Endpoint: server.URL + endpoint})
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				start := time.Unix(1_000_000, 0)
				c := &clock{t: start}
				r.pacer.now, r.pacer.sleep = c.now, c.sleep
				for _, path := range []string{tt.first, tt.second} {
					if _, _, err := r.get(t.Context(), r.request("test", path), 1); err != nil {
						t.Fatal(err)
					}
				}
				if got := c.now().After(start); got != tt.delayed {
					t.Errorf("delayed: %t, want %t", got, tt.delayed)
				}
			})
		}
	}
}

// The name in an answer decides which count it announces. The Hub redirects small files to its API, and
// these answers announce the count of content. An answer from the store of a CDN announces the count of
// another client.
func TestPaceNamedCounts(t *testing.T) {
	const api, file, cached = "/api/models/o/n", "/o/n/resolve/C/a", "/api/resolve-cache/models/o/n/C/a"
	tests := []struct {
		name, path, limit, header string
		delayed                   string // the next requests that wait
	}{
		{"count of the API", api, `"api";r=0;t=100`, "", "api"},
		{"count of content", file, `"resolvers";r=0;t=100`, "", "file"},
		{"content behind a redirect", cached, `"resolvers";r=0;t=100`, "", "file"},
		{"count of the API for content", file, `"api";r=0;t=100`, "", "api"},
		{"count of pages", api, `"pages";r=0;t=100`, "", ""},
		{"unknown name", api, `"apis";r=0;t=100`, "", "api"},
		{"no name", file, `r=0;t=100`, "", "file"},
		{"stored by a CDN", cached, `"resolvers";r=0;t=100`, "Age: 7", ""},
		{"just stored by a CDN", file, `"resolvers";r=0;t=100`, "Age: 0", "file"},
		{"hit of a CDN", file, `"resolvers";r=0;t=100`, "X-Cache: Hit from cloudfront", ""},
		{"hit of another CDN", file, `"resolvers";r=0;t=100`, "X-Cache: HIT", ""},
		{"miss of a CDN", file, `"resolvers";r=0;t=100`, "X-Cache: Miss from cloudfront", "file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPacer(slog.New(slog.DiscardHandler))
			header := http.Header{"Ratelimit": {tt.limit}}
			if name, value, ok := strings.Cut(tt.header, ": "); ok {
				header.Set(name, value)
			}
			p.observe(tt.path, header)
			for name, path := range map[string]string{"api": api, "file": file} {
				waited := false
				p.sleep = func(context.Context, time.Duration) error { waited = true; return nil }
				if err := p.wait(t.Context(), path); err != nil || waited != (tt.delayed == name) {
					t.Errorf("%s: waited %t, %v", name, waited, err)
				}
			}
		})
	}
}

// callLimit bounds the calls of a limitedRepo.
const callLimit = 30 * time.Second

// limitedRepo returns a repository of a server.
func limitedRepo(t *testing.T, answer http.HandlerFunc) *Repo {
	t.Helper()
	o := Options{Options: fetch.Options{Transport: origintest.Transport(answer), Limits: fetch.Limits{First: callLimit, Read: callLimit}}}
	r, err := Open(Address{Model, "o", "n", "main", ""}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// A call ends shortly before its limit if the Hub refuses requests for longer. No request follows before the
// end of that.
func TestPaceLongRefusal(t *testing.T) {
	tests := []struct {
		name, limit string
		refused     int             // calls after the first one
		at          []time.Duration // times of the requests of four calls; the last one is 5 minutes after the third
	}{
		{"short", `"api";r=0;t=20`, 0, []time.Duration{0, 0, 20 * time.Second, 20 * time.Second, 320 * time.Second}},
		{"long", `"api";r=0;t=299`, 2, []time.Duration{0, 0, 300*time.Second + callLimit*15/16}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				var at []time.Duration
				r := limitedRepo(t, func(w http.ResponseWriter, _ *http.Request) {
					if at = append(at, time.Since(start)); len(at) == 2 {
						w.Header().Set("RateLimit", tt.limit)
						w.WriteHeader(http.StatusTooManyRequests)
					}
				})
				for i := range 4 {
					if i == 3 {
						time.Sleep(300 * time.Second)
					}
					_, _, err := r.get(t.Context(), r.request("test", "/api/x"), 1)
					if isRefused := 0 < i && i <= tt.refused; errors.Is(err, origin.ErrUnavailable) != isRefused || (err == nil) == isRefused {
						t.Errorf("call %d: %v", i, err)
					}
				}
				if !slices.Equal(at, tt.at) {
					t.Errorf("requests at %v, want %v", at, tt.at)
				}
			})
		})
	}
}

// The listing of a whole repository waits for the next window. A reader of one folder does not.
func TestPaceListings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := limitedRepo(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("RateLimit", `"api";r=0;t=299`)
			_, _ = w.Write([]byte(`[{"type":"directory","path":"d"}]`))
		})
		start := time.Now()
		list := func(recursive bool) (err error) {
			for _, err = range r.List(t.Context(), "C", "", recursive) {
			}
			return err
		}
		for i, want := range []time.Duration{0, 299 * time.Second} {
			if err := list(true); err != nil || time.Since(start) != want {
				t.Errorf("listing %d: %v after %v, want %v", i, err, time.Since(start), want)
			}
		}
		if err := list(false); !errors.Is(err, origin.ErrUnavailable) || time.Since(start) != 299*time.Second+callLimit*15/16 {
			t.Errorf("a folder: %v after %v", err, time.Since(start))
		}
	})
}

// The listing of a whole repository repeats a page that the Hub refuses, because other clients have used the
// window. It ends after some windows.
func TestPaceRefusedPage(t *testing.T) {
	tests := []struct {
		name    string
		limit   string
		refused int           // answers of the second page
		after   time.Duration // until the end of the listing; 0: not measured
		tries   int           // of the second page
		wantErr error
	}{
		{"once", `"api";r=0;t=60`, 1, time.Minute, 2, nil},
		{"in two windows", `"api";r=0;t=60`, 2, 2 * time.Minute, 3, nil},
		{"always", `"api";r=0;t=60`, 1000, 2 * time.Minute, 3, origin.ErrUnavailable},
		{"without a window", "", 1000, 0, 6, origin.ErrUnavailable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var pages []string // requested ones
				r := limitedRepo(t, func(w http.ResponseWriter, q *http.Request) {
					page := q.URL.Query().Get("cursor")
					pages = append(pages, page)
					if n := len(pages) - 1; 1 <= n && n <= tt.refused {
						w.Header().Set("RateLimit", tt.limit)
						w.WriteHeader(http.StatusTooManyRequests)
						return
					}
					if page == "" {
						w.Header().Set("Link", "<"+DefaultEndpoint+q.URL.Path+`?cursor=2>; rel="next"`)
					}
					_, _ = w.Write([]byte(`[{"type":"directory","path":"d"}]`))
				})
				start := time.Now()
				var err error
				for _, err = range r.List(t.Context(), "C", "", true) {
				}
				if !errors.Is(err, tt.wantErr) || (err == nil) != (tt.wantErr == nil) || tt.after > 0 && time.Since(start) != tt.after {
					t.Errorf("%v after %v, want %v after %v", err, time.Since(start), tt.wantErr, tt.after)
				}
				want := append([]string{""}, slices.Repeat([]string{"2"}, tt.tries)...)
				if !slices.Equal(pages, want) {
					t.Errorf("requested pages %q, want %q", pages, want)
				}
			})
		})
	}
}

// A caller that leaves while it waits, or before, releases its place.
func TestPaceReleasesPlaces(t *testing.T) {
	c := &clock{t: time.Unix(1_000_000, 0)}
	p := newPacer(slog.New(slog.DiscardHandler))
	p.now = c.now
	p.observe("/api/", http.Header{"Ratelimit": {`"api";r=11;t=100`}})
	wait := func(err error) (paused time.Duration) {
		t.Helper()
		p.sleep = func(_ context.Context, d time.Duration) error { paused = d; return err }
		if got := p.wait(t.Context(), "/api/"); got != err { //nolint:errorlint // the same error
			t.Fatalf("wait = %v, want %v", got, err)
		}
		return paused
	}
	if d := wait(nil); d != 0 {
		t.Errorf("the first request waits for %v", d)
	}
	for range 20 {
		if d := wait(context.Canceled); d != 10*time.Second {
			t.Fatalf("a caller that leaves waits for %v", d)
		}
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	p.observe("/other", http.Header{"Ratelimit": {`"resolvers";r=1000;t=100`}})
	if err := p.wait(canceled, "/other"); err == nil || p.quota["resolvers"].remaining != 1000 {
		t.Errorf("%v, %d requests remain", err, p.quota["resolvers"].remaining)
	}
	if d := wait(nil); d != 10*time.Second {
		t.Errorf("the second request waits for %v", d)
	}
	if d := wait(nil); d != 20*time.Second {
		t.Errorf("the third request waits for %v", d)
	}
}

// A passed deadline is the error of the caller, also before the timer of its context has fired. Without an
// announcement no request is refused.
func TestPacePassedDeadline(t *testing.T) {
	ctx := lateContext{t.Context(), time.Now().Add(-time.Second)}
	if err := newPacer(slog.New(slog.DiscardHandler)).wait(ctx, "/api/"); err != nil {
		t.Errorf("wait = %v, want nil", err)
	}
}

// A lateContext has a deadline without a timer.
type lateContext struct {
	context.Context
	deadline time.Time
}

func (c lateContext) Deadline() (time.Time, bool) { return c.deadline, true }
