package commits

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/hub"
	"github.com/xetfs/xetfs/cache/origin/hub/hubserve"
	"github.com/xetfs/xetfs/cache/origin/hub/hubwrite"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/cache/origin/upload"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/pack"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
	"github.com/xetfs/xetfs/fs/catalog/writer"
)

const symbol = "org/model"

// A fakeUploads stores contents without a sweep. A session finds what it has uploaded.
type fakeUploads struct {
	sink pack.Sink

	mu      sync.Mutex
	files   map[upload.SessionID]map[[32]byte]upload.Content // guarded by mu
	earlier []map[[32]byte]upload.Content                    // files that each Recall adds; guarded by mu
	recalls int                                              // calls of Recall; guarded by mu
	puts    int                                              // calls of PutContents; guarded by mu
	leases  error                                            // of Commit; guarded by mu
}

func (f *fakeUploads) FileBySHA256(_ context.Context, s upload.SessionID, sum [32]byte) (upload.Content, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, ok := f.files[s][sum]
	if !ok {
		return c, origin.ErrNotFound
	}
	return c, nil
}

func (f *fakeUploads) Recall(_ context.Context, s upload.SessionID, after names.Key) (names.Key, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.recalls++
	if len(after) < len(f.earlier) {
		f.files[s] = f.earlier[len(after)]
		after += "x"
	}
	if len(after) >= len(f.earlier) {
		return "", nil
	}
	return after, nil
}

func (f *fakeUploads) PutContents(ctx context.Context, s upload.SessionID, files ...io.Reader) (contents []upload.Content, err error) {
	w := pack.NewWriter(f.sink, pack.Options{Done: func(p pack.File) {
		contents = append(contents, upload.Content{ID: p.ID, SHA256: p.SHA256, Size: p.Size, Chunks: p.Chunks})
	}})
	for _, r := range files {
		if err := w.AddFile(ctx, r); err != nil {
			return nil, err
		}
	}
	err = w.Close(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.puts++
	for _, c := range contents {
		if f.files[s] == nil {
			f.files[s] = map[[32]byte]upload.Content{}
		}
		f.files[s][c.SHA256] = c
	}
	return contents, err
}

func (f *fakeUploads) Commit(_ context.Context, files []upload.Content, _ upload.Guard) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.leases != nil {
		return &upload.LeaseError{Files: files[:1]}
	}
	return nil
}

// A fixture is a store with one repository, and a Maker.
type fixture struct {
	t       *testing.T
	store   origin.WriteStore
	uploads *fakeUploads
	*Maker
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	s := origintest.Memory()
	d := &fixture{t: t, store: s, uploads: &fakeUploads{sink: origin.Sink(s), files: map[upload.SessionID]map[[32]byte]upload.Content{}}}
	d.restart()
	if err := d.Create(t.Context(), symbol, "me"); err != nil {
		t.Fatal(err)
	}
	return d
}

// restart replaces the Maker, which then remembers nothing.
func (d *fixture) restart() {
	d.t.Helper()
	w, err := writer.Open(d.t.Context(), d.store, catalog.RecentPages(origin.Pages(d.store)), writer.Options{})
	if err != nil {
		d.t.Fatal(err)
	}
	d.Maker = NewMaker(Options{Writer: w, Uploads: d.uploads, ID: func(v *names.Version) string { return v.Rows[0].Identity.String()[:40] }})
}

// large is the content that the session has uploaded in tests.
var large = strings.Repeat("large content ", 100)

