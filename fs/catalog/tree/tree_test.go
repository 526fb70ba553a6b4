package tree

import (
	"context"
	"errors"
	iofs "io/fs"
	"testing"

	"pgregory.net/rapid"

	"github.com/xetfs/xetfs/codec/page"
)

// Lookups and listings find what a map says.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawModel(t)
		s := newStore()
		tree := s.open(t, s.build(t, tiny, m.sorted()).Page)
		wanted := []string{drawPath(t), drawPath(t), "/", "a/", "a//b", "a\x00/b"}
		for path := range m {
			wanted = append(wanted, path)
		}
		for _, path := range wanted {
			e, there := m[path]
			got, err := tree.Lookup(context.Background(), path)
			if there && (err != nil || !got.Equal(&e)) || !there && !errors.Is(err, iofs.ErrNotExist) {
				t.Fatalf("Lookup(%q) = %+v, %v, want %+v", path, got, err, e)
			}
			compareList(t, tree, m, path, "")
			all, err := collect(tree.All(context.Background(), path))
			switch {
			case !there && !errors.Is(err, iofs.ErrNotExist):
				t.Fatalf("All(%q): %v", path, err)
			case there && (err != nil || !equalEntries(all, m.all(path))):
				t.Fatalf("All(%q) = %q, %v, want %q", path, paths(all), err, paths(m.all(path)))
			}
		}
		dir := rapid.SampledFrom(m.sorted()).Draw(t, "dir").Path
		after := rapid.OneOf(rapid.SampledFrom(hardNames), rapid.String()).Draw(t, "after")
		compareList(t, tree, m, dir, after)
	})
}

func compareList(t *rapid.T, tree *Tree, m model, dir, after string) {
	e, there := m[dir]
	got, err := collect(tree.List(context.Background(), dir, after))
	if !there || e.Type != page.Dir {
		if len(got) > 0 || !errors.Is(err, iofs.ErrNotExist) {
			t.Fatalf("List(%q, %q) = %q, %v, want ErrNotExist", dir, after, paths(got), err)
		}
		return
	}
	if want := m.list(dir, after); err != nil || !equalEntries(got, want) {
		t.Fatalf("List(%q, %q) = %q, %v, want %q", dir, after, paths(got), err, paths(want))
	}
}

// A listing that continues behind any of its names begins with the next one.
func TestListAfter(t *testing.T) {
	s := newStore()
	m := model{}
	for _, e := range plain(600, 300) {
		m[e.Path] = e
	}
	tree := s.open(t, s.build(t, tiny, m.sorted()).Page)
	all, err := collect(tree.List(t.Context(), "d00001", ""))
	if err != nil || len(all) != 300 {
		t.Fatalf("%d entries, %v", len(all), err)
	}
	for i, e := range all {
		_, name := split(e.Path)
		rest, err := collect(tree.List(t.Context(), "d00001", name))
		if err != nil || !equalEntries(rest, all[i+1:]) {
			t.Fatalf("after %q: %q, %v", name, paths(rest), err)
		}
	}
}
