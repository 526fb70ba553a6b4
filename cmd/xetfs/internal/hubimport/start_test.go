package hubimport

import (
	"context"
	"errors"
	iofs "io/fs"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/hub/hubtest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/codectest"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog"
)

// failListings makes the server refuse whole listings.
func failListings(f *fixture) {
	f.Lock()
	defer f.Unlock()
	f.Answer = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("recursive") != "true" {
			return false
		}
		http.Error(w, "busy", http.StatusServiceUnavailable)
		return true
	}
}

// names lists one directory.
func namesIn(t *testing.T, tree catalog.Tree, dir, after string) (found []string) {
	t.Helper()
	for e, err := range tree.List(t.Context(), dir, after) {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, e.Path)
	}
	return found
}

// A mount shows folders before the listing is complete. Later it shows the imported tree, whose
// entries are the same.
func TestStartBeforeListing(t *testing.T) {
	f := newFixture(t)
	f.Commit("model/org/m", "main",
		hubtest.File{Path: "README.md", Content: []byte("text")},
		hubtest.File{Path: "a-b", Content: []byte("x")},
		hubtest.File{Path: "a/b/big", Content: []byte("large"), LFS: true},
		hubtest.File{Path: "a/model", Content: []byte("chunks"), Xet: xetHash},
		hubtest.File{Path: "a/nul\x00", Content: []byte("illegal")},
	)
	failListings(f)
	im := f.open(t, "hf://org/m")
	start := time.Now()
	if err := im.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := im.Catalog(im.catalog)
	tree, err := c.Open(t.Context(), im.symbol, names.AsOf{})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("mounted after %v", time.Since(start))
	row, err := c.Latest(t.Context(), im.symbol)
	if row != (names.Row{}) || row != tree.Version() || err != nil {
		t.Errorf("Latest = %+v, %v", row, err)
	}
	if got := namesIn(t, tree, "", ""); !slices.Equal(got, []string{"README.md", "a", "a-b"}) {
		t.Errorf("top: %q", got)
	}
	if got := namesIn(t, tree, "a", "b"); !slices.Equal(got, []string{"a/model"}) {
		t.Errorf("a, after b: %q", got)
	}
	early := lookup(t, tree, "a/b/big")
	if got, err := im.Locate(t.Context(), early.ID.File); err != nil || got.Path != "a/b/big" || got.SHA256 == nil {
		t.Errorf("Locate = %+v, %v", got, err)
	}
	for _, absent := range []string{"nothing", "nothing/x", "a/nul\x00", "README.md/x"} {
		if _, err := tree.Lookup(t.Context(), absent); !errors.Is(err, iofs.ErrNotExist) {
			t.Errorf("%q: %v", absent, err)
		}
	}
	if n := len(f.Requests("recursive=false")); n != 5 {
		t.Errorf("%d listings of folders: %q", n, f.Requests("recursive=false"))
	}
	for _, err := range tree.All(t.Context(), "") {
		if !errors.Is(err, origin.ErrUnavailable) {
			t.Errorf("All: %v", err)
		}
	}
	f.Lock()
	f.Answer = nil
	f.Unlock()
	for end := time.Now().Add(codectest.Patience); ; time.Sleep(10 * time.Millisecond) {
		if row, err := c.Latest(t.Context(), im.symbol); err == nil && !row.Root.IsZero() {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the import does not complete")
		}
	}
	if late := lookup(t, tree, "a/b/big"); !late.Equal(&early) {
		t.Errorf("before %+v, then %+v", early, late)
	}
	if got := namesIn(t, tree, "", ""); !slices.Equal(got, []string{"README.md", "a", "a-b"}) {
		t.Errorf("top: %q", got)
	}
	if _, err := im.Locate(t.Context(), early.ID.File); err != nil {
		t.Errorf("Locate: %v", err)
	}
	if n := strings.Count(f.log.String(), "event=import_failed"); n != 1 {
		t.Errorf("%d events", n)
	}
}

// A folder of many entries is read up to a limit, and once. It waits for the import.
func TestStartWithManyEntries(t *testing.T) {
	f := newFixture(t)
	many := make([]hubtest.File, pendingEntries+1)
	for i := range many {
		many[i].Path = strconv.Itoa(i)
	}
	f.Commit("model/org/m", "main", many...)
	f.PageSize = 20_000
	failListings(f)
	im := f.open(t, "hf://org/m")
	if err := im.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := im.pending.Load()
	if entries, err := p.list(t.Context(), ""); entries != nil || err != nil {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	requests := len(f.Requests("recursive=false"))
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(time.Millisecond, cancel)
	if _, err := p.Lookup(ctx, "0"); !errors.Is(err, context.Canceled) {
		t.Errorf("Lookup: %v", err)
	}
	var readers sync.WaitGroup
	readers.Go(func() {
		if got := namesIn(t, p, "", ""); !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("%d names", len(got))
		}
	})
	readers.Go(func() {
		if _, err := p.Lookup(t.Context(), "a"); err != nil {
			t.Error(err)
		}
	})
	f.Replace("model/org/m", "main", hubtest.File{Path: "a"}, hubtest.File{Path: "b"}) // the import takes less time
	f.Lock()
	f.Answer = nil
	f.Unlock()
	readers.Wait()
	if n := len(f.Requests("recursive=false")); n != requests {
		t.Errorf("%d requests, then %d", requests, n)
	}
}

// A short listing is complete when Start returns.
func TestStartAfterListing(t *testing.T) {
	f := newFixture(t)
	f.Commit("model/org/m", "main", hubtest.File{Path: "a"})
	im := f.open(t, "hf://org/m", func(o *Options) { o.Wait = time.Minute })
	if err := im.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if im.Catalog(im.catalog) != catalog.VersionedCatalog(im.catalog) {
		t.Error("the import is not complete")
	}
	requests := len(f.Requests(""))
	if err := im.Start(t.Context()); err != nil || len(f.Requests(""))-requests != 1 {
		t.Errorf("a second start: %v, %q", err, f.Requests(""))
	}
}

// A wrong listing is an error of Start if it is noticed in time.
func TestStartWithBadListing(t *testing.T) {
	f := newFixture(t)
	f.Commit("model/org/m", "main", hubtest.File{Path: "a"}, hubtest.File{Path: "b"}, hubtest.File{Path: "c"})
	f.PageSize, f.Repeat = 1, true
	im := f.open(t, "hf://org/m", func(o *Options) { o.Wait = time.Minute })
	if err := im.Start(t.Context()); !errors.Is(err, codec.ErrCorrupt) || !strings.Contains(err.Error(), "page after page") {
		t.Errorf("error %v", err)
	}
}
