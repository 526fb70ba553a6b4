package web_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/cache/origin/web"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/listing"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
)

// serveFolder serves a store with a xorb of ten bytes, a settings document, and files that are
// no objects. It returns the folder and the address.
func serveFolder(t *testing.T) (root, address string) {
	t.Helper()
	root = t.TempDir()
	s, err := dir.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	for k, value := range map[names.Key]string{
		names.XorbKey(codec.Hash{1}): "0123456789",
		names.SettingsKey():          "settings",
	} {
		if err := origintest.Replace(s, k, []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "secret"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for k, target := range map[names.Key]string{
		names.XorbKey(codec.Hash{2}): outside,
		names.RefKey("outside"):      outside,
		names.RefKey("inside"):       "../secret",
	} {
		link := filepath.Join(root, string(k))
		if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
	}
	store, err := dir.OpenReadOnly(root)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(web.NewHandler(store, web.HandlerOptions{}))
	t.Cleanup(func() {
		server.Close()
		store.Close()
	})
	return root, server.URL
}

func TestHandler(t *testing.T) {
	root, address := serveFolder(t)
	xorb := "/" + string(names.XorbKey(codec.Hash{1}))
	tests := []struct {
		name           string
		method, path   string
		header         string // name: value
		status         int
		body, answered string // of the answer: its body, and a header
	}{
		{"whole", "GET", xorb, "", 200, "0123456789", "Accept-Ranges: bytes"},
		{"its size", "HEAD", xorb, "", 200, "", "Content-Length: 10"},
		{"a part", "GET", xorb, "Range: bytes=2-4", 206, "234", "Content-Range: bytes 2-4/10"},
		{"the end", "GET", xorb, "Range: bytes=-3", 206, "789", "Content-Range: bytes 7-9/10"},
		{"more than the end", "GET", xorb, "Range: bytes=-30", 206, "0123456789", "Content-Range: bytes 0-9/10"},
		{"behind the end", "GET", xorb, "Range: bytes=10-20", 416, "", "Content-Range: bytes */10"},
		{"of another content", "GET", xorb, "If-Range: \"other\"\nRange: bytes=2-4", 200, "0123456789", ""},
		{"no range", "GET", xorb, "Range: lines=1-2", 416, "", ""},
		{"absent", "GET", "/" + string(names.XorbKey(codec.Hash{3})), "", 404, "", ""},
		{"S03 a link that leads out", "GET", "/" + string(names.XorbKey(codec.Hash{2})), "", 404, "", ""},
		{"S03 a document that is a link that leads out", "GET", "/" + string(names.RefKey("outside")), "", 404, "", ""},
		{"S03 a document that is a link to another file", "GET", "/" + string(names.RefKey("inside")), "", 404, "", ""},
		{"no key", "GET", "/secret", "", 404, "", ""},
		{"S01 upwards", "GET", "/tdata/../secret", "", 404, "", ""},
		{"S01 upwards, escaped", "GET", "/tdata/%2e%2e/secret", "", 404, "", ""},
		{"S01 absolute", "GET", "/" + strings.ReplaceAll(root, "/", "%2f") + "/secret", "", 404, "", ""},
		{"a folder", "GET", "/tdata/", "", 404, "", ""},
		{"the top", "GET", "/", "", 404, "", ""},
		{"zero byte", "GET", "/tdata/%00", "", 404, "", ""},
		{"another method", "PUT", xorb, "", 405, "", "Allow: GET, HEAD"},
		{"a document", "GET", "/" + string(names.SettingsKey()), "", 200, "settings", "Cache-Control: no-cache"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, header, body := request(t, address, tt.method, tt.path, tt.header)
			if status != tt.status || tt.status < 300 && body != tt.body || strings.Contains(body, "secret") {
				t.Errorf("status %d, %q, want %d, %q", status, body, tt.status, tt.body)
			}
			if name, value, ok := strings.Cut(tt.answered, ": "); ok && header.Get(name) != value {
				t.Errorf("%s: %s, want %s", name, header.Get(name), value)
			}
		})
	}
	for _, path := range []string{xorb, "/" + string(names.SettingsKey()), "/xetfs.list"} {
		_, header, _ := request(t, address, "GET", path, "")
		status, _, body := request(t, address, "GET", path, "If-None-Match: "+header.Get("ETag"))
		if status != http.StatusNotModified || body != "" {
			t.Errorf("%s, not changed: status %d, %q", path, status, body)
		}
	}
}

// A shared cache may store an answer of a public server, and none that needed a token.
func TestHandlerCaching(t *testing.T) {
	xorb, leaf, settings := names.XorbKey(codec.Hash{1}), names.PageKey(page.Hash{1}), names.SettingsKey()
	store := origintest.Memory()
	for _, k := range []names.Key{xorb, leaf, settings} {
		if err := origintest.Replace(store, k, []byte("value")); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		o    web.HandlerOptions
		key  names.Key
		want string
	}{
		{web.HandlerOptions{}, xorb, "public, max-age=31536000, immutable"},
		{web.HandlerOptions{}, leaf, "public, max-age=31536000, immutable"},
		{web.HandlerOptions{}, settings, "no-cache"},
		{web.HandlerOptions{Private: true}, xorb, "private, max-age=31536000, immutable"},
		{web.HandlerOptions{Private: true}, leaf, "private, max-age=31536000, immutable"},
		{web.HandlerOptions{Private: true}, settings, "no-cache"},
	}
	for _, tt := range tests {
		answer := httptest.NewRecorder()
		web.NewHandler(store, tt.o).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/"+string(tt.key), nil))
		if got := answer.Header().Get("Cache-Control"); answer.Code != http.StatusOK || got != tt.want {
			t.Errorf("%s with %+v: status %d, Cache-Control: %s, want %s", tt.key, tt.o, answer.Code, got, tt.want)
		}
	}
}

// errStore is a store whose objects cannot be read.
type errStore struct {
	origin.Store
	err error
}

func (s errStore) Item(context.Context, names.Key) (origin.Item, error) {
	return origin.Item{}, s.err
}

func (s errStore) List(context.Context, string, names.Key) iter.Seq2[origin.Item, error] {
	return func(yield func(origin.Item, error) bool) { yield(origin.Item{}, s.err) }
}

// An error of the store becomes a status without its text. The state of a sweep is private.
func TestHandlerErrors(t *testing.T) {
	tests := []struct {
		path   string
		err    error
		status int
	}{
		{string(names.XorbKey(codec.Hash{1})), fmt.Errorf("secret: %w", origin.ErrUnavailable), http.StatusServiceUnavailable},
		{string(names.XorbKey(codec.Hash{1})), fmt.Errorf("secret: %w", origin.ErrNotFound), http.StatusNotFound},
		{string(names.XorbKey(codec.Hash{1})), errors.New("secret"), http.StatusInternalServerError},
		{string(names.SettingsKey()), fmt.Errorf("secret: %w", origin.ErrUnavailable), http.StatusServiceUnavailable},
		{string(listing.Key), fmt.Errorf("secret: %w", origin.ErrUnavailable), http.StatusServiceUnavailable},
		{string(names.SweepKey()), nil, http.StatusNotFound},
	}
	for _, tt := range tests {
		answer := httptest.NewRecorder()
		web.NewHandler(errStore{err: tt.err}, web.HandlerOptions{}).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/"+tt.path, nil))
		if answer.Code != tt.status || strings.Contains(answer.Body.String(), "secret") {
			t.Errorf("%s, %v: status %d, %q, want %d", tt.path, tt.err, answer.Code, answer.Body, tt.status)
		}
	}
}

// A replaced object is served whole under its new tag, also to a client with the old tag.
func TestHandlerReplaced(t *testing.T) {
	root, address := serveFolder(t)
	xorb := "/" + string(names.XorbKey(codec.Hash{1}))
	_, before, _ := request(t, address, "GET", xorb, "")
	if err := os.WriteFile(filepath.Join(root, "new"), []byte("abcdefghijk"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(root, "new"), filepath.Join(root, xorb)); err != nil {
		t.Fatal(err)
	}
	_, after, body := request(t, address, "GET", xorb, "If-Range: "+before.Get("ETag")+"\nRange: bytes=2-4")
	if body != "abcdefghijk" || after.Get("ETag") == before.Get("ETag") {
		t.Errorf("%q with tag %s, which was %s", body, after.Get("ETag"), before.Get("ETag"))
	}
}

// request sends a request with the unchanged path, without cleaning it.
func request(t *testing.T, base, method, path, header string) (int, http.Header, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, base+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(header, "\n") {
		if name, value, ok := strings.Cut(line, ": "); ok {
			r.Header.Set(name, value)
		}
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, answer.Header, string(b)
}

// A blockedStore is a remote store. Its reads block until the client disconnects.
type blockedStore struct {
	origin.Store
	reading chan struct{}
	sizes   int // calls of Size
}

func (s *blockedStore) Size(context.Context, names.Key) (int64, error) {
	s.sizes++
	return 1000, nil
}

func (s *blockedStore) ReadAt(ctx context.Context, _ names.Key, _ []byte, _ int64) error {
	close(s.reading)
	<-ctx.Done()
	return ctx.Err()
}

// http.ServeContent returns while its goroutine reads a part of several ranges. The answer waits
// for this read, and forgets the size of the object because the read fails.
func TestHandlerMultiRangeDisconnect(t *testing.T) {
	s := &blockedStore{reading: make(chan struct{})}
	h := web.NewHandler(s, web.HandlerOptions{})
	target := "/" + string(names.XorbKey(codec.Hash{1}))
	ctx, cancel := context.WithCancel(t.Context())
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	r.Header.Set("Range", "bytes=0-9,500-509")
	h.ServeHTTP(&origintest.Disconnecting{ResponseRecorder: httptest.NewRecorder(), Reading: s.reading, Disconnect: cancel}, r)
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodHead, target, nil))
	if s.sizes != 2 {
		t.Errorf("%d requests for the size, want 2", s.sizes)
	}
}
