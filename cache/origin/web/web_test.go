package web_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cache/origin/faulty"
	"github.com/xetfs/xetfs/cache/origin/fetch"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/cache/origin/web"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens the store at an address until the end of the test. By default it never retries.
func open(t testing.TB, address string, o web.Options) *web.Store {
	t.Helper()
	if o.Attempts == 0 {
		o.Attempts = 1
	}
	s, err := web.Open(address, o)
	if err != nil {
		t.Fatal(err)
	}
	origintest.Close(t, s)
	return s
}

// filled returns a store with the samples.
func filled(t testing.TB) origin.WriteStore {
	t.Helper()
	s := origintest.Memory()
	fill(t, s)
	return s
}

func fill(t testing.TB, s origin.WriteStore) {
	t.Helper()
	for k, value := range origintest.Samples(t) {
		if err := origintest.Replace(s, k, value); err != nil {
			t.Fatal(err)
		}
	}
}

// fileServer serves a folder as a plain web server does, and returns its address.
func fileServer(t testing.TB, root string) string {
	server := httptest.NewServer(http.FileServer(http.Dir(root)))
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	return server.URL
}

// newFolder creates a store in a folder, with its listing.
func newFolder(t testing.TB, fill func(s *dir.Store)) (root string) {
	t.Helper()
	root = t.TempDir()
	s, err := dir.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	fill(s)
	if _, err := s.WriteListing(t.Context(), nil, dir.ListedState{}); err != nil {
		t.Fatal(err)
	}
	return root
}

func TestStore(t *testing.T) {
	root := newFolder(t, func(s *dir.Store) { fill(t, s) })
	for _, tt := range []struct {
		name    string
		address func(t *testing.T) string
	}{
		{"our server", func(t *testing.T) string { return origintest.ServeWeb(t, filled(t), nil).URL }},
		{"files", func(t *testing.T) string { return fileServer(t, root) }},
		{"files below a path", func(t *testing.T) string {
			return fileServer(t, filepath.Dir(root)) + "/" + filepath.Base(root) + "/"
		}},
		{"nginx", func(t *testing.T) string { return nginx(t, root) }},
		{"HTTP/1.0", func(t *testing.T) string {
			return origintest.ServeWeb(t, filled(t), func(h http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Connection", "close")
					h.ServeHTTP(w, r)
				})
			}).URL
		}},
		{"no HEAD", func(t *testing.T) string {
			return origintest.ServeWeb(t, filled(t), func(h http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Method != http.MethodGet {
						http.Error(w, "no", http.StatusMethodNotAllowed)
						return
					}
					h.ServeHTTP(w, r)
				})
			}).URL
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			origintest.TestStore(t, func(t *testing.T) origin.Store { return open(t, tt.address(t), web.Options{}) })
		})
	}
}

func TestSource(t *testing.T) {
	suite := origintest.SourceSuite{Local: isLocal, Open: func(t *testing.T, s origin.Store) origin.Source {
		return objects.New(open(t, origintest.ServeWeb(t, s, nil).URL, web.Options{}), objects.Options{})
	}}
	suite.Run(t)
}

func isLocal(origin.Store) bool { return false }

// Behind a bad server everything holds as well, with retries.
func TestSourceOfBadServer(t *testing.T) {
	bad := faulty.Options{Fail: 0.05, Truncate: 0.05, Seed: 1} // six in a row are one in a million
	suite := origintest.SourceSuite{Local: isLocal, Open: func(t *testing.T, s origin.Store) origin.Source {
		s = origintest.CopyOf(t, s) // repeated requests do not count
		w := origintest.ServeWeb(t, s, func(h http.Handler) http.Handler { return faulty.Handler(h, bad) })
		return objects.New(open(t, w.URL, web.Options{Options: fetch.Options{Attempts: 6, Pause: time.Millisecond}}), objects.Options{})
	}}
	suite.Run(t)
}

