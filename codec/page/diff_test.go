package page

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/xetfs/xetfs/codec"
)

func (s *store) diff(t fataler, a, b Root) []Change {
	t.Helper()
	var changes []Change
	for c, err := range Diff(context.Background(), s, a, b) {
		if err != nil {
			t.Fatal(err)
		}
		changes = append(changes, c)
	}
	return changes
}

// wantChanges compares two trees entry by entry.
func wantChanges(a, b map[string]Entry) []Change {
	var want []Change
	for path, old := range a {
		if now, ok := b[path]; !ok {
			want = append(want, Change{Old: &old})
		} else if !old.EqualContent(&now) {
			want = append(want, Change{&old, &now})
		}
	}
	for path, now := range b {
		if _, ok := a[path]; !ok {
			want = append(want, Change{New: &now})
		}
	}
	slices.SortFunc(want, func(a, b Change) int { return ComparePaths(a.path(), b.path()) })
	return want
}

func (c Change) path() string {
	if c.Old != nil {
		return c.Old.Path
	}
	return c.New.Path
}

func equalChanges(a, b []Change) bool {
	same := func(a, b *Entry) bool {
		return a == nil && b == nil || a != nil && b != nil && a.Equal(b)
	}
	return slices.EqualFunc(a, b, func(a, b Change) bool { return same(a.Old, b.Old) && same(a.New, b.New) })
}

// Diff is the difference of the two sets of entries, sorted.
func TestDiff(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawTree(t)
		b := drawTree(t)
		if rapid.Bool().Draw(t, "alike") {
			b = maps.Clone(a)
			for range rapid.IntRange(0, 5).Draw(t, "changes") {
				path := drawPath(t)
				if b[path] = drawEntry(t, path); path != "" && rapid.Bool().Draw(t, "delete") {
					delete(b, path)
				}
			}
		}
		s := newStore()
		rootA, rootB := s.build(t, tiny, sorted(a)).root(), s.build(t, tiny, sorted(b)).root()
		if got, want := s.diff(t, rootA, rootB), wantChanges(a, b); !equalChanges(got, want) {
			t.Fatalf("%d changes, want %d", len(got), len(want))
		}
		if got := s.diff(t, Root{}, rootB); !equalChanges(got, wantChanges(nil, b)) {
			t.Fatalf("%d changes from nothing, want %d", len(got), len(b))
		}
	})
}

// Trees of equal entries and other page sizes do not differ, though all pages do. Equal parts
// of trees of different heights are found.
func TestDiffOtherShape(t *testing.T) {
	s := newStore()
	entries := plainTree(1000)
	a := s.build(t, tiny, entries)
	b := s.build(t, Sizes{Min: 1000, Max: 4000, Bits: 4, Restart: 8}, entries)
	if got := s.diff(t, a.root(), b.root()); len(got) != 0 {
		t.Errorf("%d changes", len(got))
	}
	root, _ := s.Page(t.Context(), a.Page)
	part, _ := root.Link(0)
	s.reads = 0
	if got := s.diff(t, part.root(), a.root()); len(got) != len(entries)-int(part.Entries) {
		t.Errorf("%d changes behind %d of %d entries", len(got), part.Entries, len(entries))
	}
	s.reads = 0
	for c, err := range Diff(t.Context(), s, part.root(), a.root()) {
		if err != nil || c.Old != nil {
			t.Errorf("change %+v, %v", c, err)
		}
		break
	}
	if levels := root.Level() + 1; s.reads > 2+levels {
		t.Errorf("%d reads up to the first change", s.reads)
	}
}

// Diff reads about the pages that differ.
func TestDiffReads(t *testing.T) {
	sizes := Sizes{Min: 2 << 10, Max: 16 << 10, Bits: 6, Restart: 16}
	s := newStore()
	base := plainTree(10_000)
	root := s.build(t, sizes, base)
	p, _ := s.Page(t.Context(), root.Page)
	levels := p.Level() + 1
	for _, i := range []int{0, 57, 5000, len(base) - 1} {
		changed := slices.Clone(base)
		changed[i].Mode = 0o700
		inserted := slices.Insert(slices.Clone(base), i+1, base[i])
		inserted[i+1].Path = base[i].Path + "x"
		for name, entries := range map[string][]Entry{"changed": changed, "inserted": inserted} {
			if name == "inserted" && i == 0 {
				continue // the root has no neighbour
			}
			now := s.build(t, sizes, entries)
			s.reads = 0
			if got := s.diff(t, root.root(), now.root()); len(got) != 1 {
				t.Errorf("entry %d %s: %d changes", i, name, len(got))
			}
			if s.reads > 2*levels+4 {
				t.Errorf("entry %d %s: %d reads in %d levels", i, name, s.reads, levels)
			}
		}
		s.reads = 0
		if got := s.diff(t, root.root(), root.root()); len(got) != 0 || s.reads != 0 {
			t.Errorf("a tree and itself: %d changes, %d reads", len(got), s.reads)
		}
	}
}

// liar gives a page for another one, as a catalog made to hurt might.
type liar struct {
	*store
	instead map[Hash]Hash
}

func (l liar) Page(ctx context.Context, h Hash) (*Page, error) {
	if other, ok := l.instead[h]; ok {
		h = other
	}
	return l.store.Page(ctx, h)
}

// F47: pages that are missing, or that lead in circles.
func TestF47Diff(t *testing.T) {
	s := newStore()
	a := s.build(t, tiny, plainTree(500))
	b := s.build(t, tiny, plainTree(400))
	root, _ := s.Page(t.Context(), b.Page)
	l, _ := root.Link(root.Len() - 1)
	last := func(g Getter) (err error) {
		for _, err = range Diff(t.Context(), g, a.root(), b.root()) {
		}
		return err
	}
	if err := last(s); err != nil {
		t.Fatal(err)
	}
	if err := last(liar{s, map[Hash]Hash{l.Page: b.Page}}); !errors.Is(err, codec.ErrCorrupt) {
		t.Errorf("a loop: %v", err)
	}
	delete(s.pages, l.Page)
	if err := last(s); err == nil {
		t.Error("no error for a missing page")
	}
}