// body returns the body of a commit of some words:
//
//	a=text     a file with its content        a:large    a large file, by the hash of its content
//	-a, -a/    a removed file, folder         a<b        a copy of b
//	a<b@REV    a copy of b in a revision
func body(title, parent string, words string) string {
	line := func(key string, value map[string]any) string {
		b, err := json.Marshal(map[string]any{"key": key, "value": value})
		if err != nil {
			panic(err)
		}
		return string(b) + "\n"
	}
	head := map[string]any{"summary": title}
	if parent != "" {
		head["parentCommit"] = parent
	}
	text := line("header", head)
	for word := range strings.FieldsSeq(words) {
		switch i := strings.IndexAny(word, "=:<"); {
		case strings.HasPrefix(word, "-") && strings.HasSuffix(word, "/"):
			text += line("deletedFolder", map[string]any{"path": word[1:]})
		case strings.HasPrefix(word, "-"):
			text += line("deletedFile", map[string]any{"path": word[1:]})
		case word[i] == '=':
			text += line("file", map[string]any{"path": word[:i], "encoding": "base64", "content": base64.StdEncoding.EncodeToString([]byte(contentOf(word[i+1:])))})
		case word[i] == ':':
			content := contentOf(word[i+1:])
			text += line("lfsFile", map[string]any{"path": word[:i], "oid": fmt.Sprintf("%x", sha256.Sum256([]byte(content))), "size": len(content)})
		default:
			from, revision, _ := strings.Cut(word[i+1:], "@")
			text += line("copyFile", map[string]any{"path": word[:i], "srcPath": from, "srcRevision": revision})
		}
	}
	return text
}

// contentOf returns the content of a word: large is long.
func contentOf(word string) string {
	if name, ok := strings.CutPrefix(word, "large"); ok {
		return large + name
	}
	return word
}

// commit sends a commit.
func (d *fixture) commit(title, parent, words string) (string, error) {
	d.t.Helper()
	c, err := hubwrite.ReadCommit(strings.NewReader(body(title, parent, words)), hubwrite.Limits{})
	if err != nil {
		d.t.Fatal(err)
	}
	return d.Commit(d.t.Context(), &Request{Symbol: symbol, Author: "me", Session: "session", Commit: c,
		OpenRevision: func(ctx context.Context, revision string) (catalog.Tree, error) {
			if revision != "old" {
				return nil, hub.ErrRevisionNotFound
			}
			at, err := names.ParseAsOf("1")
			if err != nil {
				return nil, err
			}
			return d.o.Writer.Catalog().Open(ctx, symbol, at)
		},
	})
}

// must sends a commit that succeeds.
func (d *fixture) must(title, parent, words string) string {
	d.t.Helper()
	id, err := d.commit(title, parent, words)
	if err != nil {
		d.t.Fatalf("%s: %v", words, err)
	}
	return id
}

// see returns the newest version with its tree in words.
func (d *fixture) see(sym string) string {
	d.t.Helper()
	tree, err := d.o.Writer.Catalog().Open(d.t.Context(), sym, names.AsOf{})
	if err != nil {
		return err.Error()
	}
	words := []string{fmt.Sprintf("%d:", tree.Version().Number)}
	for e, err := range tree.All(d.t.Context(), "") {
		switch {
		case err != nil:
			d.t.Fatal(err)
		case e.Path == "":
		case e.Type == page.Dir:
			words = append(words, e.Path+"/")
		case e.SHA256 != nil && *e.SHA256 == sha256.Sum256([]byte(large)):
			words = append(words, e.Path+"=large")
		case e.SHA256 != nil:
			words = append(words, fmt.Sprintf("%s=%x", e.Path, e.SHA256[:4]))
		default:
			words = append(words, e.Path+"="+string(e.Inline))
		}
	}
	return strings.Join(words, " ")
}

