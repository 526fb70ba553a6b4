package writer

import (
	"context"
	"errors"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
)

// putPage puts one page of links.
func putPage(t *testing.T, s origin.WriteStore, level int, links ...page.Link) page.Link {
	t.Helper()
	var made page.Link
	l := page.NewLevel(page.DefaultSizes(), level, func(link page.Link, b []byte) error {
		made = link
		_, err := s.PutIfAbsent(t.Context(), names.PageKey(link.Page), b)
		return err
	})
	for _, link := range links {
		if err := l.AddLink(link); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.End(); err != nil {
		t.Fatal(err)
	}
	return made
}

// lyingTree puts a tree whose pages have sound hashes: each leads twice to the one below
// it, so that there are 2^40 ways down.
func lyingTree(t *testing.T, s origin.WriteStore) names.Row {
	t.Helper()
	d := newFixture(t, s)
	leaf := d.must(d.replace("honest", "a=1"))
	link := page.Link{Page: leaf.Root, Identity: leaf.Identity, Size: 100, Entries: leaf.Entries, Bytes: leaf.Bytes}
	for range 40 {
		first, second := link, link
		first.Last, second.Last = page.Key("a"), page.Key("b")
		link = putPage(t, s, 2, first, second)
	}
	return names.Row{Root: link.Page, Identity: link.Identity, Entries: link.Entries, Bytes: link.Bytes}
}

// F47: a tree with false links cannot be republished, and a publish over it reads each of
// its pages once.
func TestF47_LyingTree(t *testing.T) {
	s := origintest.Memory()
	row := lyingTree(t, s)
	d := newFixture(t, s)
	b, err := d.Begin(t.Context(), "m", PublishOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Republish(t.Context(), row); !errors.Is(err, codec.ErrCorrupt) {
		t.Errorf("published again: %v", err)
	}
	forged := d.must(b.commit(t.Context(), func(context.Context, *state) (page.Link, error) {
		return page.Link{Page: row.Root, Identity: row.Identity, Entries: row.Entries, Bytes: row.Bytes}, nil
	}))
	if forged.Root != row.Root {
		t.Fatalf("%+v", forged)
	}
	w := origintest.Watch(s)
	if found := d.pagesOver(t, w, row.Root); len(found) != 41 {
		t.Errorf("%d pages in the tree", len(found))
	}
	if n := len(w.Calls()); n > 41 {
		t.Errorf("%d reads of 41 pages", n)
	}
	d.must(d.replace("m", "a=2"))
}

// pagesOver is pagesOf with pages of another store.
func (w *Writer) pagesOver(t *testing.T, s origin.Store, root page.Hash) map[page.Hash]struct{} {
	t.Helper()
	c := *w
	var err error
	if c.catalog, err = catalog.Open(t.Context(), w.store, origin.Pages(s)); err != nil {
		t.Fatal(err)
	}
	return c.pagesOf(t.Context(), root, false)
}
