package repack_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
	"github.com/xetfs/xetfs/fs/catalog/repack"
)

// A tree that is open during a repack and a sweep continues at its new place. So do a list that is
// being read, and an open by an old row.
func TestMovedTree(t *testing.T) {
	t.Parallel()
	for _, pinned := range []bool{false, true} {
		s := newFixture(t)
		s.publish("m", changing(80, 3000, 0))
		row := s.publish("m", changing(40, 3000, 0))
		if err := s.writer(s.store).Delete(t.Context(), "m", 0); err != nil {
			t.Fatal(err)
		}
		row.Pinned = pinned
		c, err := catalog.Open(t.Context(), s.store, origin.Pages(s.store))
		if err != nil {
			t.Fatal(err)
		}
		open := func() catalog.Tree {
			tree, err := c.OpenRow(t.Context(), "m", row)
			if err != nil {
				t.Fatal(err)
			}
			return tree
		}
		before, middle := open(), open()
		want := entriesOf(t, before, func() {})
		got := entriesOf(t, middle, func() {
			s.sweep()
			s.repack(repack.Options{})
			s.sweep()
		})
		same := func(a, b page.Entry) bool { return a.EqualContent(&b) && a.ID.Hint == b.ID.Hint }
		if !slices.EqualFunc(got, want, same) {
			t.Errorf("pinned %v: %d entries in the middle of a repack, %d before", pinned, len(got), len(want))
		}
		for _, old := range want {
			e, err := before.Lookup(t.Context(), old.Path)
			if err != nil || !same(e, old) {
				t.Errorf("pinned %v: %s: %+v, %v", pinned, old.Path, e, err)
			}
			if e.ID == old.ID && !e.ID.Shard.IsZero() {
				t.Errorf("pinned %v: %s has its old place", pinned, old.Path)
			}
		}
		if later := entriesOf(t, open(), func() {}); !slices.EqualFunc(later, want, same) {
			t.Errorf("pinned %v: %d entries by the old row", pinned, len(later))
		}
	}
}

// entriesOf returns the entries of a tree. It calls a function after the fifth one.
func entriesOf(t *testing.T, tree catalog.Tree, change func()) (all []page.Entry) {
	t.Helper()
	for e, err := range tree.All(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		if all = append(all, e); len(all) == 5 {
			change()
		}
	}
	return all
}

// A lost page is an error. A tree with a lost page is not searched again and again.
func TestLostTree(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	row := s.publish("m", changing(40, 3000, 0))
	counted := &getCounter{WriteStore: s.store}
	c, err := catalog.Open(t.Context(), counted, origin.Pages(s.store))
	if err != nil {
		t.Fatal(err)
	}
	tree, err := c.OpenRow(t.Context(), "m", row)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.store.Delete(t.Context(), names.PageKey(row.Root)); err != nil {
		t.Fatal(err)
	}
	before := counted.gets
	for range 100 {
		if _, err := tree.Lookup(t.Context(), ""); !errors.Is(err, origin.ErrNotFound) {
			t.Fatal(err)
		}
	}
	if n := counted.gets - before; n > 10 {
		t.Errorf("%d documents were read", n)
	}
	if _, err := c.OpenRow(t.Context(), "m", row); !errors.Is(err, origin.ErrNotFound) {
		t.Error(err)
	}
}

// A getCounter counts the documents that are read.
type getCounter struct {
	origin.WriteStore
	gets int
}

func (c *getCounter) Get(ctx context.Context, k names.Key, cached origin.Tag) ([]byte, origin.Tag, error) {
	c.gets++
	return c.WriteStore.Get(ctx, k, cached)
}
