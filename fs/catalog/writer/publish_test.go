package writer

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
	"github.com/xetfs/xetfs/fs/catalog/tree"
)

func TestPublish(t *testing.T) {
	inStores(t, func(t *testing.T, s origin.WriteStore) {
		if is, err := catalog.Exists(t.Context(), s); is || err != nil {
			t.Errorf("Is of an empty store = %v, %v", is, err)
		}
		d := newFixture(t, s)
		if is, err := catalog.Exists(t.Context(), s); !is || err != nil {
			t.Errorf("Is = %v, %v", is, err)
		}
		first := d.must(d.replace("org/model", "a=1 d/ d/x=2"))
		d.must(d.replace("data", "b=3"))
		d.must(d.replace("org/model", "a=1 l->a"))
		d.must(d.update("org/model", "d/e/y=4 -a"))
		again, err := d.Begin(t.Context(), "org/model", PublishOptions{Writer: "me", Message: "as before", Labels: map[string]string{"git_commit": "0f"}})
		if err != nil {
			t.Fatal(err)
		}
		if n := again.Head().Number; n != 2 {
			t.Errorf("head = %d", n)
		}
		d.must(again.Republish(t.Context(), first))

		other := newFixture(t, s)
		if other.Catalog().Settings().ID != d.Catalog().Settings().ID {
			t.Error("the catalog was made twice")
		}
		for at, want := range map[string]string{
			"0": "0: a=1 d/ d/x=2", "1": "1: a=1 l->a", "2": "2: d/ l->a d/e/ d/e/y=4", "latest": "3: a=1 d/ d/x=2",
			"ver:" + first.Identity.String(): "0: a=1 d/ d/x=2",
		} {
			if got := other.see("org/model", at); got != want {
				t.Errorf("%s: %q, want %q", at, got, want)
			}
		}
		if got := symbolsOf(t, other.Catalog()); got != "data org/model" {
			t.Errorf("symbols %q", got)
		}
		var said []string
		for v, err := range other.Catalog().History(t.Context(), "org/model") {
			if err != nil {
				t.Fatal(err)
			}
			said = append(said, fmt.Sprintf("%d %d %s%s", v.Seq, v.Number, v.Message, v.Labels["git_commit"]))
		}
		if want := []string{"4 3 as before0f", "3 2 d/e/y=4 -a", "2 1 a=1 l->a", "1 0 a=1 d/ d/x=2"}; !slices.Equal(said, want) {
			t.Errorf("history %q", said)
		}
	})
}

// Each thing is stored before what refers to it (catalog.md, section 8.1).
func TestPublishOrder(t *testing.T) {
	var mu sync.Mutex // pages are put at the same time
	var order []string
	f := origintest.WithFaults(origintest.Memory())
	f.Before = func(_ context.Context, c origintest.Call) error {
		if !c.Changes() {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		what := c.Op
		if p, err := names.ParseKey(c.Key); err == nil {
			what = p.Kind.String()
		}
		if n := len(order); n == 0 || order[n-1] != what {
			order = append(order, what)
		}
		return nil
	}
	d := newFixture(t, f)
	check := func(verb, want string) {
		t.Helper()
		if got := strings.Join(order, ", "); got != want {
			t.Errorf("%s: %s\nwant %s", verb, got, want)
		}
		order = nil
	}
	check("make", "settings, Sync")
	d.must(d.replace("m", wideTree(300, "x")))
	check("first", "index page, symbol, Sync, version, Sync, reference, Sync")
	d.must(d.replace("m", wideTree(300, "y")))
	check("second", "index page, Sync, version, Sync, reference")
	if err := d.Delete(t.Context(), "m", 0, 1); err != nil {
		t.Fatal(err)
	}
	check("delete", "Sync, version, Sync, reference, symbol")
}

// wideTree is a tree of several pages. Files have one content, so that trees differ in
// all pages if it does.
func wideTree(n int, content string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "dir%d/ dir%d/file=%s ", i, i, content)
	}
	return b.String()
}

