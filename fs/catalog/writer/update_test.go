package writer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog/tree"
)

func TestUpdate(t *testing.T) {
	const tree = "a=1 d/ d/x=2 d/e/ d/e/y=3 d-e/ d-e/z=4 l->a"
	tests := []struct{ name, changes, want string }{
		{"nothing", "", "a=1 d/ d-e/ l->a d/e/ d/x=2 d/e/y=3 d-e/z=4"},
		{"change", "a=9", "a=9 d/ d-e/ l->a d/e/ d/x=2 d/e/y=3 d-e/z=4"},
		{"add with parents", "n/m/o=5", "a=1 d/ d-e/ l->a n/ d/e/ d/x=2 d/e/y=3 d-e/z=4 n/m/ n/m/o=5"},
		{"add beside", "d/e/w=5", "a=1 d/ d-e/ l->a d/e/ d/x=2 d/e/w=5 d/e/y=3 d-e/z=4"},
		{"remove a file", "-d/e/y", "a=1 d/ d-e/ l->a d/e/ d/x=2 d-e/z=4"},
		{"remove a directory", "-d", "a=1 d-e/ l->a d-e/z=4"},
		{"remove both", "-d -d-e", "a=1 l->a"},
		{"remove what is in it, too", "-d -d/e -d/x", "a=1 d-e/ l->a d-e/z=4"},
		{"remove what is not there", "-x -d/q/r", "a=1 d/ d-e/ l->a d/e/ d/x=2 d/e/y=3 d-e/z=4"},
		{"remove and fill again", "-d d/n=6", "a=1 d/ d-e/ l->a d/n=6 d-e/z=4"},
		{"remove and fill deeper", "-d d/e/n=6", "a=1 d/ d-e/ l->a d/e/ d/e/n=6 d-e/z=4"},
		{"remove, keep one", "-d d/ d/x=7", "a=1 d/ d-e/ l->a d/e/ d/x=7 d/e/y=3 d-e/z=4"},
		{"directory becomes file", "d=8", "a=1 d=8 d-e/ l->a d-e/z=4"},
		{"directory becomes link", "d->l", "a=1 d->l d-e/ l->a d-e/z=4"},
		{"file becomes directory", "a/ a/b=1", "a/ d/ d-e/ l->a a/b=1 d/e/ d/x=2 d/e/y=3 d-e/z=4"},
		{"in a file", "a/b=1", `REFUSED "a" is a file`},
		{"in a new file", "b=1 b/c=1", `REFUSED "b" is a file`},
		{"in a link", "l/b=1", `REFUSED "l" is a link`},
		{"root", "-", "REFUSED the root cannot be removed"},
		{"the versions", ".versions/x=1 .versions/", "REFUSED the name is taken"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newFixture(t, origintest.Memory())
			d.must(d.replace("m", tree))
			changes := tt.changes
			if tt.name == "remove, keep one" {
				changes = "d/ d/x=7" // to remove and to add is one change
			}
			_, err := d.update("m", changes)
			want, refused := strings.CutPrefix(tt.want, "REFUSED ")
			if refused {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error %v, want %q", err, want)
				}
				return
			}
			d.must(names.Row{}, err)
			if got := d.see("m", ""); got != "1: "+want {
				t.Errorf("got  %s\nwant 1: %s", got, want)
			}
			checkBuilt(t, d, want)
		})
	}
}

// checkBuilt says that the newest tree of m is, page by page, what publishing it as a
// whole makes of it.
func checkBuilt(t testing.TB, d *fixture, words string) {
	t.Helper()
	latest, err := d.Catalog().Latest(t.Context(), "m")
	if err != nil {
		t.Fatal(err)
	}
	whole := d.must(d.replace("whole", words))
	if whole.Root != latest.Root || whole.Entries != latest.Entries || whole.Bytes != latest.Bytes {
		t.Errorf("the tree has other pages than it has when it is published whole")
	}
}

