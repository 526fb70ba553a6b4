package web_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/cache/origin/web"
	"github.com/xetfs/xetfs/codec/names"
)

// mirrored serves an object of a remote store, whose server fail may interrupt. It returns the
// address, and the server of the remote store.
func mirrored(t *testing.T, content []byte, fail func(http.Handler) http.Handler) (address string, upstream *origintest.Web) {
	t.Helper()
	s := origintest.Memory()
	if err := origintest.Replace(s, xorbKey, content); err != nil {
		t.Fatal(err)
	}
	upstream = origintest.ServeWeb(t, s, fail)
	server := httptest.NewServer(web.NewHandler(open(t, upstream.URL, web.Options{}), web.HandlerOptions{}))
	t.Cleanup(server.Close)
	return server.URL, upstream
}

// A server of a remote store requests the same ranges from it, in pieces of bounded length.
func TestMirrorRanges(t *testing.T) {
	content := origintest.Random(1, 5<<18)
	tests := []struct {
		name, header string
		want         []byte
		ranges       []string // requested from the remote store
	}{
		{"small range", "Range: bytes=100-199", content[100:200], []string{"bytes=100-199"}},
		{"the end", "Range: bytes=-10", content[len(content)-10:], []string{"bytes=1310710-1310719"}},
		{"two pieces", "Range: bytes=1-600000", content[1:600001], []string{"bytes=1-524288", "bytes=524289-600000"}},
		{"whole", "", content, []string{"bytes=0-524287", "bytes=524288-1048575", "bytes=1048576-1310719"}},
		{"unchanged", "If-None-Match: *", nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			address, upstream := mirrored(t, content, nil)
			_, _, body := request(t, address, "GET", "/"+string(xorbKey), tt.header)
			if !bytes.Equal([]byte(body), tt.want) {
				t.Errorf("%d bytes, want %d", len(body), len(tt.want))
			}
			var ranges []string
			for _, r := range upstream.Requests() {
				if r.Method == http.MethodGet {
					ranges = append(ranges, r.Range)
				}
			}
			if !slices.Equal(ranges, tt.ranges) {
				t.Errorf("ranges %q, want %q", ranges, tt.ranges)
			}
		})
	}
}

// A fault of the remote store is a status, or else a connection that ends early. It is never a
// short answer.
func TestMirrorFaults(t *testing.T) {
	content := origintest.Random(1, 5<<18)
	for status, want := range map[int]int{500: 503, 503: 503, 401: 502, 403: 502, 404: 404} {
		address, _ := mirrored(t, content, func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		})
		for _, k := range []names.Key{xorbKey, refKey} {
			if got, _, _ := request(t, address, "GET", "/"+string(k), ""); got != want {
				t.Errorf("%s, status %d: %d, want %d", k, status, got, want)
			}
		}
	}
	for _, after := range []int64{1, 2} {
		var gets atomic.Int64
		address, _ := mirrored(t, content, func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet && gets.Add(1) >= after {
					w.WriteHeader(http.StatusInternalServerError)
					return
				}
				h.ServeHTTP(w, r)
			})
		})
		resp, err := http.Get(fmt.Sprintf("%s/%s", address, xorbKey))
		if err != nil {
			continue // the connection ended before the headers
		}
		defer resp.Body.Close()
		if b, err := io.ReadAll(resp.Body); err == nil {
			t.Errorf("failure of request %d: %d bytes with status %d and no error", after, len(b), resp.StatusCode)
		}
	}
}

// A server of a remote store requests the size of an object once, and again after a failed read.
func TestMirrorSizes(t *testing.T) {
	memory := origintest.Memory()
	if _, err := memory.PutIfAbsent(t.Context(), xorbKey, origintest.Random(1, 5<<18)); err != nil {
		t.Fatal(err)
	}
	store := origintest.Watch(memory)
	server := httptest.NewServer(web.NewHandler(store, web.HandlerOptions{}))
	defer server.Close()
	get := func() (status int, err error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/"+string(xorbKey), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Range", "bytes=100-199")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		_, err = io.ReadAll(resp.Body)
		return resp.StatusCode, err
	}
	for range 5 {
		if status, err := get(); status != http.StatusPartialContent || err != nil {
			t.Errorf("status %d, %v", status, err)
		}
	}
	sizes := 0
	for _, c := range store.Calls() {
		if c.Op == "Size" {
			sizes++
		}
	}
	if sizes != 1 {
		t.Errorf("%d requests for the size, want 1", sizes)
	}
	if err := memory.Delete(t.Context(), xorbKey); err != nil {
		t.Fatal(err)
	}
	if _, err := get(); err == nil {
		t.Error("a deleted object is sent")
	}
	if status, err := get(); status != http.StatusNotFound || err != nil {
		t.Errorf("status %d, %v, want 404", status, err)
	}
}
