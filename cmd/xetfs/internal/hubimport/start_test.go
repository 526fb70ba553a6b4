package hubimport

import (
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/lru"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/hub"
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

// A wrong listing is read again more rarely than one of a Hub that does not answer.
func TestPausesAfterFailure(t *testing.T) {
	for err, want := range map[error]time.Duration{origin.ErrUnavailable: maxRetry, codec.Corrupt("listing", 0, "a page twice"): maxWrongRetry} {
		pause := minRetry
		for range 20 {
			pause = nextPause(pause, err)
		}
		if pause != want {
			t.Errorf("after %v: %v, want %v", err, pause, want)
		}
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
	if f, err := p.list(t.Context(), ""); !f.tooLarge || err != nil {
		t.Fatalf("%d entries, %v", len(f.entries), err)
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

// heal ends failListings.
func (f *fixture) heal() {
	f.Lock()
	defer f.Unlock()
	f.Answer = nil
}

// awaitImport waits for the end of a pending import.
func awaitImport(t *testing.T, im *Importer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), codectest.Patience)
	defer cancel()
	if err := im.pending.Load().wait(ctx, nil); err != nil {
		t.Fatal("the import does not complete")
	}
}

// commits returns the commits of all versions, newest first.
func commits(t *testing.T, im *Importer) (all []string) {
	t.Helper()
	for v, err := range im.catalog.History(t.Context(), im.symbol) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, labelOf(v))
	}
	return all
}

// The branch moves while its listing cannot be read. The import ends with the newer commit, whether the old
// one is gone or not, and whether Follow has imported it or not.
func TestStartBeforeForcePush(t *testing.T) {
	for _, isGone := range []bool{true, false} {
		for _, polled := range []bool{true, false} {
			t.Run(fmt.Sprintf("gone=%v,polled=%v", isGone, polled), func(t *testing.T) {
				f := newFixture(t)
				old := f.Commit("model/org/m", "main", hubtest.File{Path: "old"})
				failListings(f)
				im := f.open(t, "hf://org/m")
				if err := im.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				c := im.Catalog(im.catalog)
				if isGone {
					f.Delete("model/org/m", old)
				}
				now := f.Commit("model/org/m", "main", hubtest.File{Path: "new"})
				f.heal()
				if polled {
					if err := im.poll(t.Context()); err != nil {
						t.Error(err)
					}
				}
				awaitImport(t, im)
				if got := commits(t, im); !slices.Equal(got, []string{now}) {
					t.Errorf("versions %.8q, want %.8q", got, now)
				}
				if row, err := c.Latest(t.Context(), im.symbol); err != nil || row.Root.IsZero() {
					t.Errorf("Latest = %+v, %v", row, err)
				}
			})
		}
	}
}

