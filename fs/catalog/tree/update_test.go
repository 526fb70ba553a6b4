package tree

import (
	"context"
	"errors"
	iofs "io/fs"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/xetfs/xetfs/codec/page"
)

// update applies changes and returns the new root. All pages that it puts are new.
func (s *store) update(t fataler, sizes page.Sizes, root page.Hash, changes []page.Change) page.Link {
	t.Helper()
	old := s.reachable(t, root)
	s.forget()
	l, err := Update(context.Background(), s, sizes, root, good(changes), s.put)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range s.puts {
		if old[h] {
			t.Fatal("put a page of the old tree", h)
		}
	}
	return l
}

// reachable returns the pages of a tree.
func (s *store) reachable(t fataler, root page.Hash) map[page.Hash]bool {
	seen := map[page.Hash]bool{}
	var visit func(h page.Hash)
	visit = func(h page.Hash) {
		seen[h] = true
		p, err := page.Decode(s.pages[h])
		if err != nil {
			t.Fatal(err)
		}
		for l := range p.LinksFrom(0) {
			visit(l.Page)
		}
	}
	visit(root)
	return seen
}

// An updated tree is the tree that is built from scratch.
func TestUpdateIsBuild(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := page.Sizes{
			Min:     rapid.IntRange(250, 400).Draw(t, "min"),
			Bits:    rapid.IntRange(1, 3).Draw(t, "bits"),
			Restart: rapid.IntRange(1, 20).Draw(t, "restart"),
		}
		sizes.Max = sizes.Min + rapid.IntRange(0, 600).Draw(t, "max")
		m := drawModel(t)
		s := newStore()
		root := s.build(t, sizes, m.sorted())
		for range 3 {
			changes := drawChanges(t, m)
			got := s.update(t, sizes, root.Page, changes)
			want := newStore()
			if want := want.build(t, sizes, m.sorted()); got != want {
				t.Fatalf("root = %+v, want %+v", got, want)
			}
			for h := range want.pages {
				if _, ok := s.pages[h]; !ok {
					t.Fatalf("page %v was not put", h)
				}
			}
			if n := len(s.reachable(t, got.Page)); len(s.puts) > n {
				t.Fatalf("%d pages were put for a tree of %d", len(s.puts), n)
			}
			root = got
		}
	})
}

// drawChanges changes m, and says how.
func drawChanges(t *rapid.T, m model) []page.Change {
	touched := map[string]bool{}
	for range rapid.IntRange(0, 12).Draw(t, "changes") {
		path := drawPath(t)
		if rapid.Bool().Draw(t, "present") && len(m) > 0 {
			path = rapid.SampledFrom(m.sorted()).Draw(t, "changed").Path
		}
		touched[path] = true
	}
	if all := m.sorted(); rapid.IntRange(0, 3).Draw(t, "stretch") == 0 && len(all) > 0 {
		from := rapid.IntRange(0, len(all)-1).Draw(t, "from")
		to := rapid.IntRange(from, len(all)).Draw(t, "to")
		for _, e := range all[from:to] {
			touched[e.Path] = true
		}
	}
	var changes []page.Change
	remove := rapid.IntRange(0, 2).Draw(t, "remove")
	for _, path := range slices.Sorted(maps.Keys(touched)) {
		old, there := m[path]
		switch {
		case remove == 0 || remove == 1 && rapid.Bool().Draw(t, "gone"):
			delete(m, path)
			changes = append(changes, page.Change{Old: &page.Entry{Path: path}})
		case there && rapid.IntRange(0, 4).Draw(t, "as it was") == 0:
			changes = append(changes, page.Change{New: &old})
		default:
			e := drawEntry(t, path)
			if path == "" {
				e = page.Entry{Type: page.Dir, Mode: uint32(rapid.IntRange(0, 0o777).Draw(t, "mode"))}
			}
			m[path] = e
			changes = append(changes, page.Change{Old: &old, New: &e})
		}
	}
	slices.SortFunc(changes, func(a, b page.Change) int { return page.ComparePaths(pathOf(a), pathOf(b)) })
	return changes
}

func pathOf(c page.Change) string {
	if c.New != nil {
		return c.New.Path
	}
	return c.Old.Path
}