// A tree similar to the newest one costs only the pages that differ. Pages precede those
// that link to them.
func TestPublishPages(t *testing.T) {
	var mu sync.Mutex
	var pages []page.Hash // guarded by mu
	f := origintest.WithFaults(origintest.Memory())
	f.Before = func(_ context.Context, c origintest.Call) error {
		mu.Lock()
		defer mu.Unlock()
		if p, err := names.ParseKey(c.Key); err == nil && c.Changes() && p.Kind == names.PageKind {
			pages = append(pages, p.Hash)
		}
		return nil
	}
	d := newFixture(t, f)
	count := func(words string) int {
		t.Helper()
		d.must(d.replace("m", words))
		n := len(pages)
		pages = nil
		return n
	}
	base := wideTree(500, "x")
	all := count(base)
	if all < 30 {
		t.Fatalf("only %d pages", all)
	}
	if n := count(base); n != 0 {
		t.Errorf("the same tree again puts %d pages", n)
	}
	if n := count(strings.Replace(base, "dir77/file=x", "dir77/file=y", 1)); n > 5 {
		t.Errorf("one changed file puts %d of %d pages", n, all)
	}
	other := newTestPublisher(t, f, d.options())
	b, err := other.Begin(t.Context(), "copy", PublishOptions{})
	if err != nil {
		t.Fatal(err)
	}
	d.must(b.Replace(t.Context(), seqOf(entriesOf(base))))
	if len(keysOf(t, f, names.PagePrefix)) > all+5 {
		t.Error("symbols do not share pages")
	}
}

func TestPublishIfNone(t *testing.T) {
	d := newFixture(t, origintest.Memory())
	begin := func() (*Session, error) { return d.Begin(t.Context(), "m", PublishOptions{IfNone: true}) }
	b, err := begin()
	if err != nil {
		t.Fatal(err)
	}
	d.must(d.replace("m", "a=0"))
	if _, err := b.Replace(t.Context(), seqOf(entriesOf("a=1"))); !errors.Is(err, ErrVersion) {
		t.Errorf("another publish was faster: %v", err)
	}
	if _, err := begin(); !errors.Is(err, ErrVersion) {
		t.Errorf("a live version: %v", err)
	}
	if err := d.Delete(t.Context(), "m", 0); err != nil {
		t.Fatal(err)
	}
	if b, err = begin(); err != nil {
		t.Fatal(err)
	}
	d.must(b.Replace(t.Context(), seqOf(entriesOf("a=2"))))
}

func TestDeleteAll(t *testing.T) {
	d := newFixture(t, origintest.Memory())
	if err := d.DeleteAll(t.Context(), "m", nil); !errors.Is(err, iofs.ErrNotExist) {
		t.Errorf("no symbol: %v", err)
	}
	for _, words := range []string{"a=0", "a=1", "a=2"} {
		d.must(d.replace("m", words))
	}
	if err := d.Delete(t.Context(), "m", 1); err != nil {
		t.Fatal(err)
	}
	stale, newest := uint64(1), uint64(2)
	if err := d.DeleteAll(t.Context(), "m", &stale); !errors.Is(err, ErrVersion) || len(liveOf(t, d.Catalog(), "m")) != 2 {
		t.Errorf("another version: %v", err)
	}
	if err := d.DeleteAll(t.Context(), "m", &newest); err != nil || len(liveOf(t, d.Catalog(), "m")) != 0 {
		t.Errorf("all: %v", err)
	}
	if err := d.DeleteAll(t.Context(), "m", nil); !errors.Is(err, iofs.ErrNotExist) {
		t.Errorf("again: %v", err)
	}
}

func TestPublishIfVersion(t *testing.T) {
	d := newFixture(t, origintest.Memory())
	begin := func(n uint64) (*Session, error) {
		return d.Begin(t.Context(), "m", PublishOptions{IfVersion: &n})
	}
	if _, err := begin(0); !errors.Is(err, ErrVersion) {
		t.Errorf("no symbol: %v", err)
	}
	d.must(d.replace("m", "a=0"))
	if _, err := begin(1); !errors.Is(err, ErrVersion) {
		t.Errorf("another version: %v", err)
	}
	b, err := begin(0)
	if err != nil {
		t.Fatal(err)
	}
	late, err := begin(0)
	if err != nil {
		t.Fatal(err)
	}
	d.must(b.Replace(t.Context(), seqOf(entriesOf("a=1"))))
	if _, err := late.Replace(t.Context(), seqOf(entriesOf("a=2"))); !errors.Is(err, ErrVersion) {
		t.Errorf("another publish was faster: %v", err)
	}
	// A deletion is a change, too, but not of the newest version.
	n := uint64(1)
	b, err = begin(n)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Delete(t.Context(), "m", 0); err != nil {
		t.Fatal(err)
	}
	d.must(b.Replace(t.Context(), seqOf(entriesOf("a=3"))))
	if got := d.see("m", "latest"); got != "2: a=3" {
		t.Error(got)
	}
}