// A poll that imports a commit completes the pending tree. The import then ends its tries.
func TestPollCompletesPendingTree(t *testing.T) {
	f := newFixture(t)
	im := f.open(t, "hf://org/m")
	pending := func(path string) *pendingTree {
		f.Commit("model/org/m", "main", hubtest.File{Path: path})
		st, err := im.repo.Resolve(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		p := newPendingTree(im, st, false)
		im.pending.Store(p)
		return p
	}
	p := pending("a")
	if err := im.poll(t.Context()); err != nil {
		t.Fatal(err)
	}
	tree := p.done()
	if tree == nil || !slices.Equal(namesIn(t, tree, "", ""), []string{"a"}) {
		t.Fatalf("tree %v", tree)
	}
	p = pending("b")
	failListings(f)
	first := make(chan error, 1)
	im.background.Go(func() { im.complete(p, first) })
	if err := <-first; !errors.Is(err, origin.ErrUnavailable) {
		t.Fatal(err)
	}
	p.finish(tree)
	im.background.Wait()
}

// A listing that fails leaves the version of an earlier mount, also if it fails after Start.
func TestFailedListingKeepsVersion(t *testing.T) {
	for name, answer := range map[string]func(w http.ResponseWriter){
		"unavailable": func(w http.ResponseWriter) { http.Error(w, "busy", http.StatusServiceUnavailable) },
		"corrupt":     func(w http.ResponseWriter) { io.WriteString(w, `[{"type":"file","path":"a","size":1,"oid":"zz"}]`) },
	} {
		for _, by := range []string{"Update", "Start", "late Start"} {
			t.Run(name+", "+by, func(t *testing.T) {
				f, wait, release := newFixture(t), codectest.Patience, make(chan struct{})
				if by == "late Start" {
					wait = 1
				} else {
					close(release)
				}
				f.Commit("model/org/m", "main", hubtest.File{Path: "old"})
				update(t, f.open(t, "hf://org/m"))
				f.Commit("model/org/m", "main", hubtest.File{Path: "new"})
				f.Lock()
				f.Answer = func(w http.ResponseWriter, r *http.Request) bool {
					isListing := strings.Contains(r.URL.Path, "/tree/")
					if isListing {
						if r.URL.Query().Get("recursive") == "true" {
							<-release
						}
						answer(w)
					}
					return isListing
				}
				f.Unlock()
				im := f.open(t, "hf://org/m", func(o *Options) { o.Wait = wait })
				begin := im.Start
				if by == "Update" {
					begin = im.Update
				}
				if err := begin(t.Context()); err != nil {
					t.Fatal(err)
				}
				if by == "late Start" {
					time.AfterFunc(time.Millisecond, func() { close(release) })
				}
				tree, err := im.Catalog(im.catalog).Open(t.Context(), im.symbol, names.AsOf{})
				if err != nil {
					t.Fatal(err)
				}
				if got := namesIn(t, tree, "", ""); !slices.Equal(got, []string{"old"}) {
					t.Errorf("top: %q", got)
				}
				im.Close() // ends all tries
				if log := f.log.String(); strings.Count(log, "event=hub_offline") != 1 || strings.Contains(log, "event=import_failed") {
					t.Errorf("log: %s", log)
				}
			})
		}
	}
}

// A folder that cannot be listed waits for the import while an older version can be shown, and no longer.
func TestFailedFolderEndsWaiting(t *testing.T) {
	f, release, refused := newFixture(t), make(chan struct{}), make(chan struct{})
	f.Commit("model/org/m", "main", hubtest.File{Path: "old"})
	update(t, f.open(t, "hf://org/m"))
	f.Commit("model/org/m", "main", hubtest.File{Path: "x/new"})
	f.Lock()
	f.Answer = func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case r.URL.Query().Get("recursive") == "true":
			<-release // the import neither fails nor completes
			http.Error(w, "busy", http.StatusServiceUnavailable)
			return true
		case strings.HasSuffix(r.URL.Path, "/x"):
			defer close(refused)
			io.WriteString(w, `[{"type":"file","path":"x/new","size":1,"oid":"zz"}]`)
			return true
		}
		return false
	}
	f.Unlock()
	im := f.open(t, "hf://org/m", func(o *Options) { o.Wait = 1 })
	if err := im.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer close(release)
	p := im.pending.Load()
	ctx, cancel := context.WithTimeout(t.Context(), codectest.Patience)
	defer cancel()
	var readers sync.WaitGroup
	defer readers.Wait()
	readers.Go(func() {
		if _, err := p.Lookup(ctx, "x/new"); !errors.Is(err, codec.ErrCorrupt) {
			t.Errorf("x/new: %v", err)
		}
	})
	<-refused
	if got := namesIn(t, p, "", ""); !slices.Equal(got, []string{"x"}) {
		t.Errorf("top: %q", got)
	}
}

