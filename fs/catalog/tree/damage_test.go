package tree

import (
	"context"
	"errors"
	iofs "io/fs"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/codectest"
	"github.com/xetfs/xetfs/codec/page"
)

// F47: a page that is missing or damaged is an error that names it, for the names under
// it and for no others. A listing that meets it says so, and ends.
func TestF47Damage(t *testing.T) {
	entries := plain(600, 300)
	tests := []struct {
		name   string
		damage func(b []byte) []byte // nil: missing
		kind   error
	}{
		{"missing", nil, errLost},
		{"missing, and the store says so as a file system does", nil, iofs.ErrNotExist},
		{"a bit flipped", func(b []byte) []byte { return codectest.Put(b, 80, b[80]^4) }, codec.ErrCorrupt},
		{"cut off", func(b []byte) []byte { return b[:len(b)-1] }, codec.ErrCorrupt},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStore()
			root := s.build(t, tiny, entries).Page
			lost := s.leafOf(t, root, page.Key(entries[450].Path))
			if tt.damage == nil {
				delete(s.pages, lost)
			} else {
				s.pages[lost] = tt.damage(s.pages[lost])
			}
			if errors.Is(tt.kind, iofs.ErrNotExist) {
				s.before = func(_ context.Context, h page.Hash) error {
					if h == lost {
						return iofs.ErrNotExist
					}
					return nil
				}
			}
			says := func(what string, err error) {
				t.Helper()
				switch {
				case err == nil || errors.Is(err, iofs.ErrNotExist) || !strings.Contains(err.Error(), lost.String()):
					t.Errorf("%s: %v", what, err)
				case !errors.Is(tt.kind, iofs.ErrNotExist) && !errors.Is(err, tt.kind):
					t.Errorf("%s: %v, want %v", what, err, tt.kind)
				}
			}
			tree := s.open(t, root)
			bad := 0
			for _, e := range entries {
				if _, err := tree.Lookup(t.Context(), e.Path); err != nil {
					says(e.Path, err)
					bad++
				}
			}
			if bad == 0 || bad > 30 {
				t.Errorf("%d entries cannot be found", bad)
			}
			list, err := collect(tree.List(t.Context(), "d00001", ""))
			says("List", err)
			all, err := collect(tree.All(t.Context(), ""))
			says("All", err)
			if !equalEntries(all, entries[:len(all)]) || len(all) > 450 || len(list) == 0 || len(list) > 300-bad {
				t.Errorf("listed %d and %d entries", len(list), len(all))
			}
			if other, err := collect(tree.List(t.Context(), "d00000", "")); err != nil || len(other) != 300 {
				t.Errorf("%d other entries, %v", len(other), err)
			}
			_, err = Update(t.Context(), s, tiny, root, good([]page.Change{{New: &entries[450]}}), s.put)
			says("Update", err)
		})
	}
}

// leafOf returns the leaf where a key belongs.
func (s *store) leafOf(t *testing.T, root page.Hash, key string) page.Hash {
	t.Helper()
	for h := root; ; {
		p, err := page.Decode(s.pages[h])
		if err != nil {
			t.Fatal(err)
		}
		if p.Level() == 0 {
			return h
		}
		h = p.Child(p.Seek(key))
	}
}

// pageOf makes one page of rows.
func (s *store) pageOf(t *testing.T, level int, add func(l *page.Level) error) page.Link {
	t.Helper()
	var link page.Link
	l := page.NewLevel(page.DefaultSizes(), level, func(made page.Link, b []byte) error {
		link = made
		return s.put(made.Page, b)
	})
	if err := errors.Join(add(l), l.End()); err != nil {
		t.Fatal(err)
	}
	return link
}