// S01: names that no tree can have, and trees that are none.
func TestPublishRefusesS01(t *testing.T) {
	d := newFixture(t, origintest.Memory())
	long := strings.Repeat("x", 256)
	file := func(path string) page.Entry { return page.Entry{Path: path, Mode: 0o644, ModTime: mtime} }
	root := entryOf("/")
	linked := file("x")
	linked.Target = "y"
	big := file("x")
	big.Inline, big.Size = []byte("12"), 3
	tests := []struct {
		name    string
		entries []page.Entry
		reason  string
	}{
		{"empty name", []page.Entry{root, file("/a")}, "empty"},
		{"absolute", []page.Entry{root, file("/")}, "empty"},
		{"slash at the end", []page.Entry{root, file("a/")}, "empty"},
		{"dot", []page.Entry{root, file(".")}, `"."`},
		{"dot dot", []page.Entry{root, file("d/..")}, `".."`},
		{"NUL", []page.Entry{root, file("a\x00b")}, "NUL"},
		{"too long", []page.Entry{root, file(long)}, "256"},
		{"twice", []page.Entry{root, file("a"), file("a")}, "not above"},
		{"file and directory", []page.Entry{root, file("a"), entryOf("a/")}, "not above"},
		{"not in order", []page.Entry{root, file("b"), file("a")}, "not above"},
		{"no root", []page.Entry{file("a")}, "no entry for its root"},
		{"nothing", nil, "no entry for its root"},
		{"root is a file", []page.Entry{file("")}, "root is not a directory"},
		{"no directory", []page.Entry{root, file("d/a")}, "no directory"},
		{"in a file", []page.Entry{root, file("d"), file("d/a")}, "no directory"},
		{"the versions", []page.Entry{root, entryOf(".versions/")}, "taken"},
		{"target of a file", []page.Entry{root, linked}, "target"},
		{"content of another size", []page.Entry{root, big}, "content of 2 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b, err := d.Begin(t.Context(), "m", PublishOptions{})
			if err != nil {
				t.Fatal(err)
			}
			_, err = b.Replace(t.Context(), seqOf(tt.entries))
			if err == nil || !strings.Contains(err.Error(), tt.reason) {
				t.Errorf("Replace: %v, want %q", err, tt.reason)
			}
			for _, e := range tt.entries[:min(1, len(tt.entries))] {
				if e.Path != "" && page.CheckPath(e.Path) != nil {
					if _, err := b.Update(t.Context(), []page.Change{{New: &e}}); err == nil {
						t.Error("Update takes it")
					}
				}
			}
		})
	}
	if got := d.see("m", ""); !strings.HasPrefix(got, "ENOENT") {
		t.Errorf("published: %q", got)
	}
	// Odd but legal entries are returned byte for byte. S03: links are only text.
	odd := "\xff\xfe=1 a\nb=2 \x1b[31m=3 sub/ sub/.versions=4 up->../../etc up2->/proc/self/environ loop->loop"
	list := []page.Entry{root}
	for _, word := range strings.Split(odd, " ") {
		list = append(list, entryOf(word))
	}
	slices.SortFunc(list, func(a, b page.Entry) int { return page.ComparePaths(a.Path, b.Path) })
	b, err := d.Begin(t.Context(), "m", PublishOptions{})
	if err != nil {
		t.Fatal(err)
	}
	d.must(b.Replace(t.Context(), seqOf(list)))
	tree, err := d.Catalog().Open(t.Context(), "m", names.AsOf{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if got, err := tree.Lookup(t.Context(), e.Path); err != nil || !got.Equal(&e) {
			t.Errorf("%q: %+v, %v", e.Path, got, err)
		}
	}
}

