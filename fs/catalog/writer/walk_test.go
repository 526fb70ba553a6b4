package writer

import (
	"context"
	"errors"
	iofs "io/fs"
	"iter"
	"slices"
	"testing"

	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
)

// pathsOf returns the paths of entries, and the first error.
func pathsOf(entries iter.Seq2[page.Entry, error]) (paths []string, err error) {
	for e, err := range entries {
		if err != nil {
			return paths, err
		}
		paths = append(paths, e.Path)
	}
	return paths, nil
}

// testTree compares All and Walk of a tree with List and Lookup.
func testTree(t *testing.T, tree catalog.Tree) {
	t.Helper()
	ctx := t.Context()
	var walk []string
	var visit func(dir string)
	visit = func(dir string) {
		for e, err := range tree.List(ctx, dir, "") {
			if err != nil {
				t.Fatal(err)
			}
			walk = append(walk, e.Path)
			if e.Type == page.Dir {
				visit(e.Path)
			}
		}
	}
	visit("")
	if got, err := pathsOf(catalog.Walk(ctx, tree, "")); err != nil || !slices.Equal(got, walk) {
		t.Errorf("Walk = %q, %v, want %q", got, err, walk)
	}
	for _, dir := range append(walk, "") {
		below, err := pathsOf(catalog.Walk(ctx, tree, dir))
		if err != nil && !errors.Is(err, iofs.ErrNotExist) { // a file
			t.Errorf("Walk(%q): %v", dir, err)
		}
		want := append(below, dir)
		slices.SortFunc(want, page.ComparePaths)
		if got, err := pathsOf(tree.All(ctx, dir)); err != nil || !slices.Equal(got, want) {
			t.Errorf("All(%q) = %q, %v, want %q", dir, got, err, want)
		}
		for e := range tree.All(ctx, dir) {
			if e.Path != dir {
				t.Errorf("All(%q) continues after a stop with %q", dir, e.Path)
			}
			break
		}
	}
	if got, err := pathsOf(tree.All(ctx, "absent")); len(got) > 0 || !errors.Is(err, iofs.ErrNotExist) {
		t.Errorf("All of an absent path = %q, %v, want ErrNotExist", got, err)
	}
}

func TestTreesStored(t *testing.T) {
	d := newFixture(t, origintest.Memory())
	d.must(d.replace("m", "a=1 b/ b/c=2 b/d/ b/d/e=3 b.c=4 f/ f/g=5"))
	tree, err := d.Catalog().Open(t.Context(), "m", names.AsOf{})
	if err != nil {
		t.Fatal(err)
	}
	testTree(t, tree)
	if entries, bytes := tree.Totals(); entries != 9 || bytes == 0 {
		t.Errorf("totals = %d entries, %d bytes", entries, bytes)
	}
	if tree.OneInode() {
		t.Error("entries of a version share an inode")
	}
}

// A brokenTree cannot list one directory.
type brokenTree struct {
	catalog.Tree
	dir string
}

func (t brokenTree) List(ctx context.Context, dir, after string) iter.Seq2[page.Entry, error] {
	if dir == t.dir {
		return func(yield func(page.Entry, error) bool) { yield(page.Entry{}, iofs.ErrInvalid) }
	}
	return t.Tree.List(ctx, dir, after)
}

func TestWalkDamaged(t *testing.T) {
	d := newFixture(t, origintest.Memory())
	d.must(d.replace("m", "a/ a/b=1 c/ c/d=2"))
	tree, err := d.Catalog().Open(t.Context(), "m", names.AsOf{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for e, err := range catalog.Walk(t.Context(), brokenTree{tree, "a"}, "") {
		if err != nil {
			got = append(got, "error in "+e.Path)
			continue
		}
		got = append(got, e.Path)
	}
	if want := []string{"a", "error in a", "c", "c/d"}; !slices.Equal(got, want) {
		t.Errorf("Walk = %q, want %q", got, want)
	}
}