func (s *store) leaf(t *testing.T, paths ...string) page.Link {
	return s.pageOf(t, 0, func(l *page.Level) error {
		for _, p := range paths {
			if err := l.AddEntry(&page.Entry{Path: p, Type: page.Dir}); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *store) linking(t *testing.T, level int, links ...page.Link) page.Link {
	return s.pageOf(t, level, func(l *page.Level) error {
		for _, link := range links {
			if err := l.AddLink(link); err != nil {
				return err
			}
		}
		return nil
	})
}

// F47: a tree whose hashes are right and whose links lie is refused where the lie is,
// and nothing leads in circles.
func TestF47HostileTrees(t *testing.T) {
	tests := []struct {
		name   string
		make   func(s *store, t *testing.T, first, second page.Link) page.Link
		reason string
	}{
		{"none", func(s *store, t *testing.T, a, b page.Link) page.Link { return s.linking(t, 1, a, b) }, ""},
		{"a leaf two levels down", func(s *store, t *testing.T, a, b page.Link) page.Link {
			return s.linking(t, 2, s.linking(t, 1, a), b)
		}, "level 0 below level 2"},
		{"as high as the page above", func(s *store, t *testing.T, a, b page.Link) page.Link {
			return s.linking(t, 1, a, s.linking(t, 1, b))
		}, "level 1 below level 1"},
		{"higher than the page above", func(s *store, t *testing.T, a, b page.Link) page.Link {
			return s.linking(t, 1, a, s.linking(t, 5, b))
		}, "level 5 below level 1"},
		{"more entries than there are", func(s *store, t *testing.T, a, b page.Link) page.Link {
			b.Entries++
			return s.linking(t, 1, a, b)
		}, "2 entries, its link says 3"},
		{"more bytes than there are", func(s *store, t *testing.T, a, b page.Link) page.Link {
			b.Bytes = 7
			return s.linking(t, 1, a, b)
		}, "files of 0 bytes, its link says 7"},
		{"another length", func(s *store, t *testing.T, a, b page.Link) page.Link {
			b.Size++
			return s.linking(t, 1, a, b)
		}, "its link says"},
		{"keys behind the link's", func(s *store, t *testing.T, a, b page.Link) page.Link {
			b.Last = page.Key("d")
			return s.linking(t, 1, a, b)
		}, "last key \"\\x00e\", its link says \"\\x00d\""},
		{"keys before those of the page before", func(s *store, t *testing.T, a, b page.Link) page.Link {
			return s.linking(t, 1, a, s.leaf(t, "a", "e"))
		}, "is not above"},
		{"the same page twice", func(s *store, t *testing.T, a, b page.Link) page.Link {
			again := a
			again.Last = b.Last
			return s.linking(t, 1, a, again)
		}, "is not above"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStore()
			tree := s.open(t, tt.make(s, t, s.leaf(t, "", "b"), s.leaf(t, "c", "e")).Page)
			_, lookup := tree.Lookup(t.Context(), "c")
			_, list := collect(tree.List(t.Context(), "", ""))
			_, all := collect(tree.All(t.Context(), ""))
			_, update := Update(t.Context(), s, tiny, tree.Root(), good([]page.Change{{Old: &page.Entry{Path: "c"}}}), s.put)
			for what, err := range map[string]error{"Lookup": lookup, "List": list, "All": all, "Update": update} {
				switch {
				case tt.reason == "" && err != nil:
					t.Errorf("%s: %v", what, err)
				case tt.reason != "" && (!errors.Is(err, codec.ErrCorrupt) || !strings.Contains(err.Error(), tt.reason)):
					t.Errorf("%s: %v, want %q", what, err, tt.reason)
				}
			}
		})
	}
}

// A singlePage returns one page for every hash.
type singlePage struct{ page *page.Page }

func (a singlePage) Page(context.Context, page.Hash) (*page.Page, error) { return a.page, nil }

// A Getter that returns wrong pages causes no endless loop.
func TestF47Loop(t *testing.T) {
	s := newStore()
	root := s.build(t, tiny, plain(600, 300)).Page
	tree, err := Open(t.Context(), singlePage{s.decoded(t)[root]}, page.Root{Page: root})
	if err != nil {
		t.Fatal(err)
	}
	_, lookup := tree.Lookup(t.Context(), "d00000")
	_, all := collect(tree.All(t.Context(), ""))
	if !errors.Is(lookup, codec.ErrCorrupt) || !errors.Is(all, codec.ErrCorrupt) {
		t.Errorf("%v, %v", lookup, all)
	}
}