func TestPublishSymbolsS01(t *testing.T) {
	d := newFixture(t, origintest.Memory())
	for _, symbol := range []string{"", ".", "..", "a/../b", "/a", "a/", "a//b", "*a", "a\nb", "a\x00", "\xff", "\x1b[m", strings.Repeat("x", 121)} {
		if _, err := d.replace(symbol, "a=1"); err == nil {
			t.Errorf("%q was published", symbol)
		}
		if _, err := d.Catalog().Open(t.Context(), symbol, names.AsOf{}); !errors.Is(err, iofs.ErrNotExist) {
			t.Errorf("Open(%q): %v", symbol, err)
		}
	}
	if keys := keysOf(t, d.store, ""); len(keys) != 1 {
		t.Errorf("left behind: %q", keys)
	}
	if _, err := d.Begin(t.Context(), "m", PublishOptions{Message: "\xff"}); err == nil {
		t.Error("a message that is not UTF-8 begins a publish")
	}
}

// Directories find what has no directory, whatever the tree: every tree in order is
// taken, and none is without one of its directories.
func TestDirectories(t *testing.T) {
	add := func(list []page.Entry) error {
		var d tree.Order
		for i := range list {
			if err := d.Add(&list[i]); err != nil {
				return err
			}
		}
		return nil
	}
	list := entriesOf("a/ a-b/ a/b/ a/b/c/ a/b/c/x=1 a/b/c/y=1 a/b/d/ a/b/d/x=1 a-b/x=1 a.b=1 b/ c/ c/x=1 d/ d/e/ d/e/f/")
	if err := add(list); err != nil {
		t.Error(err)
	}
	for i, e := range list {
		if e.Type != page.Dir {
			continue
		}
		without := slices.Concat(list[:i], list[i+1:])
		needed := slices.ContainsFunc(without, func(o page.Entry) bool { return tree.Parent(o.Path) == e.Path && o.Path != e.Path })
		if err := add(without); (err != nil) != needed {
			t.Errorf("without %q: %v", e.Path, err)
		}
	}
}

// F47: a damaged page of the newest tree does not prevent the publish of a whole tree.
// Unreadable pages are stored again, and equal pages stay.
func TestPublishOverDamageF47(t *testing.T) {
	for _, damage := range []string{"root", "last page", "missing root"} {
		t.Run(damage, func(t *testing.T) {
			d := newFixture(t, origintest.Memory())
			words := wideTree(200, "x")
			row := d.must(d.replace("m", words))
			switch damage {
			case "root":
				breakObject(t, d.store, names.PageKey(row.Root))
			case "missing root":
				if err := d.store.Delete(t.Context(), names.PageKey(row.Root)); err != nil {
					t.Fatal(err)
				}
			case "last page":
				root, err := origin.Pages(d.store).Page(t.Context(), row.Root)
				if err != nil {
					t.Fatal(err)
				}
				l, err := root.Link(root.Len() - 1)
				if err != nil {
					t.Fatal(err)
				}
				breakObject(t, d.store, names.PageKey(l.Page))
			}
			if got := d.see("m", ""); !strings.HasPrefix(got, "corrupt ") && !strings.HasPrefix(got, "lost ") {
				t.Errorf("read %.80q", got)
			}
			d.must(d.replace("m", strings.ReplaceAll(words, "=x", "=y")))
			if got := d.see("m", ""); !strings.HasPrefix(got, "1: dir0/") {
				t.Errorf("read %.80q", got)
			}
			if _, err := d.update("m", "a=1"); err != nil {
				t.Error(err)
			}
		})
	}
}

// breakObject flips a bit in the middle of an object.
func breakObject(t testing.TB, s origin.WriteStore, k names.Key) {
	t.Helper()
	b := slices.Clone(origintest.Get(t, s, k))
	b[len(b)/2] ^= 1
	if err := origintest.Replace(s, k, b); err != nil {
		t.Fatal(err)
	}
}