func TestOpen(t *testing.T) {
	tests := []struct {
		address string
		reason  string // empty: it is good
	}{
		{"http://localhost", ""},
		{"https://example.org/a/b%20c/", ""},
		{"http://[::1]:8080/x", ""},
		{"ftp://example.org/", "not http"},
		{"/a/folder", "not http"},
		{"http://", "names no host"},
		{"http://:80/", "names no host"},
		{"http://localhost:65536/", "port"},
		{"http://localhost:/", ""},
		{"https://user:secret@example.org/", "a password"},
		{"https://example.org/?token=secret", "has a query or a fragment"},
		{"https://example.org/#secret", "has a query or a fragment"},
		{"http://secret:pass word@exa mple/", "no address"},
	}
	for _, tt := range tests {
		s, err := web.Open(tt.address, web.Options{})
		if (err == nil) != (tt.reason == "") || err != nil && !strings.Contains(err.Error(), tt.reason) {
			t.Errorf("Open(%q) = %v, want %q", tt.address, err, tt.reason)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("Open(%q) tells a secret: %v", tt.address, err)
		}
		if s != nil && origin.Local(s) {
			t.Errorf("%s is near", tt.address)
		}
	}
}

// Keys have "*" and "!", and symbols anything.
func TestEscaping(t *testing.T) {
	var keys []names.Key
	root := newFolder(t, func(s *dir.Store) {
		for i, symbol := range []string{"a", "org/model", "ümlaut ☃", "a+b&c=d?e#f%g", "100%", "x!2Fy", "a*b", `q"\'`, "~;:@,$()"} {
			for _, k := range []names.Key{
				names.RefKey(symbol), names.SymbolKey(names.Symbol{Name: symbol, Seq: 1, Time: time.Unix(1, 0)}),
				names.Parsed{Kind: names.VersionKind, Symbol: symbol, Version: 3, Time: time.Unix(1, 0), Seq: 4}.Key(),
			} {
				if err := origintest.Replace(s, k, fmt.Append(nil, i, k)); err != nil {
					t.Fatal(err)
				}
				keys = append(keys, k)
			}
		}
	})
	for name, address := range map[string]func(*testing.T) string{
		"files": func(t *testing.T) string { return fileServer(t, root) },
		"nginx": func(t *testing.T) string { return nginx(t, root) },
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, address(t), web.Options{})
			for _, k := range keys {
				b, _, err := s.Get(t.Context(), k, "")
				if err != nil || !strings.HasSuffix(string(b), string(k)) {
					t.Errorf("Get(%s) = %q, %v", k, b, err)
				}
				if n, err := s.Size(t.Context(), k); err != nil || n != int64(len(b)) {
					t.Errorf("Size(%s) = %d, %v", k, n, err)
				}
			}
		})
	}
}

// A text that is no key causes no request.
func TestOnlyKeys(t *testing.T) {
	w := origintest.ServeWeb(t, filled(t), nil)
	s := open(t, w.URL, web.Options{})
	for _, k := range []names.Key{"", "x", "tdata", "../etc/passwd", "tdata/../x", "vref/*sUt*%2e%2e", "http://example.org/", "vref/*sUt*a?b"} {
		if _, err := s.Size(t.Context(), k); !errors.Is(err, origin.ErrNotFound) {
			t.Errorf("Size(%q) = %v", k, err)
		}
	}
	if requested := w.Requests(); len(requested) != 0 {
		t.Errorf("asked: %v", requested)
	}
}

