package serve

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
)

// Requests and bytes are counted, those for xorbs also apart. Reading the figures changes none.
func TestCounter(t *testing.T) {
	var count Counter
	h := count.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "0123456789") //nolint:errcheck // a recorder accepts all
	}), new(Site).route)
	var stats Stats
	for _, path := range []string{"/" + string(names.XorbKey(codec.Hash{1})), "/" + string(names.SettingsKey()), StatsPath} {
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		if path == StatsPath {
			if err := json.NewDecoder(answer.Body).Decode(&stats); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := Stats{Requests: 2, Bytes: 20, DataRequests: 1, DataBytes: 10}
	if stats != want || count.Stats() != want {
		t.Errorf("counted %v and %v, want %v", stats, count.Stats(), want)
	}
}

// A countingClient checks in each write that the bytes are counted already, and takes half of them.
type countingClient struct {
	*httptest.ResponseRecorder
	count *Counter
	t     *testing.T
}

func (c *countingClient) Write(p []byte) (int, error) {
	if got := c.count.Stats().DataBytes; got != int64(len(p)) {
		c.t.Errorf("%d bytes are counted before the client has %d", got, len(p))
	}
	return len(p) / 2, io.ErrShortWrite
}

// Bytes are counted before a client has them. Those that it did not take are not counted.
func TestCounterBeforeWrite(t *testing.T) {
	var count Counter
	h := count.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "0123456789") //nolint:errcheck // the client takes half
	}), new(Site).route)
	h.ServeHTTP(&countingClient{httptest.NewRecorder(), &count, t}, httptest.NewRequest(http.MethodGet, "/"+string(names.XorbKey(codec.Hash{1})), nil))
	if s := count.Stats(); s.DataBytes != 5 || s.Bytes != 5 {
		t.Errorf("counted %v", s)
	}
}

// Each route counts its requests, and its errors by kind: an answer without an end is lost.
func TestRoutes(t *testing.T) {
	var count Counter
	site := &Site{Repos: new(Repos), Xet: new(Xet)}
	abort := func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "0123") //nolint:errcheck // a recorder accepts all
		panic(http.ErrAbortHandler)
	}
	short := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "9")
		io.WriteString(w, "0123") //nolint:errcheck // a recorder accepts all
	}
	whole := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "4")
		io.WriteString(w, "0123") //nolint:errcheck // a recorder accepts all
	}
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	hijack := func(w http.ResponseWriter, _ *http.Request) {
		if _, _, err := http.NewResponseController(w).Hijack(); err == nil {
			t.Error("a recorder has a connection")
		}
	}
	for _, tt := range []struct {
		method, path string
		answer       http.HandlerFunc
		want         string // route, bytes, not found, errors, lost
	}{
		{"GET", "/api/models/a/b", whole, "hub 4 0 0 0"},
		{"GET", "/a/b/resolve/main/f", short, "hub 4 0 0 1"},
		{"HEAD", "/a/b/resolve/main/f", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9")
			w.WriteHeader(200)
		}, "hub 0 0 0 0"},
		{"GET", "/a/b/resolve/main/g", status(404), "hub 0 1 0 0"},
		{"GET", "/api/whoami-v2", status(401), "hub 0 0 1 0"},
		{"GET", "/v1/reconstructions/x", status(304), "cas 0 0 0 0"},
		{"GET", "/v2/reconstructions/x", status(503), "cas 0 0 1 0"},
		{"POST", "/v1/shards", whole, "cas 4 0 0 0"},
		{"POST", "/v1/xorbs/default/x", whole, "cas 4 0 0 0"},
		{"GET", "/v1/reconstructions", whole, "cas 4 0 0 0"},
		{"POST", "/v1/xorb-grants/default/x", whole, "cas 4 0 0 0"},
		{"GET", "/v1/chunks/default-merkledb/x", whole, "cas 4 0 0 0"},
		{"GET", "/v2/other", whole, "cas 4 0 0 0"},
		{"GET", "/reconstruction/x", whole, "cas 4 0 0 0"},
		{"GET", "/v1/model/resolve/main/f", whole, "hub 4 0 0 0"},
		{"GET", "/v1/xorbs/resolve/main/f", whole, "hub 4 0 0 0"},
		{"GET", "/v1/files/raw/main/f", whole, "hub 4 0 0 0"},
		{"GET", "/v1/transfer/resolve/main/f", whole, "hub 4 0 0 0"},
		{"GET", "/reconstructions/model/resolve/main/f", whole, "hub 4 0 0 0"},
		{"POST", "/v2/model.git/info/lfs/objects/batch", whole, "hub 4 0 0 0"},
		{"GET", "/v1/transfer/default/x", abort, "xorbs 4 0 0 1"},
		{"GET", "/v1/transfer/default/x", hijack, "xorbs 0 0 0 1"},
		{"GET", "/" + string(names.SettingsKey()), whole, "store 4 0 0 0"},
		{"GET", StorePath + "x", status(404), "store 0 1 0 0"},
	} {
		before := count.Routes()
		func() {
			defer func() { recover() }() //nolint:errcheck // net/http does the same
			count.Handler(tt.answer, site.route).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(tt.method, tt.path, nil))
		}()
		var changed []string
		for name, now := range count.Routes() {
			if old := before[name]; now.Requests != old.Requests {
				changed = append(changed, fmt.Sprintf("%s %d %d %d %d", name, now.Bytes-old.Bytes, now.NotFound-old.NotFound, now.Errors-old.Errors, now.Lost-old.Lost))
				if now.Requests != old.Requests+1 || now.Latency.Count != now.Requests {
					t.Errorf("%s: %d requests after %d, %d times", tt.path, now.Requests, old.Requests, now.Latency.Count)
				}
			}
		}
		if got := strings.Join(changed, "; "); got != tt.want {
			t.Errorf("%s %s: %s, want %s", tt.method, tt.path, got, tt.want)
		}
	}
	if n := count.Stats().Waiting; n != 0 {
		t.Errorf("%d requests are waiting", n)
	}
}