func TestAgain(t *testing.T) {
	d := newFixture(t, origintest.Memory())
	old := d.must(d.replace("m", wideTree(100, "x")))
	d.must(d.replace("m", wideTree(100, "y")))
	again := func(symbol string, row names.Row) (names.Row, error) {
		b, err := d.Begin(t.Context(), symbol, PublishOptions{})
		if err != nil {
			return names.Row{}, err
		}
		return b.Republish(t.Context(), row)
	}
	if err := d.Delete(t.Context(), "m", 0); err != nil {
		t.Fatal(err)
	}
	for _, symbol := range []string{"m", "copy"} {
		row := d.must(again(symbol, names.Row{Root: old.Root, Identity: old.Identity}))
		if row.Entries != old.Entries || row.Bytes != old.Bytes || row.Root != old.Root {
			t.Errorf("%s: %+v", symbol, row)
		}
	}
	if _, err := again("m", names.Row{Root: page.Hash{1}}); !errors.Is(err, iofs.ErrNotExist) {
		t.Errorf("a tree that is not there: %v", err)
	}
	// A tree of which a page or a shard is gone is not brought back.
	e := page.Entry{Path: "a", Mode: 0o644, ModTime: mtime, Size: 5, ID: codec.FileID{File: codec.Hash{1}, Shard: codec.Hash{2}, Block: 48}}
	b, err := d.Begin(t.Context(), "shards", PublishOptions{})
	if err != nil {
		t.Fatal(err)
	}
	row := d.must(b.Replace(t.Context(), seqOf([]page.Entry{entryOf("/"), e})))
	// Doing it again does not help, as it would after ErrSwept.
	_, err = again("copy", row)
	if !errors.Is(err, origin.ErrNotFound) || errors.Is(err, ErrSwept) || !strings.Contains(err.Error(), string(names.ShardKey(e.ID.Shard))) {
		t.Errorf("a shard is missing: %v", err)
	}
	if err := d.Delete(t.Context(), "m", 1); err != nil {
		t.Fatal(err)
	}
	rows := slices.Collect(func(yield func(names.Row) bool) {
		for v, err := range d.Catalog().History(t.Context(), "m") {
			if err == nil && v.Kind == names.Write && v.Number == 1 && !yield(v.Rows[0]) {
				return
			}
		}
	})
	root, err := origin.Pages(d.store).Page(t.Context(), rows[0].Root)
	if err != nil {
		t.Fatal(err)
	}
	l, err := root.Link(root.Len() - 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.store.Delete(t.Context(), names.PageKey(l.Page)); err != nil {
		t.Fatal(err)
	}
	if _, err := again("copy", rows[0]); err == nil || errors.Is(err, iofs.ErrNotExist) {
		t.Errorf("a page is missing: %v", err)
	}
}

// The shards of a tree that is published again are looked up at the same time.
func TestRepublishShardsTogether(t *testing.T) {
	d := newFixture(t, origintest.Memory())
	entries := entriesOf("")
	for i := range byte(2 * putsAtOnce) {
		id := codec.FileID{File: codec.Hash{1, i}, Shard: codec.Hash{2, i}, Block: 48}
		entries = append(entries, page.Entry{Path: fmt.Sprintf("f%02d", i), Mode: 0o644, ModTime: mtime, Size: 5, ID: id})
		if err := origintest.Replace(d.store, names.ShardKey(id.Shard), []byte("shard")); err != nil {
			t.Fatal(err)
		}
	}
	b, err := d.Begin(t.Context(), "m", PublishOptions{})
	if err != nil {
		t.Fatal(err)
	}
	row := d.must(b.Replace(t.Context(), seqOf(entries)))
	d.must(d.replace("m", "a=1"))
	if err := d.Delete(t.Context(), "m", row.Number); err != nil {
		t.Fatal(err)
	}
	f := origintest.WithFaults(d.store)
	d.store, d.Writer.store = f, f
	var lookups atomic.Int32
	together := make(chan struct{})
	f.Before = func(_ context.Context, c origintest.Call) error {
		if p, err := names.ParseKey(c.Key); err != nil || p.Kind != names.ShardKind {
			return nil
		}
		if lookups.Add(1) == putsAtOnce {
			close(together)
		}
		select {
		case <-together:
			return nil
		case <-time.After(10 * time.Second): // only if the test fails
			return errors.New("no other lookup at the same time")
		}
	}
	b, err = d.Begin(t.Context(), "m", PublishOptions{})
	if err != nil {
		t.Fatal(err)
	}
	d.must(b.Republish(t.Context(), row))
	if n := lookups.Load(); n != 2*putsAtOnce {
		t.Errorf("%d lookups of %d shards", n, 2*putsAtOnce)
	}
}