// The listing has the paths of objects elsewhere, for any first reader.
func TestElsewhere(t *testing.T) {
	root := t.TempDir()
	samples := origintest.Samples(t)
	other, err := dir.Open(filepath.Join(root, "some where"))
	if err != nil {
		t.Fatal(err)
	}
	fill(t, other)
	other.Close()
	found, err := dir.OpenBare(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	s, err := dir.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.WriteListing(t.Context(), found, dir.ListedState{}); err != nil {
		t.Fatal(err)
	}
	found.Close()
	s.Close()
	for _, listFirst := range []bool{false, true} {
		s := open(t, fileServer(t, root), web.Options{})
		if listFirst {
			for range s.List(t.Context(), names.ShardPrefix, "") {
				break
			}
		}
		for k, value := range samples {
			p := make([]byte, len(value))
			if err := s.ReadAt(t.Context(), k, p, 0); err != nil || string(p) != string(value) {
				t.Errorf("ReadAt(%s): %v", k, err)
			}
		}
		if _, err := s.Size(t.Context(), names.XorbKey(codec.Hash{7})); !errors.Is(err, origin.ErrNotFound) {
			t.Errorf("Size of nothing = %v", err)
		}
	}
}

func TestList(t *testing.T) {
	store := filled(t)
	w := origintest.ServeWeb(t, store, nil)
	s := open(t, w.URL, web.Options{})
	list := func(prefix string) (keys []names.Key, err error) {
		for item, err := range s.List(t.Context(), prefix, "") {
			if err != nil {
				return keys, err
			}
			keys = append(keys, item.Key)
		}
		return keys, nil
	}
	before, err := list(names.XorbPrefix)
	if err != nil || len(before) != 3 {
		t.Errorf("List = %v, %v", before, err)
	}
	k := names.XorbKey(codec.Hash{1})
	if err := origintest.Replace(store, k, []byte("x")); err != nil {
		t.Fatal(err)
	}
	after, err := list(names.XorbPrefix)
	if err != nil || !slices.Contains(after, k) {
		t.Errorf("List after a change = %v, %v", after, err)
	}
	w.Requests()
	if _, err := list(names.ShardPrefix); err != nil {
		t.Error(err)
	}
	if requested := w.Requests(); len(requested) != 1 || requested[0].Status != http.StatusNotModified {
		t.Errorf("List without a change asked %+v", requested)
	}
	if _, err := list(names.PagePrefix); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("List of what is not listed = %v", err)
	}
	nothing := open(t, fileServer(t, t.TempDir()), web.Options{})
	for _, err := range nothing.List(t.Context(), names.ShardPrefix, "") {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("List without a listing = %v", err)
		}
	}
}

// Many small reads go over few connections. One that is busy for long with something else
// may be given up, as net/http does.
func TestConnections(t *testing.T) {
	const most = 4
	var mu sync.Mutex
	conns := map[string]bool{}
	w := origintest.ServeWeb(t, filled(t), func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			conns[r.RemoteAddr] = true
			mu.Unlock()
			h.ServeHTTP(w, r)
		})
	})
	s := open(t, w.URL, web.Options{Options: fetch.Options{Conns: most}})
	keys := slices.Sorted(func(yield func(names.Key) bool) {
		for k := range origintest.Samples(t) {
			if !yield(k) {
				return
			}
		}
	})
	var readers sync.WaitGroup
	for i := range 16 {
		readers.Go(func() {
			for j := range 20 {
				k := keys[(i+j)%len(keys)]
				if err := s.ReadAt(t.Context(), k, make([]byte, 100), int64(j)); err != nil {
					t.Error(err)
				}
				if _, err := s.ReadPart(t.Context(), k, origin.Tail, 50); err != nil {
					t.Error(err)
				}
				if _, err := s.Size(t.Context(), k); err != nil {
					t.Error(err)
				}
			}
		})
	}
	readers.Wait()
	if len(conns) > 3*most {
		t.Errorf("%d connections, want %d or few more", len(conns), most)
	}
}

// A canceled reader returns at once, in every phase of the request.
func TestLeaves(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"no answer": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"in the body": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Range", "bytes 0-99/1000")
			w.Header().Set("Content-Length", "100")
			w.WriteHeader(http.StatusPartialContent)
			w.Write([]byte("x"))
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(h)
			defer server.Close()
			s := open(t, server.URL, web.Options{})
			for want, limit := range map[error]func() (context.Context, context.CancelFunc){
				context.Canceled: func() (context.Context, context.CancelFunc) {
					ctx, cancel := context.WithCancel(t.Context())
					time.AfterFunc(20*time.Millisecond, cancel)
					return ctx, cancel
				},
				context.DeadlineExceeded: func() (context.Context, context.CancelFunc) {
					return context.WithTimeout(t.Context(), 20*time.Millisecond)
				},
			} {
				ctx, cancel := limit()
				start := time.Now()
				err := s.ReadAt(ctx, names.XorbKey(codec.Hash{1}), make([]byte, 100), 0)
				if took := time.Since(start); !errors.Is(err, want) || errors.Is(err, origin.ErrUnavailable) || took > time.Minute {
					t.Errorf("ReadAt = %v after %v, want %v", err, took, want)
				}
				cancel()
			}
		})
	}
}
