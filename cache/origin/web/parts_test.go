package web_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/cache/origin/web"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/listing"
	"github.com/xetfs/xetfs/codec/names"
)

// A partedFolder is a store on a web server, with a listing in parts.
type partedFolder struct {
	root, address string

	mu       sync.Mutex
	requests []string                                               // paths since the last take
	fault    func(w http.ResponseWriter, path string, nth int) bool // answers a request; nil: none
}

func newPartedFolder(t *testing.T) *partedFolder {
	t.Helper()
	f := &partedFolder{root: newFolder(t, func(s *dir.Store) { fill(t, s) })}
	f.split(t)
	files := http.FileServer(http.Dir(f.root))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		f.requests = append(f.requests, r.URL.Path)
		nth, fault := len(f.requests), f.fault
		f.mu.Unlock()
		if fault == nil || !fault(w, r.URL.Path, nth) {
			files.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	f.address = server.URL
	return f
}

// split divides the listing of the store into parts.
func (f *partedFolder) split(t *testing.T) {
	t.Helper()
	s, err := dir.Open(f.root)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	b := listing.NewBuilder(listing.Prefixes(), 0)
	for o, err := range origin.ListPrefixes(t.Context(), s, listing.Prefixes()) {
		if err != nil {
			t.Fatal(err)
		}
		b.Add(o)
	}
	text, err := b.EncodeParts(func(p listing.Part, lines []byte) error {
		path := filepath.Join(f.root, string(p.Key()))
		return errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, lines, 0o600))
	})
	if err == nil {
		err = os.WriteFile(filepath.Join(f.root, string(listing.Key)), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// taken returns the number of requests for the listing and for parts since the last call.
func (f *partedFolder) taken() (listings, parts int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, path := range f.requests {
		if strings.HasPrefix(path, "/"+listing.PartsFolder) {
			parts++
		} else {
			listings++
		}
	}
	f.requests = nil
	return listings, parts
}

func (f *partedFolder) setFault(fault func(w http.ResponseWriter, path string, nth int) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests, f.fault = nil, fault
}

func keysBelow(t *testing.T, s origin.Store, prefix string) (keys []names.Key, err error) {
	t.Helper()
	for item, err := range s.List(t.Context(), prefix, "") {
		if err != nil {
			return keys, err
		}
		keys = append(keys, item.Key)
	}
	return keys, nil
}

// A listing in parts costs one request for each part that is needed and new.
func TestListParts(t *testing.T) {
	f := newPartedFolder(t)
	folder, err := dir.OpenReadOnly(f.root)
	if err != nil {
		t.Fatal(err)
	}
	origintest.Close(t, folder)
	s := open(t, f.address, web.Options{})
	compare := func(prefix string, wantParts int) {
		t.Helper()
		got, err := keysBelow(t, s, prefix)
		if err != nil {
			t.Fatal(err)
		}
		want, err := keysBelow(t, folder, prefix)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q, %v", prefix, got, want, err)
		}
		if listings, parts := f.taken(); listings != 1 || parts != wantParts {
			t.Errorf("%s: %d requests for the listing and %d for parts, want %d", prefix, listings, parts, wantParts)
		}
	}
	shards, err := keysBelow(t, folder, names.ShardPrefix)
	if err != nil {
		t.Fatal(err)
	}
	compare(names.SymbolPrefix, 0)
	compare(names.ShardPrefix, len(shards)) // of different folders
	compare(names.ShardPrefix, 0)

	added := names.ShardKey(codec.Hash{names.FolderByte: 0xa5})
	path := filepath.Join(f.root, string(added))
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("shard"), 0o600)); err != nil {
		t.Fatal(err)
	}
	f.split(t)
	compare(names.ShardPrefix, 1)
}

// A part that a writer has removed makes a reader read the listing again. Damage on the way is
// mended by another request.
func TestListPartsFaults(t *testing.T) {
	f := newPartedFolder(t)
	isPart := func(path string) bool { return strings.HasPrefix(path, "/"+listing.PartsFolder) }
	damage := func(w http.ResponseWriter) bool {
		_, err := w.Write([]byte("damage"))
		return err == nil
	}
	gone := func(w http.ResponseWriter) bool {
		http.NotFound(w, nil)
		return true
	}
	for _, tt := range []struct {
		name  string
		fault func(w http.ResponseWriter, path string, nth int) bool
		want  string // of the error
	}{
		{"one part is gone", func(w http.ResponseWriter, path string, nth int) bool { return nth == 2 && gone(w) }, ""},
		{"one part is damaged", func(w http.ResponseWriter, path string, nth int) bool { return nth == 2 && damage(w) }, ""},
		{"all parts are gone", func(w http.ResponseWriter, path string, _ int) bool { return isPart(path) && gone(w) }, "a part is absent"},
		{"all parts are damaged", func(w http.ResponseWriter, path string, _ int) bool { return isPart(path) && damage(w) }, "6 bytes with checksum"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f.setFault(tt.fault)
			keys, err := keysBelow(t, open(t, f.address, web.Options{}), names.ShardPrefix)
			if tt.want == "" && (err != nil || len(keys) == 0) {
				t.Errorf("keys = %v, %v", keys, err)
			}
			if tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "xetfs.list")) {
				t.Errorf("error = %v, want one with %q", err, tt.want)
			}
			if n, _ := f.taken(); n > 10 {
				t.Errorf("%d requests for the listing", n)
			}
		})
	}
}

// A statusRecorder adds the statuses of answers to a list.
type statusRecorder struct {
	http.ResponseWriter
	statuses *[]int
}

func (w statusRecorder) WriteHeader(status int) {
	*w.statuses = append(*w.statuses, status)
	w.ResponseWriter.WriteHeader(status)
}

// A listing that was read just after its change is sent once more, and then only after a change.
func TestListJustWritten(t *testing.T) {
	root := newFolder(t, func(s *dir.Store) { fill(t, s) })
	setTime := func(modified time.Time) {
		path := filepath.Join(root, string(listing.Key))
		if err := os.Chtimes(path, modified, modified); err != nil {
			t.Fatal(err)
		}
	}
	setTime(time.Now().Add(time.Hour)) // just now, however slow the test is
	var statuses []int
	files := http.FileServer(http.Dir(root))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		files.ServeHTTP(statusRecorder{w, &statuses}, r)
	}))
	defer server.Close()
	s := open(t, server.URL, web.Options{})
	for i := range 4 {
		if _, err := keysBelow(t, s, names.RefPrefix); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			setTime(time.Now().Add(-time.Hour))
		}
	}
	if want := []int{200, 200, 304, 304}; !slices.Equal(statuses, want) {
		t.Errorf("statuses of the listing are %v, want %v", statuses, want)
	}
}
