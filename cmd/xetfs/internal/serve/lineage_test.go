package serve

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"iter"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cache/origin/hub"
	"github.com/xetfs/xetfs/cache/origin/hub/hubserve"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/commits"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
	"github.com/xetfs/xetfs/fs/catalog/writer"
)

// A downStore counts reads of documents, and does not answer while it is down.
type downStore struct {
	origin.Store
	down  atomic.Bool
	reads atomic.Int64
	after map[names.Key]func() // called once, after a document was read
}

func (s *downStore) Get(ctx context.Context, k names.Key, seen origin.Tag) ([]byte, origin.Tag, error) {
	if s.down.Load() {
		return nil, "", fmt.Errorf("test: %w", origin.ErrUnavailable)
	}
	s.reads.Add(1)
	value, tag, err := s.Store.Get(ctx, k, seen)
	if after := s.after[k]; after != nil {
		delete(s.after, k)
		after()
	}
	return value, tag, err
}

// A history is a catalog whose symbol o/n has versions of one file each. Version i has the tag vI,
// and the file has its number.
type history struct {
	t     *testing.T
	w     *writer.Writer
	store *downStore
	repos *Repos
	n     int // versions
}

func newHistory(t *testing.T, versions int) *history {
	t.Helper()
	store, err := dir.Open(filepath.Join(t.TempDir(), "store"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	h := &history{t: t, store: &downStore{Store: store}}
	if h.w, err = writer.Open(t.Context(), store, origin.Pages(store), writer.Options{}); err != nil {
		t.Fatal(err)
	}
	h.publish(versions)
	c, err := catalog.Open(t.Context(), h.store, origin.Pages(store))
	if err != nil {
		t.Fatal(err)
	}
	h.repos = NewRepos(c, true, slog.New(slog.DiscardHandler))
	return h
}

func (h *history) publish(n int) {
	h.t.Helper()
	for range n {
		text := []byte(fmt.Sprint(h.n))
		h.publishEntry(page.Entry{Path: "file", Size: int64(len(text)), Inline: text})
	}
}

// publishEntry publishes a version with one file, and with labels in pairs.
func (h *history) publishEntry(e page.Entry, labels ...string) {
	h.t.Helper()
	all := map[string]string{"tag": fmt.Sprint("v", h.n)}
	for pair := range slices.Chunk(labels, 2) {
		all[pair[0]] = pair[1]
	}
	h.publishTo("o/n", e, all)
	h.n++
}

// publishTo publishes a version of a symbol.
func (h *history) publishTo(symbol string, e page.Entry, labels map[string]string) {
	h.t.Helper()
	s, err := h.w.Begin(h.t.Context(), symbol, writer.PublishOptions{Labels: labels})
	if err == nil {
		_, err = s.Replace(h.t.Context(), entries(page.Entry{Type: page.Dir}, e))
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

func entries(all ...page.Entry) iter.Seq2[page.Entry, error] {
	return func(yield func(page.Entry, error) bool) {
		for _, e := range all {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// commit returns the commit of a revision.
func (h *history) commit(revision string) hubserve.Commit {
	h.t.Helper()
	c, err := h.repos.Resolve(h.t.Context(), hub.RepoID{Type: hub.Model, Name: "o/n"}, revision)
	if err != nil {
		h.t.Fatal(err)
	}
	return c
}

// has compares the file of a revision; want is -1 for an absent revision.
func (h *history) has(revision string, want int) {
	h.t.Helper()
	c, err := h.repos.Resolve(h.t.Context(), hub.RepoID{Type: hub.Model, Name: "o/n"}, revision)
	if want < 0 || err != nil {
		if want >= 0 || !errors.Is(err, hub.ErrRevisionNotFound) {
			h.t.Errorf("%s: %v, want %d", revision, err, want)
		}
		return
	}
	f, err := c.Lookup(h.t.Context(), "file")
	if err != nil || string(f.Inline) != fmt.Sprint(want) {
		h.t.Errorf("%s: %q, %v, want %d", revision, f.Inline, err, want)
	}
}

// Every live version is found by tag and by commit, however long ago it was published.
func TestLineageIsLong(t *testing.T) {
	const n = 3*readAhead + 10
	h := newHistory(t, n)
	before := h.store.reads.Load()
	h.has("main", n-1)
	if reads := h.store.reads.Load() - before; reads > 5 {
		t.Errorf("%d documents were read for the newest version", reads)
	}
	for _, i := range []int{n - 1, n - 2, 2 * readAhead, readAhead, 1, 0} {
		h.has(fmt.Sprint("v", i), i)
	}
	before = h.store.reads.Load()
	h.has("v0", 0)
	h.has("absent", -1)
	if reads := h.store.reads.Load() - before; reads > 8 { // two references with their settings, and a snapshot
		t.Errorf("%d documents were read again", reads)
	}
	h.has(h.commit("v0").ID(), 0)
	_, tags, err := h.repos.Refs(t.Context(), hub.RepoID{Type: hub.Model, Name: "o/n"})
	if err != nil || len(tags) != n {
		t.Errorf("%d tags, %v, want %d", len(tags), err, n)
	}
}

// New versions are seen, few or many, and deleted ones are not found.
func TestLineageAdvances(t *testing.T) {
	h := newHistory(t, 3)
	h.has("v0", 0)
	for _, more := range []int{1, 2 * readAhead} {
		h.publish(more)
		h.has("main", h.n-1)
		h.has("v0", 0)
		h.has(fmt.Sprint("v", h.n-2), h.n-2)
	}
	if err := h.w.Delete(t.Context(), "o/n", 0, uint64(h.n-1)); err != nil {
		t.Fatal(err)
	}
	h.has("main", h.n-2)
	h.has("v0", -1)
	h.has(fmt.Sprint("v", h.n-1), -1)
	h.has("v1", 1)
}

// Two versions with different trees have the same label. Their commits differ, however many of the
// versions were read, and that of the older one does not change.
func TestCommitOfEqualLabels(t *testing.T) {
	const commit = "0123456789abcdef0123456789abcdef01234567"
	h := newHistory(t, 1)
	id := func(revision string) string { return h.commit(revision).ID() }
	publish := func() {
		h.publishEntry(page.Entry{Path: "file", Size: 1, Inline: []byte{byte('0' + h.n)}}, "git_commit", commit)
	}
	publish()
	for _, name := range []string{"main", "v1", commit} {
		if got := id(name); got != commit {
			t.Errorf("%s of one label: commit %s, want %s", name, got, commit)
		}
	}
	publish()
	for range 2 {
		newest := id("main")
		if newest == commit || id("v2") != newest || id("v1") != commit {
			t.Errorf("commits %s, %s and %s", newest, id("v2"), id("v1"))
		}
		h.has(newest, 2)
		h.has(commit, 1)
		h.repos.lineages = newLineages(h.repos.catalog, true)
	}
	list, _, total, err := h.repos.Commits(t.Context(), hub.RepoID{Type: hub.Model, Name: "o/n"}, h.commit("main"), "", 10)
	if err != nil || total != 3 || list[0].ID != id("main") || list[1].ID != commit {
		t.Errorf("%d commits: %v, %v", total, list, err)
	}
	h.publish(2 * readAhead)
	if _, tags, err := h.repos.Refs(t.Context(), hub.RepoID{Type: hub.Model, Name: "o/n"}); err != nil || len(tags) != h.n {
		t.Errorf("%d tags, %v, want %d", len(tags), err, h.n)
	}
	h.has(commit, 1)
}

// A symbol changes while a slow request has read its old reference, or none. The next request sees the
// new version, also of a store whose references are read rarely, and older versions are still in memory.
func TestLineageExpires(t *testing.T) {
	h := newHistory(t, readAhead)
	c, err := catalog.Open(t.Context(), h.store, origin.Pages(h.store.Store))
	if err != nil {
		t.Fatal(err)
	}
	for _, isKnown := range []bool{false, true} {
		h.repos = NewRepos(c, false, slog.New(slog.DiscardHandler))
		if isKnown {
			h.has("v0", 0)
			h.repos.lineages.expire("o/n")
		}
		old := h.n - 1
		h.store.after = map[names.Key]func(){names.RefKey("o/n"): func() {
			h.publish(1)
			h.repos.lineages.expire("o/n")
		}}
		h.has("main", old)
		if h.n != old+2 {
			t.Fatal("the reference was not read: the test shows nothing")
		}
		before := h.store.reads.Load()
		h.has("main", old+1)
		h.has("v0", 0)
		if reads := h.store.reads.Load() - before; isKnown && reads > 5 {
			t.Errorf("%d documents were read again", reads)
		}
	}
}

// While the store does not answer, the versions that were read are still found.
func TestLineageOfStoreThatIsDown(t *testing.T) {
	h := newHistory(t, 3)
	h.has("v0", 0)
	h.store.down.Store(true)
	h.has("main", 2)
	h.has("v1", 1)
	if _, err := h.repos.Resolve(t.Context(), hub.RepoID{Type: hub.Model, Name: "o/other"}, ""); !errors.Is(err, origin.ErrUnavailable) {
		t.Errorf("another symbol: %v", err)
	}
}

// A snapshot of an old version has the commit of its label, also if the request is the first one.
func TestCommitOfOldSnapshot(t *testing.T) {
	const commit = "0123456789abcdef0123456789abcdef01234567"
	h := newHistory(t, 0)
	h.publishEntry(page.Entry{Path: "file", Size: 1, Inline: []byte("0")}, "git_commit", commit)
	if _, err := h.w.Snapshot(t.Context(), "snap", "", map[string]names.AsOf{"o/n": {}}, false); err != nil {
		t.Fatal(err)
	}
	h.publish(2*readAhead + 1)
	for _, when := range []string{"first request", "later request"} {
		_, tags, err := h.repos.Refs(t.Context(), hub.RepoID{Type: hub.Model, Name: "o/n"})
		if err != nil || !slices.Contains(tags, hubserve.Ref{Name: "snap", Commit: commit}) {
			t.Errorf("%s: tags %v, %v, want snap with commit %s", when, tags[max(0, len(tags)-1):], err, commit)
		}
	}
	h.repos.lineages = newLineages(h.repos.catalog, true)
	if got := h.commit("snap").ID(); got != commit {
		t.Errorf("the first request for the snapshot: commit %s, want %s", got, commit)
	}
}

// A damaged snapshot is no tag, and the log has it once. All other tags are listed.
func TestRefsWithDamagedSnapshot(t *testing.T) {
	h := newHistory(t, 1)
	var log strings.Builder
	h.repos.log = slog.New(slog.NewTextHandler(&log, nil))
	for _, name := range []string{"a", "b", "c"} {
		if _, err := h.w.Snapshot(t.Context(), name, "", map[string]names.AsOf{"o/n": {}}, false); err != nil {
			t.Fatal(err)
		}
	}
	key := names.SnapshotKey("b")
	value, tag, err := h.store.Get(t.Context(), key, "")
	if err != nil {
		t.Fatal(err)
	}
	value[len(value)/2] ^= 1
	if _, err := h.store.Store.(origin.WriteStore).PutIfMatch(t.Context(), key, value, tag); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		branches, tags, err := h.repos.Refs(t.Context(), hub.RepoID{Type: hub.Model, Name: "o/n"})
		var found []string
		for _, tag := range tags {
			found = append(found, tag.Name)
		}
		if err != nil || len(branches) != 1 || !slices.Equal(found, []string{"v0", "a", "c"}) {
			t.Errorf("%d branches, tags %q, %v, want main and v0, a, c", len(branches), found, err)
		}
	}
	if strings.Count(log.String(), string(key)) == 0 || strings.Count(log.String(), "event=corrupt") != 1 {
		t.Errorf("the log does not have the snapshot once:\n%s", log.String())
	}
	if _, err := h.repos.Resolve(t.Context(), hub.RepoID{Type: hub.Model, Name: "o/n"}, "b"); !errors.Is(err, codec.ErrCorrupt) {
		t.Errorf("the damaged snapshot: %v, want %v", err, codec.ErrCorrupt)
	}
}

func TestNewVersion(t *testing.T) {
	const commit = "0123456789abcdef0123456789abcdef01234567"
	row := names.Row{Identity: page.Identity{0xab}}
	root := row.Identity.String()
	tests := []struct {
		labels map[string]string
		commit string
		tags   []string
	}{
		{nil, root[:40], nil},
		{map[string]string{"tag": "v1", "stage": "test"}, root[:40], []string{"stage=test", "v1"}},
		{map[string]string{"git_commit": commit}, commit, nil},
		{map[string]string{"commit": commit, "tag": "v1"}, commit, []string{"v1"}},
		{map[string]string{"commit": root[:40], "git_commit": commit}, commit, nil},
		{map[string]string{"git_commit": strings.ToUpper(commit)}, root[:40], []string{"git_commit=" + strings.ToUpper(commit)}},
		{map[string]string{commits.LabelDigest: "1", commits.LabelMoved: "2", "hub_left_out": "3: path", "tag": "v1"}, root[:40], []string{"v1"}},
		{map[string]string{"commit": "fix"}, root[:40], []string{"commit=fix"}},
	}
	for _, tt := range tests {
		v := newVersion(row, &names.Version{Labels: tt.labels, Message: "title\nbody"})
		if v.id != tt.commit || !slices.Equal(v.tags, tt.tags) || v.title != "title" {
			t.Errorf("%v: commit %s, tags %q, title %q; want %s, %q", tt.labels, v.id, v.tags, v.title, tt.commit, tt.tags)
		}
		for revision, want := range map[string]bool{tt.commit: true, root: true, root[:40]: true, root[:39]: false, "": false} {
			if v.isCommit(revision) != want {
				t.Errorf("%v: %q is the commit: %t, want %t", tt.labels, revision, !want, want)
			}
		}
	}
}

// shown is a file in Xet, by its first byte.
func shown(i byte) page.Entry {
	return page.Entry{Path: "shown", Size: 1000, ID: codec.FileID{File: codec.Hash{i, 1}}}
}

// findInBranch looks for a file as the CAS API does, and returns the number of documents that were read.
func (h *history) findInBranch(i byte) (reads int64, err error) {
	before := h.store.reads.Load()
	id, err := h.repos.findInBranch(h.t.Context(), "o/n", shown(i).ID.File)
	if err == nil && id != shown(i).ID {
		err = fmt.Errorf("id %v", id)
	}
	return h.store.reads.Load() - before, err
}

// A server that has not shown a file reads the newest trees, and the history only as far as these.
func TestFindInBranch(t *testing.T) {
	h := newHistory(t, 2*readAhead)
	h.publishEntry(shown(1))
	h.publish(maxSearched - 1)
	h.publishEntry(shown(2))
	if reads, err := h.findInBranch(2); err != nil || reads > 5 {
		t.Errorf("a file of the newest version: %d documents were read, %v", reads, err)
	}
	for range 2 {
		if reads, err := h.findInBranch(1); !errors.Is(err, iofs.ErrPermission) || reads > readAhead+5 {
			t.Errorf("a file of an older version: %d documents were read, %v", reads, err)
		}
	}
	h.has("v0", 0) // reads the history
	l, err := h.repos.lineages.get(t.Context(), "o/n")
	if err != nil {
		t.Fatal(err)
	}
	h.repos.files.add(l.versions[maxSearched].row.Root, shown(1).ID)
	if reads, err := h.findInBranch(1); err != nil || reads > 5 {
		t.Errorf("a file that was shown: %d documents were read, %v", reads, err)
	}
	if err := h.w.Delete(t.Context(), "o/n", l.versions[maxSearched].row.Number); err != nil {
		t.Fatal(err)
	}
	if _, err := h.findInBranch(1); !errors.Is(err, iofs.ErrPermission) {
		t.Errorf("a file of a deleted version: %v", err)
	}
}

// A list has each repository of a type once, and only those that the token may read.
func TestNames(t *testing.T) {
	h := newHistory(t, 1)
	for _, symbol := range []string{"gpt2", "models/o/n", "models/o/m", "datasets/o/n", "datasets/squad", "spaces/p/app", "a/b/c", "o/:n"} {
		h.publishTo(symbol, page.Entry{Path: "file", Size: 1, Inline: []byte("x")}, nil)
	}
	for _, tt := range []struct {
		kind     hub.RepoType
		patterns []string
		want     []string
	}{
		{hub.Model, nil, []string{"gpt2", "o/:n", "o/m", "o/n"}},
		{hub.Dataset, nil, []string{"o/n", "squad"}},
		{hub.Space, nil, []string{"p/app"}},
		{hub.Model, []string{"o/*"}, []string{"o/:n", "o/n"}},
		{hub.Model, []string{"models/o/*"}, []string{"o/m", "o/n"}},
		{hub.Dataset, []string{"o/*"}, nil},
	} {
		ctx := context.WithValue(t.Context(), grantKey{}, &grant{patterns: tt.patterns})
		if got, err := h.repos.Names(ctx, tt.kind); err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%s by %q: %q, %v, want %q", tt.kind, tt.patterns, got, err, tt.want)
		}
	}
	if got, err := NewRepos(nil, true, slog.New(slog.DiscardHandler)).Names(t.Context(), hub.Model); err != nil || got != nil {
		t.Errorf("a store without a catalog has %q, %v", got, err)
	}
	h.repos.mirror = "dataset/o/n"
	if got, err := h.repos.Names(t.Context(), hub.Dataset); err != nil || got != nil { // its catalog has no such symbol
		t.Errorf("a mirror has %q, %v", got, err)
	}
}