// A commit applies all its operations to the tree before it.
func TestOperations(t *testing.T) {
	t.Parallel()
	const tree = "a=1 d/x=2 d/e/y=large f/z:large"
	tests := []struct{ name, words, want string }{
		{"add", "b=3", "2: a=1 b=3 d/ f/ d/e/ d/x=2 d/e/y=large f/z=large"},
		{"add with folders", "n/m/o=5", "2: a=1 d/ f/ n/ d/e/ d/x=2 d/e/y=large f/z=large n/m/ n/m/o=5"},
		{"overwrite", "a=9 d/x:large", "2: a=9 d/ f/ d/e/ d/x=large d/e/y=large f/z=large"},
		{"the same", "a=1 d/e/y=large f/z:large", "1: a=1 d/ f/ d/e/ d/x=2 d/e/y=large f/z=large"},
		{"the same as another kind", "f/z=large d/e/y:large", "1: a=1 d/ f/ d/e/ d/x=2 d/e/y=large f/z=large"},
		{"nothing", "", "1: a=1 d/ f/ d/e/ d/x=2 d/e/y=large f/z=large"},
		{"empty", "a=", "2: a= d/ f/ d/e/ d/x=2 d/e/y=large f/z=large"},
		{"empty by its hash", "a:", "2: a= d/ f/ d/e/ d/x=2 d/e/y=large f/z=large"},
		{"remove", "-a", "2: d/ f/ d/e/ d/x=2 d/e/y=large f/z=large"},
		{"remove the last file of a folder", "-f/z", "2: a=1 d/ d/e/ d/x=2 d/e/y=large"},
		{"remove the last files of two folders", "-d/x -d/e/y", "2: a=1 f/ f/z=large"},
		{"remove a folder", "-d/", "2: a=1 f/ f/z=large"},
		{"remove all", "-a -d/ -f/", "2:"},
		{"remove a folder inside", "-d/e/", "2: a=1 d/ f/ d/x=2 f/z=large"},
		{"remove and fill again", "-d/ d/n=6", "2: a=1 d/ f/ d/n=6 f/z=large"},
		{"remove and fill with the same", "-d/ d/x=2", "2: a=1 d/ f/ d/x=2 f/z=large"},
		{"remove and add", "-a a=7", "2: a=7 d/ f/ d/e/ d/x=2 d/e/y=large f/z=large"},
		{"remove and add the same", "-a a=1", "1: a=1 d/ f/ d/e/ d/x=2 d/e/y=large f/z=large"},
		{"a folder becomes a file", "-d/ d=8", "2: a=1 d=8 f/ f/z=large"},
		{"a folder becomes a file, by the removal of its files", "-d/x -d/e/y d=8", "2: a=1 d=8 f/ f/z=large"},
		{"a folder inside becomes a file", "-d/e/y d/e=8", "2: a=1 d/ f/ d/e=8 d/x=2 f/z=large"},
		{"a file becomes a folder", "-a a/b=8", "2: a/ d/ f/ a/b=8 d/e/ d/x=2 d/e/y=large f/z=large"},
		{"copy", "c<f/z", "2: a=1 c=large d/ f/ d/e/ d/x=2 d/e/y=large f/z=large"},
		{"move a file", "c<a -a", "2: c=1 d/ f/ d/e/ d/x=2 d/e/y=large f/z=large"},
		{"move a folder", "g/x<d/x g/e/y<d/e/y -d/", "2: a=1 f/ g/ f/z=large g/e/ g/x=2 g/e/y=large"},
		{"copy from an old revision", "c<a@old", "2: a=1 c=1 d/ f/ d/e/ d/x=2 d/e/y=large f/z=large"},
		{"copy of the tree before", "c<a a=5", "2: a=5 c=1 d/ f/ d/e/ d/x=2 d/e/y=large f/z=large"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newFixture(t)
			if _, err := d.uploads.PutContents(t.Context(), "session", strings.NewReader(large)); err != nil {
				t.Fatal(err)
			}
			before := d.must("first", "", tree)
			id := d.must("second", "", tt.words)
			if got := d.see(symbol); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if changed := !strings.HasPrefix(tt.want, "1:"); (id != before) != changed {
				t.Errorf("commit %s after %s", id, before)
			}
			if again := d.must("second", "", tt.words); again != id || d.see(symbol) != tt.want {
				t.Errorf("the commit again is %s, want %s: %s", again, id, d.see(symbol))
			}
		})
	}
}