// Trees that differ little share most of their pages. The figures are those that a
// publisher is promised.
func TestSharing(t *testing.T) {
	s := newStore()
	entries := plain(20_000, 1000)
	root := s.build(t, middle, entries)
	levels := s.levels(t, root.Page)
	if levels < 3 {
		t.Fatalf("%d levels", levels)
	}
	random := rand.New(rand.NewPCG(1, 2))
	pick := func() page.Entry { return entries[1+random.IntN(len(entries)-1)] }
	const trials = 400
	tests := []struct {
		name    string
		change  func() page.Change
		average float64 // of pages for each trial, at most
		exact   float64 // share of the trials with one page for each level, at least
	}{
		{"another content", func() page.Change {
			e := plainFile(random.IntN(20_000), 1000)
			e.ID.File[9], e.Size = byte(random.Uint32()), int64(random.Uint32())
			return page.Change{New: &e}
		}, float64(levels) + 0.1, 0.98},
		{"one more", func() page.Change {
			e := pick()
			e.Path += "x"
			return page.Change{New: &e}
		}, float64(levels) + 1, 0},
		{"one less", func() page.Change {
			e := pick()
			return page.Change{Old: &e}
		}, float64(levels) + 1, 0},
	}
	for _, tt := range tests {
		total, exact := 0, 0
		for range trials {
			s.forget()
			if _, err := Update(t.Context(), s, middle, root.Page, good([]page.Change{tt.change()}), s.put); err != nil {
				t.Fatal(err)
			}
			n := len(s.puts)
			total += n
			if n == levels {
				exact++
			}
			if n > 2*levels+8 {
				t.Errorf("%s: %d pages were put", tt.name, n)
			}
			if reads := s.total(); reads > 2*n+levels {
				t.Errorf("%s: %d pages were read to put %d", tt.name, reads, n)
			}
			for _, h := range s.puts {
				delete(s.pages, h)
			}
		}
		average, share := float64(total)/trials, float64(exact)/trials
		t.Logf("%s: %.2f pages, %.1f %% with one for each level", tt.name, average, 100*share)
		if average > tt.average || share < tt.exact {
			t.Errorf("%s: %.2f pages on average, want %.2f; %.3f of the trials with one for each level, want %.3f", tt.name, average, tt.average, share, tt.exact)
		}
	}
}

// Pages between two changes are not read.
func TestUpdateReads(t *testing.T) {
	s := newStore()
	entries := plain(40_000, 1000)
	root := s.build(t, middle, entries)
	entries[100].Mode, entries[39_900].Mode = 0o600, 0o600
	got := s.update(t, middle, root.Page, []page.Change{{New: &entries[100]}, {New: &entries[39_900]}})
	if want := newStore().build(t, middle, entries); got != want {
		t.Errorf("root = %+v, want %+v", got, want)
	}
	if n := s.total(); n > 5 || len(s.puts) > 5 {
		t.Errorf("%d pages were read and %d put, want root, two and two leaves", n, len(s.puts))
	}
}

func TestUpdateRefuses(t *testing.T) {
	s := newStore()
	root := s.build(t, tiny, plain(300, 100)).Page
	file := func(path string) *page.Entry { return &page.Entry{Path: path} }
	broken := errors.New("broken")
	full := errors.New("disk full")
	tests := []struct {
		name    string
		changes iter.Seq2[page.Change, error]
		put     error
		reason  string
	}{
		{"nothing", good([]page.Change{{}}), nil, "a change of nothing"},
		{"not in order", good([]page.Change{{New: file("b")}, {Old: file("a")}}), nil, `change of "a" is not behind the one before`},
		{"one path twice", good([]page.Change{{Old: file("a")}, {New: file("a")}}), nil, `change of "a" is not behind the one before`},
		{"no path", good([]page.Change{{New: file("../a")}}), nil, `path "../a": a name is ".."`},
		{"an error of the changes", func(yield func(page.Change, error) bool) { yield(page.Change{}, broken) }, nil, "broken"},
		{"an error of put", good([]page.Change{{New: file("a")}}), full, "disk full"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Update(t.Context(), s, tiny, root, tt.changes, func(page.Hash, []byte) error { return tt.put })
			if err == nil || err.Error() != tt.reason {
				t.Errorf("error = %v, want %s", err, tt.reason)
			}
		})
	}
}

// Trees without entries, and those that become empty or were.
func TestUpdateEmpty(t *testing.T) {
	s := newStore()
	empty := s.build(t, tiny, nil)
	some := plain(300, 100)
	full := s.build(t, tiny, some)
	var add, remove []page.Change
	for i := range some {
		add = append(add, page.Change{New: &some[i]})
		remove = append(remove, page.Change{Old: &some[i]})
	}
	tests := []struct {
		name       string
		root, want page.Link
		changes    []page.Change
		puts       bool
	}{
		{"no changes", full, full, nil, false},
		{"no changes of nothing", empty, empty, nil, false},
		{"all of it", empty, full, add, true},
		{"all of it goes", full, empty, remove, true},
		{"nothing goes", empty, empty, remove, false},
		{"as it was", full, full, add, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := s.update(t, tiny, tt.root.Page, tt.changes); got != tt.want || len(s.puts) > 0 != tt.puts {
				t.Errorf("root = %+v, want %+v; %d puts", got, tt.want, len(s.puts))
			}
		})
	}
	tree := s.open(t, empty.Page)
	if _, err := tree.Lookup(t.Context(), ""); !errors.Is(err, iofs.ErrNotExist) {
		t.Errorf("the root of nothing: %v", err)
	}
}