func TestUpdateOrder(t *testing.T) {
	d := newFixture(t, origintest.Memory())
	e, f := entryOf("a=1"), entryOf("b=1")
	for name, changes := range map[string][]page.Change{
		"not in order": {{New: &f}, {New: &e}},
		"twice":        {{New: &e}, {Old: &e}},
		"nothing":      {{}},
		"renamed":      {{Old: &e, New: &f}},
	} {
		b, err := d.Begin(t.Context(), "m", PublishOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Update(t.Context(), changes); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := d.update("m", ""); err == nil {
		t.Error("nothing made a symbol")
	}
	// A new symbol can begin with an update.
	d.must(d.update("m", "d/e=1"))
	if got := d.see("m", ""); got != "0: d/ d/e=1" {
		t.Error(got)
	}
}

// A model of updates: paths in a map.
type pathMap map[string]string // path → word; directories end in "/"

func (m pathMap) remove(path string) {
	for p := range m {
		if p == path || strings.HasPrefix(p, path+"/") {
			delete(m, p)
		}
	}
}

func (m pathMap) words() string {
	return strings.Join(slices.Sorted(maps.Values(m)), " ")
}

// set puts a file or directory. It is false if something above is a file.
func (m pathMap) set(word string) bool {
	e := entryOf(word)
	for dir := tree.Parent(e.Path); dir != ""; dir = tree.Parent(dir) {
		if w, ok := m[dir]; ok && !strings.HasSuffix(w, "/") {
			return false
		}
	}
	for dir := tree.Parent(e.Path); dir != ""; dir = tree.Parent(dir) {
		m[dir] = dir + "/"
	}
	if e.Type != page.Dir {
		m.remove(e.Path)
	}
	m[e.Path] = word
	return true
}

// An update does what a model does: removals first, then what is new.
func TestUpdateProperty(t *testing.T) {
	name := rapid.SampledFrom([]string{"a", "b", "a-b", "a.b", "c"})
	rapid.Check(t, func(rt *rapid.T) {
		d := newFixture(t, origintest.Memory())
		model := pathMap{}
		d.must(d.replace("m", ""))
		for i := range rapid.IntRange(1, 6).Draw(rt, "updates") {
			given := map[string]string{} // path → change
			for range rapid.IntRange(1, 8).Draw(rt, "changes") {
				path := strings.Join(rapid.SliceOfN(name, 1, 4).Draw(rt, "path"), "/")
				switch rapid.IntRange(0, 3).Draw(rt, "kind") {
				case 0:
					given[path] = "-" + path
				case 1:
					given[path] = path + "/"
				default:
					given[path] = fmt.Sprintf("%s=%d", path, i)
				}
			}
			next, ok := maps.Clone(model), true
			paths := slices.Sorted(maps.Keys(given))
			for _, path := range paths {
				if strings.HasPrefix(given[path], "-") || !strings.HasSuffix(given[path], "/") {
					next.remove(path)
				}
			}
			for _, path := range paths { // what is new above comes first
				if !strings.HasPrefix(given[path], "-") {
					ok = ok && next.set(given[path])
				}
			}
			_, err := d.update("m", strings.Join(slices.Collect(maps.Values(given)), " "))
			if ok != (err == nil) {
				rt.Fatalf("changes %q of %q: error %v, want %v", given, model, err, ok)
			}
			if !ok {
				continue
			}
			model = next
			got := strings.Fields(strings.SplitN(d.see("m", ""), ":", 2)[1])
			slices.Sort(got)
			if strings.Join(got, " ") != model.words() {
				rt.Fatalf("changes %q: got %q, want %q", given, got, model.words())
			}
			checkBuilt(t, d, model.words())
		}
	})
}

// UpdateWith plans again on the tree of a faster publish. A plan that makes the newest tree
// publishes nothing.
func TestUpdateWith(t *testing.T) {
	d := newFixture(t, origintest.Memory())
	d.must(d.replace("m", "a=1"))
	publish := func(words string, meanwhile func()) (names.Row, int, error) {
		s, err := d.Begin(t.Context(), "m", PublishOptions{Message: "words"})
		d.must(names.Row{}, err)
		plans := 0
		row, err := s.UpdateWith(t.Context(), func(_ context.Context, b Base) ([]page.Change, map[string]string, error) {
			plans++
			if plans == 1 {
				meanwhile()
			}
			return changesOf(words), map[string]string{"on": fmt.Sprint(b.Latest.Number)}, nil
		})
		return row, plans, err
	}
	row, plans, err := publish("b=2", func() { d.must(d.update("m", "c=3")) })
	if got := d.see("m", ""); err != nil || row.Number != 2 || plans != 2 || got != "2: a=1 b=2 c=3" {
		t.Errorf("version %d after %d plans: %s, %v", row.Number, plans, got, err)
	}
	for v, err := range d.Catalog().History(t.Context(), "m") {
		if err != nil || v.Labels["on"] != "1" || v.Message != "words" {
			t.Errorf("version %d: labels %v, %v", v.Number, v.Labels, err)
		}
		break
	}
	if _, _, err := publish("b=2", func() {}); !errors.Is(err, ErrSame) {
		t.Errorf("the same tree: %v", err)
	}
	if got := d.see("m", ""); got != "2: a=1 b=2 c=3" {
		t.Errorf("after no change: %s", got)
	}
}