// Each content of a file has its own time, also if commits follow each other within a second. A copy
// that has the size and time of a file counts as complete.
func TestTimeOfReplacedFile(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	now := time.Unix(1_700_000_000, 5e8)
	d.o.Clock = func() time.Time { return now }
	var got []int64
	for _, words := range []string{"a=1", "a=2", "a=2 b=1", "a=3"} {
		d.must(words, "", words)
		tree, err := d.o.Writer.Catalog().Open(t.Context(), symbol, names.AsOf{})
		if err != nil {
			t.Fatal(err)
		}
		e, err := tree.Lookup(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e.ModTime.Unix()-now.Unix())
	}
	if want := []int64{0, 1, 1, 2}; !slices.Equal(got, want) {
		t.Errorf("the file changed after %d seconds, want %d", got, want)
	}
}

// A commit that cannot be applied changes nothing.
func TestRefused(t *testing.T) {
	t.Parallel()
	const tree = "a=1 d/x=2"
	tests := []struct {
		name, words string
		status      int
		contains    string
	}{
		{"remove what is absent", "a=2 -b", 404, `no "b"`},
		{"remove a folder that is absent", "-b/", 404, `no "b"`},
		{"remove a folder as a file", "-d", 400, "is a directory"},
		{"remove a file as a folder", "-a/", 400, "is a file"},
		{"copy what is absent", "b<c", 404, `no "c"`},
		{"copy a folder", "b<d", 400, "only files"},
		{"a file in the place of a folder", "d=1", 400, "both a file and a folder"},
		{"a file in the place of a folder that keeps a file", "-d/x d=1 d/y=2", 400, "both a file and a folder"},
		{"a file below a file", "a/b=1", 400, "both a file and a folder"},
		{"a file below a new file", "n=1 n/b=1", 400, "both a file and a folder"},
		{"content that no client uploaded", "b:largeunknown", 400, "was not uploaded"},
	}
	d := newFixture(t)
	d.must("first", "", tree)
	for _, tt := range tests {
		_, err := d.commit("second", "", tt.words)
		var r *hubserve.Refusal
		if !errors.As(err, &r) || r.Status != tt.status || !strings.Contains(r.Text, tt.contains) {
			t.Errorf("%s: %v, want %d %s", tt.name, err, tt.status, tt.contains)
		}
	}
	if _, err := d.commit("second", "", "b<a@new"); !errors.Is(err, hub.ErrRevisionNotFound) {
		t.Errorf("a copy from an unknown revision: %v", err)
	}
	d.uploads.leases = errors.New("expired")
	if _, err := d.commit("second", "", "b=large"); err == nil || !strings.Contains(err.Error(), `upload these files again: ["b"]`) {
		t.Errorf("a lease that has expired: %v", err)
	}
	if got := d.see(symbol); got != "1: a=1 d/ d/x=2" {
		t.Errorf("the tree is %s", got)
	}
}

// A commit names what the session uploaded to another server. It recalls files until it has found
// the content, and all files once.
func TestRecalledContent(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	for _, content := range []string{"large", "large2"} {
		if _, err := d.uploads.PutContents(t.Context(), upload.SessionID(content), strings.NewReader(contentOf(content))); err != nil {
			t.Fatal(err)
		}
		d.uploads.earlier = append(d.uploads.earlier, d.uploads.files[upload.SessionID(content)])
	}
	for _, tt := range []struct {
		words   string
		isFound bool
		recalls int // of all commits so far
	}{
		{"a:large b:large", true, 1},
		{"c:large", true, 1},
		{"d:large2", true, 3},
		{"e:large3", false, 5},
	} {
		_, err := d.commit(tt.words, "", tt.words)
		if (err == nil) != tt.isFound || d.uploads.recalls != tt.recalls {
			t.Errorf("%s: %v, %d recalls, want %d", tt.words, err, d.uploads.recalls, tt.recalls)
		}
	}
}