// A file whose location a pending tree has forgotten is found after the import.
func TestLocateAfterImport(t *testing.T) {
	f := newFixture(t)
	f.Commit("model/org/m", "main", hubtest.File{Path: "a", Content: []byte("text")})
	failListings(f)
	im := f.open(t, "hf://org/m")
	if err := im.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := im.pending.Load()
	e := lookup(t, p, "a")
	p.mu.Lock()
	p.plain = lru.New[codec.Hash, hub.PlainFile](0, nil)
	p.mu.Unlock()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := im.Locate(ended, e.ID.File); !errors.Is(err, context.Canceled) {
		t.Errorf("before the import: %v", err)
	}
	f.heal()
	if got, err := im.Locate(t.Context(), e.ID.File); err != nil || got.Path != "a" {
		t.Errorf("Locate = %+v, %v", got, err)
	}
}

// A poll does not wait for an import: the end of a mount waits for it.
func TestPollDuringImport(t *testing.T) {
	f := newFixture(t)
	f.Commit("model/org/m", "main", hubtest.File{Path: "a"})
	im := f.open(t, "hf://org/m")
	im.mu.Lock()
	defer im.mu.Unlock()
	if err := im.poll(t.Context()); err != nil || len(f.Requests("")) > 0 {
		t.Errorf("%v, %q", err, f.Requests(""))
	}
}

// A listing that fails is not read again at each poll. A new commit is listed at once.
func TestPollPausesAfterFailure(t *testing.T) {
	f := newFixture(t)
	f.Commit("model/org/m", "main", hubtest.File{Path: "a"})
	im := f.open(t, "hf://org/m")
	update(t, im)
	bad := hubtest.File{Path: "b", Content: []byte("x"), Xet: "123"}
	listings := func(polls int) int {
		before := len(f.Requests("/tree/"))
		for range polls {
			if err := im.poll(t.Context()); err == nil {
				t.Error("a wrong listing is no error")
			}
		}
		return len(f.Requests("/tree/")) - before
	}
	for range 2 {
		f.Commit("model/org/m", "main", bad)
		if n := listings(20); n != 4 {
			t.Errorf("%d listings in 20 polls, want 4", n)
		}
		bad.Path += "b"
	}
	now := f.Commit("model/org/m", "main", hubtest.File{Path: "c"})
	if err := im.poll(t.Context()); err != nil || commits(t, im)[0] != now {
		t.Errorf("a sound commit: %v", err)
	}
}

// Reasons that differ in numbers are one event.
func TestWithoutDigits(t *testing.T) {
	a, b := errors.New("refused, next try in 12 s"), errors.New("refused, next try in 3 s")
	if withoutDigits(a) != withoutDigits(b) || withoutDigits(a) == withoutDigits(errors.New("refused")) {
		t.Errorf("%q, %q", withoutDigits(a), withoutDigits(b))
	}
}

// A repository or commit that the Hub denies during the import makes no folder absent: a reader would take it
// for deleted.
func TestStartBeforeRepositoryIsGone(t *testing.T) {
	for _, code := range []string{"RepoNotFound", "RevisionNotFound", ""} {
		t.Run(code, func(t *testing.T) {
			f := newFixture(t)
			f.Commit("model/org/m", "main", hubtest.File{Path: "a/b"}, hubtest.File{Path: "c/d"})
			failListings(f)
			im := f.open(t, "hf://org/m")
			if err := im.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			tree := im.pending.Load()
			lookup(t, tree, "a/b")
			f.Lock()
			f.Codes, f.ErrorCodes = map[string]int{"/api/": http.StatusNotFound}, map[string]string{"/api/": code}
			f.Unlock()
			check := func(err error) {
				t.Helper()
				if !errors.Is(err, origin.ErrNotFound) || errors.Is(err, iofs.ErrNotExist) {
					t.Errorf("error %v", err)
				}
			}
			_, err := tree.Lookup(t.Context(), "c/d")
			check(err)
			n := 0
			for _, err := range tree.List(t.Context(), "c", "") {
				check(err)
				n++
			}
			if n != 1 {
				t.Errorf("%d errors of List, want 1", n)
			}
		})
	}
}
