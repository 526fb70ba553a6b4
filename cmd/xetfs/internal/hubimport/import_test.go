package hubimport

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	iofs "io/fs"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/fetch"
	"github.com/xetfs/xetfs/cache/origin/hub"
	"github.com/xetfs/xetfs/cache/origin/hub/hubtest"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A fixture is a Hub with an importer and its log.
type fixture struct {
	*hubtest.Server
	dir string
	log bytes.Buffer
}

func newFixture(t *testing.T) *fixture { return &fixture{Server: hubtest.New(t), dir: t.TempDir()} }

// open opens an importer of an address.
func (f *fixture) open(t *testing.T, address string, change ...func(*Options)) *Importer {
	t.Helper()
	a, err := hub.ParseAddress(address)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(&f.log, nil))
	r, err := hub.Open(a, hub.Options{Endpoint: f.URL, Options: fetch.Options{Attempts: 2, Pause: time.Millisecond, Limits: fetch.Limits{First: time.Minute}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	o := Options{Folder: f.dir, Logger: log}
	for _, c := range change {
		c(&o)
	}
	im, err := Open(t.Context(), r, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { im.Close() })
	return im
}

func update(t *testing.T, im *Importer) {
	t.Helper()
	if err := im.Update(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// newest returns the newest tree.
func newest(t *testing.T, im *Importer) catalog.Tree {
	t.Helper()
	tree, err := im.catalog.Open(t.Context(), im.symbol, names.AsOf{})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// list returns the entries of a tree as "type path size".
func list(t *testing.T, tree catalog.Tree) (found []string) {
	t.Helper()
	for e, err := range tree.All(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, fmt.Sprintf("%v %q %d", e.Type, e.Path, e.Size))
	}
	return found
}

func lookup(t *testing.T, tree catalog.Tree, path string) page.Entry {
	t.Helper()
	e, err := tree.Lookup(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

var xetHash = strings.Repeat("0123456789abcdef", 4)

func TestImport(t *testing.T) {
	f := newFixture(t)
	id := f.Commit("model/org/m", "main",
		hubtest.File{Path: "README.md", Content: []byte("text")},
		hubtest.File{Path: "a-b", Content: []byte("x")},
		hubtest.File{Path: "a/b/big", Content: []byte("large"), LFS: true},
		hubtest.File{Path: "a/empty"},
		hubtest.File{Path: "a/model", Content: []byte("chunks"), Xet: xetHash},
		hubtest.File{Path: "copy", Content: []byte("text")},
	)
	im := f.open(t, "hf://org/m")
	update(t, im)
	tree := newest(t, im)
	want := []string{
		`directory "" 0`, `file "README.md" 4`, `directory "a" 0`, `file "a-b" 1`, `file "copy" 4`,
		`directory "a/b" 0`, `file "a/empty" 0`, `file "a/model" 6`, `file "a/b/big" 5`,
	}
	if got := list(t, tree); !slices.Equal(got, want) {
		t.Errorf("tree %q\nwant %q", got, want)
	}
	if e := lookup(t, tree, "a/model"); e.ID.File.String() != xetHash || e.SHA256 == nil || e.ModTime.Year() != 2026 || e.Mode != 0o644 {
		t.Errorf("a/model: %+v", e)
	}
	readme, twin := lookup(t, tree, "README.md"), lookup(t, tree, "copy")
	if !readme.ID.File.IsPlain() || readme.ID != twin.ID {
		t.Errorf("equal content: %v, %v", readme.ID, twin.ID)
	}
	got, err := im.Locate(t.Context(), readme.ID.File)
	if err != nil || got.Commit != id || got.Path != "README.md" || got.Size != 4 || fmt.Sprintf("%x", *got.Git) != hubtest.Git([]byte("text")) {
		t.Errorf("Locate = %+v, %v", got, err)
	}
	big, err := im.Locate(t.Context(), lookup(t, tree, "a/b/big").ID.File)
	if err != nil || big.Path != "a/b/big" || big.SHA256 == nil || big.Git != nil {
		t.Errorf("Locate = %+v, %v", big, err)
	}
	if _, err := im.Locate(t.Context(), codec.PlainHash([32]byte{1}, 0)); !errors.Is(err, origin.ErrNotFound) || errors.Is(err, iofs.ErrNotExist) {
		t.Errorf("an unknown file: %v", err)
	}
}

// A folder of a repository is the top of its tree. Files are located in the repository.
func TestImportFolder(t *testing.T) {
	f := newFixture(t)
	f.Commit("bucket/org/b", "main", hubtest.File{Path: "a/b/x", Content: []byte("1")}, hubtest.File{Path: "a/bc", Content: []byte("2")})
	im := f.open(t, "hf://buckets/org/b/a/b")
	update(t, im)
	tree := newest(t, im)
	if got := list(t, tree); !slices.Equal(got, []string{`directory "" 0`, `file "x" 1`}) {
		t.Errorf("tree %q", got)
	}
	if got, err := im.Locate(t.Context(), lookup(t, tree, "x").ID.File); err != nil || got.Path != "a/b/x" {
		t.Errorf("Locate = %+v, %v", got, err)
	}
}

// A new commit is a new version. Unchanged files keep their times, so that only the changes
// differ.
func TestUpdateKeepsTimes(t *testing.T) {
	f := newFixture(t)
	keep := hubtest.File{Path: "keep", Content: []byte("same")}
	first := f.Commit("model/org/m", "main", hubtest.File{Path: "change", Content: []byte("1")}, hubtest.File{Path: "gone", Content: []byte("old")}, keep)
	im := f.open(t, "hf://org/m")
	update(t, im)
	old := newest(t, im)
	gone := lookup(t, old, "gone").ID.File
	second := f.Commit("model/org/m", "main", hubtest.File{Path: "change", Content: []byte("2")}, keep)
	update(t, im)
	now := newest(t, im)
	if old.Version().Number != 0 || now.Version().Number != 1 {
		t.Errorf("versions %d and %d", old.Version().Number, now.Version().Number)
	}
	var changes []string
	for c, err := range im.catalog.Changes(t.Context(), old.Version(), now.Version()) {
		if err != nil {
			t.Fatal(err)
		}
		e := c.New
		if e == nil {
			e = c.Old
		}
		changes = append(changes, e.Path)
	}
	if !slices.Equal(changes, []string{"change", "gone"}) {
		t.Errorf("changes %q", changes)
	}
	if got, err := im.Locate(t.Context(), gone); err != nil || got.Commit != first {
		t.Errorf("a deleted file: %+v, %v", got, err)
	}
	if got, err := im.Locate(t.Context(), lookup(t, now, "keep").ID.File); err != nil || got.Commit != second {
		t.Errorf("a file of both commits: %+v, %v", got, err)
	}
	requests := len(f.Requests(""))
	update(t, im)
	if n := len(f.Requests("")) - requests; n != 1 || newest(t, im).Version().Number != 1 {
		t.Errorf("an unchanged branch: %d requests, version %d", n, newest(t, im).Version().Number)
	}
}

// A file outside Xet is located at the commit that has it, also behind the recent versions.
func TestLocateInOldVersion(t *testing.T) {
	f := newFixture(t)
	im := f.open(t, "hf://org/m")
	var ids, files []string
	for i := range 5 {
		ids = append(ids, f.Commit("model/org/m", "main", hubtest.File{Path: "README.md", Content: fmt.Append(nil, i)}))
		update(t, im)
		h := lookup(t, newest(t, im), "README.md").ID.File
		files = append(files, hex.EncodeToString(h[:]))
	}
	for i, name := range files {
		if got, err := im.locate(t.Context(), name, 2); err != nil || got.Commit != ids[i] {
			t.Errorf("version %d: %+v, %v", i, got, err)
		}
	}
	if _, err := im.locate(t.Context(), strings.Repeat("0", 64), 2); !errors.Is(err, iofs.ErrNotExist) {
		t.Errorf("an unknown file: %v", err)
	}
}

// A branch that was forced to an older commit shows that commit.
func TestForcePushedBranch(t *testing.T) {
	f := newFixture(t)
	first := f.Commit("model/org/m", "main", hubtest.File{Path: "a"})
	f.Commit("model/org/m", "main", hubtest.File{Path: "b"})
	im := f.open(t, "hf://org/m")
	update(t, im)
	f.Reset("model/org/m", "main", first)
	update(t, im)
	if got := list(t, newest(t, im)); !slices.Equal(got, []string{`directory "" 0`, `file "a" 0`}) {
		t.Errorf("tree %q", got)
	}
}

// A branch returns to an earlier commit. The commit has the same tree again, with the times of its first
// import, so that it keeps its name in a mirror. Its listing lacks a name.
func TestSameTreeOfEarlierCommit(t *testing.T) {
	f := newFixture(t)
	file := func(path string) hubtest.File { return hubtest.File{Path: path, Content: []byte(path)} }
	f.Commit("model/org/m", "main", file("dir/old"))
	im := f.open(t, "hf://org/m")
	update(t, im)
	earlier := f.Commit("model/org/m", "main", file("a//b"), file("dir/old"), file("new"))
	update(t, im)
	want := newest(t, im).Version()
	for i := range 3 {
		f.Commit("model/org/m", "main", file(fmt.Sprint("other", i)))
		update(t, im)
		f.Reset("model/org/m", "main", earlier)
		update(t, im)
		if got := newest(t, im).Version(); got.Number == want.Number || got.Identity != want.Identity || commits(t, im)[0] != earlier {
			t.Errorf("version %d of commit %s has the tree %s, version %d has %s", got.Number, earlier, got.Identity, want.Number, want.Identity)
		}
	}
}

// Illegal names are left out. Each start has one event, also if it imports nothing.
func TestS01_IllegalNames(t *testing.T) {
	f := newFixture(t)
	long := strings.Repeat("n", 256)
	var files []hubtest.File
	for _, path := range []string{
		".", "..", "a/../b", "/absolute", "trailing/", "a//b", "nul\x00", long, "dir/" + long, ".versions", ".versions/1",
		"new\nline", "\x1b[31m", "sp ace", "ünï", strings.Repeat("n", 255), "twice", "twice", "both", "both/x",
	} {
		files = append(files, hubtest.File{Path: path, Content: []byte(path + "!")})
	}
	id := f.Commit("model/org/m", "main", files...)
	im := f.open(t, "hf://org/m")
	update(t, im)
	want := []string{
		`directory "" 0`, `file "\x1b[31m" 6`, `directory "both" 0`, `file "new\nline" 9`, fmt.Sprintf(`file %q 256`, strings.Repeat("n", 255)),
		`file "sp ace" 7`, `file "twice" 6`, `file "ünï" 6`, `file "both/x" 7`,
	}
	got := slices.DeleteFunc(list(t, newest(t, im)), func(s string) bool {
		return strings.HasPrefix(s, "directory") && !strings.Contains(s, "both") && s != want[0]
	})
	if !slices.Equal(got, want) {
		t.Errorf("tree %q\nwant %q", got, want)
	}
	logged := func(when string, want int) {
		t.Helper()
		log := f.log.String()
		if n := strings.Count(log, "event=name_rejected"); n != want || n != strings.Count(log, `count=14 first="path \".\": `) {
			t.Errorf("%s, %d events, want %d: %s", when, n, want, log)
		}
		f.log.Reset()
	}
	logged("first start", 1)
	if err := im.poll(t.Context()); err != nil {
		t.Fatal(err)
	}
	logged("poll", 0)
	update(t, f.open(t, "hf://org/m"))
	logged("later start", 1)
	if err := f.open(t, "hf://org/m").Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	logged("later mount", 1)
	update(t, f.open(t, "hf://org/m", func(o *Options) { o.Offline = true }))
	logged("offline", 1)
	update(t, f.open(t, "hf://org/m@"+id))
	logged("first start of a commit", 1)
	update(t, f.open(t, "hf://org/m@"+id))
	logged("later start of a commit", 1)
	f.Commit("model/org/m", "main", hubtest.File{Path: "a"})
	update(t, im)
	update(t, f.open(t, "hf://org/m"))
	logged("a commit without such names", 0)
}

// A file outside Xet whose location is longer than the target of a link is left out, before and after the
// import.
func TestLongPlainPath(t *testing.T) {
	f := newFixture(t)
	dir := strings.Repeat(strings.Repeat("d", 254)+"/", 16)
	f.Commit("model/org/m", "main",
		hubtest.File{Path: dir + "plain", Content: []byte("x")},
		hubtest.File{Path: dir + "xet", Content: []byte("x"), Xet: xetHash},
	)
	im := f.open(t, "hf://org/m")
	st, err := im.repo.Resolve(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	pending := newPendingTree(im, st, false)
	update(t, im)
	for _, tree := range []catalog.Tree{pending, newest(t, im)} {
		if got := namesIn(t, tree, strings.TrimSuffix(dir, "/"), ""); !slices.Equal(got, []string{dir + "xet"}) {
			t.Errorf("%d files, want the one in Xet", len(got))
		}
	}
	if log := f.log.String(); strings.Count(log, "event=name_rejected") != 1 || !strings.Contains(log, "of a file outside Xet: ") {
		t.Errorf("log: %.1000s", log)
	}
}

// Without the Hub, the version of an earlier update remains, with one event.
func TestOffline(t *testing.T) {
	f := newFixture(t)
	id := f.Commit("model/org/m", "main", hubtest.File{Path: "a"})
	err := f.open(t, "hf://org/m", func(o *Options) { o.Offline = true }).Update(t.Context())
	if !errors.Is(err, origin.ErrUnavailable) || !strings.Contains(err.Error(), "HF_HUB_OFFLINE") {
		t.Errorf("offline without a version: %v", err)
	}
	if n := len(f.Requests("")); n != 0 {
		t.Errorf("%d requests", n)
	}
	im := f.open(t, "hf://org/m")
	update(t, im)
	update(t, f.open(t, "hf://org/m@"+id)) // has a catalog of its own
	requests := len(f.Requests(""))
	update(t, f.open(t, "hf://org/m@"+id))
	if n := len(f.Requests("")) - requests; n != 0 {
		t.Errorf("%d requests for a known commit", n)
	}
	f.Codes = map[string]int{"/api/": 503}
	again := f.open(t, "hf://org/m")
	update(t, again)
	if got := list(t, newest(t, again)); len(got) != 2 {
		t.Errorf("tree %q", got)
	}
	if n := strings.Count(f.log.String(), "event=hub_offline"); n != 1 {
		t.Errorf("%d events: %s", n, f.log.String())
	}
	f.Codes = nil
	f.Delete("model/org/m", "")
	if err := f.open(t, "hf://org/m").Update(t.Context()); !errors.Is(err, iofs.ErrNotExist) {
		t.Errorf("a deleted repository: %v", err)
	}
	mirror := f.open(t, "hf://org/m", func(o *Options) { o.KeepDeleted = true })
	update(t, mirror)
	if got := list(t, newest(t, mirror)); len(got) != 2 {
		t.Errorf("tree of a deleted repository: %q", got)
	}
}

// A listing that cannot be stored on the local disk leaves the version of an earlier update. The event does not
// blame the Hub.
func TestListingNotStored(t *testing.T) {
	f := newFixture(t)
	f.Commit("model/org/m", "main", hubtest.File{Path: "a"})
	im := f.open(t, "hf://org/m")
	update(t, im)
	f.Commit("model/org/m", "main", hubtest.File{Path: "b"})
	tmp := filepath.Join(im.folder, "tmp")
	if err := os.RemoveAll(tmp); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(tmp, nil, 0o600); err != nil { // no object can be written
		t.Fatal(err)
	}
	update(t, im)
	lookup(t, newest(t, im), "a")
	log := f.log.String()
	if strings.Count(log, "event=listing_not_stored") != 1 || strings.Contains(log, "hub_offline") {
		t.Errorf("log: %s", log)
	}
}

// A listing that fails leaves no version, and its runs are deleted.
func TestFailedListing(t *testing.T) {
	f := newFixture(t)
	f.Commit("model/org/m", "main", hubtest.File{Path: "a"}, hubtest.File{Path: "b"}, hubtest.File{Path: "c"})
	f.PageSize, f.Repeat = 1, true
	im := f.open(t, "hf://org/m")
	if err := im.Update(t.Context()); !errors.Is(err, codec.ErrCorrupt) {
		t.Errorf("error %v", err)
	}
	if _, err := im.catalog.Latest(t.Context(), im.symbol); !errors.Is(err, iofs.ErrNotExist) {
		t.Errorf("Latest: %v", err)
	}
	f.Repeat = false
	update(t, im)
}

// A sorter in memory and one with runs on disk have the same order as page keys.
func TestSorter(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var all []string
	for range 5000 {
		parts := make([]string, 1+rnd.IntN(4))
		for i := range parts {
			parts[i] = string(rune('a'+rnd.IntN(5))) + []string{"", "-", ".", "\x01"}[rnd.IntN(4)]
		}
		all = append(all, strings.Join(parts, "/"))
	}
	sorted := func(max int) (got []string) {
		s := sorter{dir: t.TempDir(), max: max}
		defer s.close()
		for _, p := range all {
			if err := s.add(record{page.Key(p), hub.Entry{Path: p}}); err != nil {
				t.Fatal(err)
			}
		}
		for r, err := range s.sorted() {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, r.Entry.Path)
		}
		return got
	}
	want := slices.Clone(all)
	slices.SortStableFunc(want, page.ComparePaths)
	for _, max := range []int{100_000, 1 << 30} {
		if got := sorted(max); !slices.Equal(got, want) {
			t.Errorf("with %d bytes: %d records, or in another order", max, len(got))
		}
	}
}

// FuzzParseLocation checks that a location is read as it was written.
func FuzzParseLocation(f *testing.F) {
	f.Add("git 0123456789012345678901234567890123456789 12 a b/c")
	f.Add("lfs " + strings.Repeat("ab", 32) + " 1 x")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parseLocation(text)
		if err != nil {
			if !errors.Is(err, codec.ErrCorrupt) {
				t.Errorf("error %v is not an ErrCorrupt", err)
			}
			return
		}
		again, err := parseLocation(location(&p))
		if err != nil || again.Path != p.Path || again.Size != p.Size {
			t.Errorf("%q: %+v becomes %+v, %v", text, p, again, err)
		}
	})
}

// A large listing is imported with bounded memory. The runs of the sorter are on disk.
func TestLargeListing(t *testing.T) {
	if testing.Short() {
		t.Skip("200,000 entries")
	}
	f := newFixture(t)
	files := make([]hubtest.File, 200_000)
	for i := range files {
		files[i] = hubtest.File{Path: fmt.Sprintf("data/part-%03d/file-%06d.bin", i%500, i), Content: []byte{1}, Xet: xetHash}
		if i%3 == 0 {
			files[i].Xet, files[i].Content = "", fmt.Append(nil, i)
		}
	}
	f.Commit("dataset/org/large", "main", files...)
	im := f.open(t, "hf://datasets/org/large")
	start := time.Now()
	update(t, im)
	tree := newest(t, im)
	entries, _ := tree.Totals()
	t.Logf("%d entries in %v", entries, time.Since(start))
	if want := int64(200_000 + 500 + 2); entries != want {
		t.Errorf("%d entries, want %d", entries, want)
	}
	e := lookup(t, tree, "data/part-003/file-000003.bin")
	if got, err := im.Locate(t.Context(), e.ID.File); err != nil || got.Path != "data/part-003/file-000003.bin" {
		t.Errorf("Locate = %+v, %v", got, err)
	}
}

// A followed branch becomes a new version, with one request per period. A failing Hub leaves the
// old version, with one event.
func TestFollow(t *testing.T) {
	f := newFixture(t)
	f.Commit("model/org/m", "main", hubtest.File{Path: "a"})
	im := f.open(t, "hf://org/m")
	update(t, im)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		im.Follow(ctx, 5*time.Millisecond)
	}()
	requests := func(n int) {
		t.Helper()
		for start := len(f.Requests("/revision/")); len(f.Requests("/revision/")) < start+n; {
			time.Sleep(time.Millisecond)
		}
	}
	requests(3)
	if n := len(f.Requests("/tree/")); n != 1 {
		t.Errorf("%d listings", n)
	}
	f.Commit("model/org/m", "main", hubtest.File{Path: "b"})
	for newest(t, im).Version().Number == 0 {
		time.Sleep(time.Millisecond)
	}
	if got := list(t, newest(t, im)); !slices.Equal(got, []string{`directory "" 0`, `file "b" 0`}) {
		t.Errorf("tree %q", got)
	}
	if got := im.FollowError(); got != "" {
		t.Errorf("error %q of a followed branch", got)
	}
	f.Lock()
	f.Codes, f.ErrorCodes = map[string]int{"/api/": 404}, map[string]string{"/api/": "RevisionNotFound"}
	f.Unlock()
	requests(3)
	cancel()
	<-done
	if n := strings.Count(f.log.String(), "event=follow_failed"); n != 1 || newest(t, im).Version().Number != 1 {
		t.Errorf("%d events, version %d: %s", n, newest(t, im).Version().Number, f.log.String())
	}
	if got := im.FollowError(); !strings.HasPrefix(got, "follow_failed: ") {
		t.Errorf("error %q of a failing Hub", got)
	}
}

// Follow reports each answer for the revision, and no refusal.
func TestFollowSeen(t *testing.T) {
	f := newFixture(t)
	f.Commit("model/org/m", "main", hubtest.File{Path: "a"})
	seen := 0
	im := f.open(t, "hf://org/m", func(o *Options) { o.Seen = func() { seen++ } })
	update(t, im)
	poll := func(want int) {
		t.Helper()
		_ = im.poll(t.Context())
		if seen != want {
			t.Errorf("%d answers are reported, want %d", seen, want)
		}
	}
	poll(1) // unchanged
	f.Commit("model/org/m", "main", hubtest.File{Path: "b"})
	poll(2)
	f.Lock()
	f.Codes = map[string]int{"/api/": 404}
	f.Unlock()
	poll(2)
}

// A process with a slow listing publishes an older commit behind a newer one. The next poll of the other
// process corrects that, and later polls list nothing.
func TestPollAfterOlderCommit(t *testing.T) {
	f := newFixture(t)
	f.Commit("model/org/m", "main", hubtest.File{Path: "a"})
	mount, beside := f.open(t, "hf://org/m"), f.open(t, "hf://org/m")
	update(t, mount)
	older := f.Commit("model/org/m", "main", hubtest.File{Path: "b"})
	listed, proceed := make(chan struct{}), make(chan struct{})
	f.Lock()
	f.Answer = func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/tree/"+older) {
			close(listed)
			<-proceed
		}
		return false
	}
	f.Unlock()
	done := make(chan error)
	go func() { done <- beside.Update(t.Context()) }()
	<-listed
	newer := f.Commit("model/org/m", "main", hubtest.File{Path: "c"})
	poll := func() {
		t.Helper()
		if err := mount.poll(t.Context()); err != nil {
			t.Error(err)
		}
	}
	poll()
	close(proceed)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := commits(t, mount)[0]; got != older {
		t.Errorf("before the poll: commit %s, want the older %s", got, older)
	}
	poll()
	if got := commits(t, mount)[0]; got != newer {
		t.Errorf("after the poll: commit %s, want the newer %s", got, newer)
	}
	listings := len(f.Requests("/tree/"))
	poll()
	if n := len(f.Requests("/tree/")) - listings; n != 0 {
		t.Errorf("%d listings of an unchanged branch", n)
	}
}

// A Hub that hangs is unavailable soon if a version is known.
func TestResolveOfHangingHub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := origintest.Transport(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
		a := hub.Address{Type: hub.Model, Owner: "org", Name: "m", Revision: "main"}
		r, err := hub.Open(a, hub.Options{Options: fetch.Options{Transport: hangs, Limits: fetch.Limits{First: time.Minute}}})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		start := time.Now()
		_, err = (&Importer{repo: r}).resolve(t.Context(), "known")
		if took := time.Since(start); !errors.Is(err, origin.ErrUnavailable) || took != startLimit {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

// The importer sends the tag of the last commit.
func TestPollSendsTag(t *testing.T) {
	f := newFixture(t)
	f.Commit("model/org/m", "main", hubtest.File{Path: "a"})
	im := f.open(t, "hf://org/m")
	update(t, im)
	var tags []string
	f.Lock()
	f.Answer = func(_ http.ResponseWriter, r *http.Request) bool {
		tags = append(tags, r.Header.Get("If-None-Match"))
		return false
	}
	f.Unlock()
	if err := im.poll(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.Lock()
	defer f.Unlock()
	if len(tags) != 1 || tags[0] == "" {
		t.Errorf("requests with tags %q, want one", tags)
	}
}