// The hash of content that another session has uploaded grants no access, and a wrong size is
// refused.
func TestForeignContent(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	if _, err := d.uploads.PutContents(t.Context(), "other", strings.NewReader(large)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.commit("first", "", "a:large"); err == nil || !strings.Contains(err.Error(), "was not uploaded by this client") {
		t.Errorf("content of another session: %v", err)
	}
	text := strings.Replace(body("first", "", "a:large"), fmt.Sprint(len(large)), "3", 1)
	c, err := hubwrite.ReadCommit(strings.NewReader(text), hubwrite.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.Commit(t.Context(), &Request{Symbol: symbol, Session: "other", Commit: c})
	if err == nil || !strings.Contains(err.Error(), "the commit says 3") {
		t.Errorf("a wrong size: %v", err)
	}
}

// The parent must be the newest commit. A commit that is sent again is the same commit, also after
// a restart and after others.
func TestParentAndResend(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	first := d.must("first", "", "a=1 b=1")
	second := d.must("second", first, "a=2 -b")
	d.restart()
	if again := d.must("second", first, "a=2 -b"); again != second {
		t.Errorf("sent again: %s, want %s", again, second)
	}
	third := d.must("third", second, "c=3")
	if again := d.must("second", first, "a=2 -b"); again != second {
		t.Errorf("sent again after another: %s, want %s", again, second)
	}
	for _, stale := range []struct{ title, parent, words string }{
		{"second", first, "a=2"}, {"other", first, "a=2 -b"}, {"fourth", second, "d=4"}, {"fourth", strings.Repeat("0", 40), "d=4"},
		{"fourth", second, "d=" + strings.Repeat("x", 2*page.MaxInline)},
	} {
		puts := d.uploads.puts
		_, err := d.commit(stale.title, stale.parent, stale.words)
		var r *hubserve.Refusal
		if !errors.As(err, &r) || r.Status != 412 || !strings.Contains(r.Text, third) {
			t.Errorf("%v: %v, want 412", stale, err)
		}
		if d.uploads.puts != puts {
			t.Errorf("%v: its content was stored", stale)
		}
	}
	// Without a parent, the removal of an absent file shows that the commit was made.
	fourth := d.must("fourth", "", "-c x<a")
	d.must("fifth", "", "y=1")
	d.restart()
	if again := d.must("fourth", "", "-c x<a"); again != fourth {
		t.Errorf("a removal sent again: %s, want %s", again, fourth)
	}
	if got := d.see(symbol); got != "5: a=2 x=2 y=1" {
		t.Errorf("the tree is %s", got)
	}
	// The same content again is a new commit if another one was between.
	d.must("sixth", "", "y=2")
	if d.must("fifth", "", "y=1"); d.see(symbol) != "7: a=2 x=2 y=1" {
		t.Errorf("an older content again: %s", d.see(symbol))
	}
}

// A readStore counts reads of versions, all of them and those while a lock is held.
type readStore struct {
	origin.WriteStore
	m           *Maker
	all, locked int
}

func (s *readStore) Get(ctx context.Context, k names.Key, seen origin.Tag) ([]byte, origin.Tag, error) {
	if p, err := names.ParseKey(k); err == nil && p.Kind == names.VersionKind {
		s.all++
		for _, l := range s.m.locks {
			s.locked += len(l)
		}
	}
	return s.WriteStore.Get(ctx, k, seen)
}

// A commit that makes no version searches the history without the lock of its symbol.
func TestSearchWithoutLock(t *testing.T) {
	t.Parallel()
	const commits = 20
	d := newFixture(t)
	for i := range commits {
		d.must(fmt.Sprint(i), "", fmt.Sprintf("a=%d b=1", i))
	}
	under := d.store
	for _, tt := range []struct {
		name, parent, words string
		status              int
	}{
		{"empty", "", "", 0}, {"no change", "", "b=1", 0}, {"refused", "", "-c", 404},
		{"unknown parent", strings.Repeat("0", 40), "c=1", 412},
	} {
		s := &readStore{WriteStore: under}
		d.store = s
		d.restart() // with no version in memory
		s.m = d.Maker
		_, err := d.commit(tt.name, tt.parent, tt.words)
		var r *hubserve.Refusal
		if errors.As(err, &r) && r.Status != tt.status || (err != nil) != (tt.status != 0) {
			t.Errorf("%s: %v, want %d", tt.name, err, tt.status)
		}
		if s.all < commits || s.locked > 2 {
			t.Errorf("%s: %d versions were read, %d under the lock", tt.name, s.all, s.locked)
		}
	}
}

// The number of versions does not change the requests under the lock of a symbol, even if the newest
// versions are deleted.
func TestRequestsUnderLock(t *testing.T) {
	t.Parallel()
	var want map[string]int
	for _, deleted := range []int{0, 1, 50} {
		d := newFixture(t)
		for i := range deleted + 2 {
			d.must(fmt.Sprint(i), "", fmt.Sprintf("a=%d", i))
		}
		var newest []uint64
		for i := range deleted {
			newest = append(newest, uint64(i+3))
		}
		if deleted > 0 {
			if err := d.o.Writer.Delete(t.Context(), symbol, newest...); err != nil {
				t.Fatal(err)
			}
		}
		got := map[string]int{} // by method and prefix of the key
		f := origintest.WithFaults(d.store)
		d.store = f
		d.restart() // with no version in memory
		f.Before = func(_ context.Context, c origintest.Call) error {
			for _, l := range d.locks {
				if len(l) > 0 {
					prefix, _, _ := strings.Cut(string(c.Key), "/")
					got[c.Op+" "+prefix]++
				}
			}
			return nil
		}
		d.must("last", "", "b=1")
		if want == nil {
			want = got
		}
		if !maps.Equal(got, want) || got["PutIfMatch vref"] != 1 || got["Get ver"] != 0 {
			t.Errorf("%d deleted versions: requests under the lock %v, want %v", deleted, got, want)
		}
	}
}

// A regular file has git's name, which belongs to its content alone. Content that the tree has is
// not stored again.
func TestGitOID(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	d.must("first", "", "a=large b=1")
	tree, err := d.o.Writer.Catalog().Open(t.Context(), symbol, names.AsOf{})
	if err != nil {
		t.Fatal(err)
	}
	e, err := tree.Lookup(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	sum := gitSum([]byte(large))
	if got := GitOID(&e); got != fmt.Sprintf("%x", sum) {
		t.Errorf("git's name is %q", got)
	}
	e.ID.File[0]++
	if got := GitOID(&e); got != "" {
		t.Errorf("git's name of other content is %q", got)
	}
	if d.must("second", "", "a=large c=2"); d.uploads.puts != 1 {
		t.Errorf("%d calls stored the content, want 1", d.uploads.puts)
	}
}

// The version has title, description and author.
func TestTexts(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	c, err := hubwrite.ReadCommit(strings.NewReader(`{"key":"header","value":{"summary":"title","description":"two\nlines\n"}}`+"\n"+`{"key":"file","value":{"path":"a","content":"1"}}`), hubwrite.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Commit(t.Context(), &Request{Symbol: symbol, Author: "me", Commit: c}); err != nil {
		t.Fatal(err)
	}
	for v, err := range d.o.Writer.Catalog().History(t.Context(), symbol) {
		if err != nil || v.Message != "title\n\ntwo\nlines" || v.Writer != "me" || len(v.Labels[LabelDigest]) != 32 {
			t.Errorf("%+v, %v", v, err)
		}
		break
	}
}

// Two servers and two clients at each make commits at once. None is lost, and none is doubled
// although each is sent twice.
func TestConcurrentCommits(t *testing.T) {
	t.Parallel()
	const commits = 20
	d := newFixture(t)
	other := &fixture{t: t, store: d.store, uploads: d.uploads}
	other.restart()
	var wg sync.WaitGroup
	for client, at := range []*fixture{d, d, other, other} {
		wg.Go(func() {
			for i := range commits {
				words := fmt.Sprintf("c%d/f%d=%d", client, i, i)
				for deadline := time.Now().Add(time.Minute); ; {
					_, err := at.commit(fmt.Sprintf("commit %d of %d", i, client), "", words)
					var r *hubserve.Refusal
					if errors.As(err, &r) && r.Status == 503 && time.Now().Before(deadline) {
						continue
					}
					if err != nil {
						t.Error(err)
						return
					}
					if _, err := at.commit(fmt.Sprintf("commit %d of %d", i, client), "", words); err != nil {
						t.Error(err)
					}
					break
				}
			}
		})
	}
	wg.Wait()
	got := d.see(symbol)
	if n := strings.Count(got, "="); n != 4*commits || !strings.HasPrefix(got, fmt.Sprintf("%d:", 4*commits)) {
		t.Errorf("%d files: %s", n, got)
	}
}

// A repository is created once, deleted with all versions, and moved with its history.
func TestRepositories(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	if err := d.Create(t.Context(), symbol, "me"); !errors.Is(err, hubwrite.ErrRepoExists) {
		t.Errorf("create again: %v", err)
	}
	for _, bad := range []string{"", "a//b", "../a", "*a", strings.Repeat("a", 300)} {
		var r *hubserve.Refusal
		if err := d.Create(t.Context(), bad, "me"); !errors.As(err, &r) || r.Status != 400 {
			t.Errorf("create %.20q: %v", bad, err)
		}
	}
	var r *hubserve.Refusal
	if err := d.Create(t.Context(), symbol+"/below", "me"); !errors.As(err, &r) || r.Status != 409 {
		t.Errorf("create below another: %v", err)
	}
	d.must("first", "", "a=1")
	id := d.must("second", "", "b=large")
	if err := d.Move(t.Context(), symbol, "org/new"); err != nil {
		t.Fatal(err)
	}
	if old, moved := d.see(symbol), d.see("org/new"); !strings.HasPrefix(moved, "2: a=1 b=large") || !strings.Contains(old, "no live version") && !strings.Contains(old, "no such symbol") && !strings.Contains(old, "deleted") {
		t.Errorf("moved: %s; old: %s", moved, old)
	}
	var titles []string
	for v, err := range d.o.Writer.Catalog().History(t.Context(), "org/new") {
		if err != nil {
			t.Fatal(err)
		}
		titles = append(titles, v.Message)
		if len(titles) == 1 && d.o.ID(v) != id {
			t.Errorf("the newest commit is %s, want %s", d.o.ID(v), id)
		}
	}
	if !slices.Equal(titles, []string{"second", "first", "initial commit"}) {
		t.Errorf("history %q", titles)
	}
	for name, err := range map[string]error{
		"move an absent one": d.Move(t.Context(), symbol, "org/other"), "delete an absent one": d.Delete(t.Context(), symbol),
		"delete one that never was": d.Delete(t.Context(), "org/never"),
	} {
		if !errors.Is(err, hub.ErrRepoNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := d.commit("third", "", "c=3"); !errors.Is(err, hub.ErrRepoNotFound) {
		t.Errorf("commit to a deleted one: %v", err)
	}
	if err := d.Create(t.Context(), symbol, "me"); err != nil {
		t.Errorf("create a deleted one: %v", err)
	}
	if err := d.Move(t.Context(), "org/new", symbol); !errors.Is(err, hubwrite.ErrRepoExists) {
		t.Errorf("move to one that exists: %v", err)
	}
	if err := d.Delete(t.Context(), "org/new"); err != nil {
		t.Error(err)
	}
}
