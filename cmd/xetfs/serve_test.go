package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
)

// newPlain serves a store that holds one xorb of ten bytes, a settings document, and what
// must not be given out.
func newPlain(t *testing.T) (root string, count *servedCount, server *httptest.Server) {
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
	count = new(servedCount)
	server = httptest.NewServer(count.handler(&plainHandler{store: store}))
	t.Cleanup(func() {
		server.Close()
		store.Close()
	})
	return root, count, server
}

func TestServePlain(t *testing.T) {
	root, count, server := newPlain(t)
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
		{"S03 a document that is a link to what is no document", "GET", "/" + string(names.RefKey("inside")), "", 404, "", ""},
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
			status, header, body := askPlain(t, server.URL, tt.method, tt.path, tt.header)
			if status != tt.status || tt.status < 300 && body != tt.body || strings.Contains(body, "secret") {
				t.Errorf("status %d, %q, want %d, %q", status, body, tt.status, tt.body)
			}
			if name, value, ok := strings.Cut(tt.answered, ": "); ok && header.Get(name) != value {
				t.Errorf("%s: %s, want %s", name, header.Get(name), value)
			}
		})
	}
	for _, path := range []string{xorb, "/" + string(names.SettingsKey()), "/xetfs.list"} {
		_, header, _ := askPlain(t, server.URL, "GET", path, "")
		status, _, body := askPlain(t, server.URL, "GET", path, "If-None-Match: "+header.Get("ETag"))
		if status != http.StatusNotModified || body != "" {
			t.Errorf("%s, not changed: status %d, %q", path, status, body)
		}
	}
	if got := count.stats(); got.DataRequests == 0 || got.DataBytes == 0 || got.Requests <= got.DataRequests || got.Waiting != 0 {
		t.Errorf("counted: %v", got)
	}
}

// What was put in the place of a damaged object is given out, and not the other under its tag.
func TestServeReplaced(t *testing.T) {
	root, _, server := newPlain(t)
	xorb := "/" + string(names.XorbKey(codec.Hash{1}))
	_, before, _ := askPlain(t, server.URL, "GET", xorb, "")
	if err := os.WriteFile(filepath.Join(root, "new"), []byte("abcdefghijk"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(root, "new"), filepath.Join(root, xorb)); err != nil {
		t.Fatal(err)
	}
	_, after, body := askPlain(t, server.URL, "GET", xorb, "If-Range: "+before.Get("ETag")+"\nRange: bytes=2-4")
	if body != "abcdefghijk" || after.Get("ETag") == before.Get("ETag") {
		t.Errorf("%q with tag %s, which was %s", body, after.Get("ETag"), before.Get("ETag"))
	}
}

// askPlain asks as it stands: nobody cleans the path.
func askPlain(t *testing.T, base, method, path, header string) (int, http.Header, string) {
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

// A server that is asked to end lets answers finish that are under way, and waits for
// nobody who hangs.
func TestServeEnds(t *testing.T) {
	for _, takes := range []time.Duration{200 * time.Millisecond, time.Hour} {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "localhost:0")
		if err != nil {
			t.Fatal(err)
		}
		begun := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- serveUntil(ctx, bound(l), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				close(begun)
				select {
				case <-time.After(takes):
					io.WriteString(w, "done") //nolint:errcheck // the client says it
				case <-r.Context().Done():
				}
			}))
		}()
		said := make(chan string, 1)
		go func() {
			defer close(said)
			if answer, err := http.Get("http://" + l.Addr().String()); err == nil {
				b, _ := io.ReadAll(answer.Body)
				answer.Body.Close()
				said <- string(b)
			}
		}()
		<-begun
		start := time.Now()
		cancel()
		if err := <-ended; err != nil || time.Since(start) > 3*serveGrace {
			t.Errorf("it ended after %v: %v", time.Since(start), err)
		}
		if got := <-said; (got == "done") != (takes < serveGrace) {
			t.Errorf("who waited for %v got %q", takes, got)
		}
	}
}

// Clients that have their answers and stay do not keep out others.
func TestServeIdle(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- serveUntil(ctx, bound(l), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "done") //nolint:errcheck // the client says it
		}))
	}()
	for i := range serveConns + 10 {
		idle := &http.Client{Transport: &http.Transport{}, Timeout: 10 * time.Second}
		defer idle.CloseIdleConnections()
		answer, err := idle.Get("http://" + l.Addr().String())
		if err != nil {
			t.Fatalf("client %d: %v", i, err)
		}
		if _, err := io.ReadAll(answer.Body); err != nil {
			t.Fatalf("client %d: %v", i, err)
		}
		answer.Body.Close()
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
