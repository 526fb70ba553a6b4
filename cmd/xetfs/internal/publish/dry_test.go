package publish

import (
	"testing"

	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog"
	"github.com/xetfs/xetfs/fs/catalog/bare"
)

// plainTree hides methods outside catalog.Tree.
type plainTree struct{ catalog.Tree }

// Each tree yields all its entries. A comparison used to count every entry as new where a tree
// had no method All.
func TestCompareTreesOfEveryKind(t *testing.T) {
	folder := t.TempDir()
	store, err := dir.OpenReadOnly(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	c, err := bare.Open(t.Context(), store, bare.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tree, err := c.Open(t.Context(), "", names.AsOf{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tree := range []catalog.Tree{tree, plainTree{tree}} {
		var d Diff
		if err := compareTrees(tree.All(t.Context(), ""), tree.All(t.Context(), ""), &d); err != nil || d != (Diff{}) {
			t.Errorf("%T compared with itself: %+v, %v", tree, d, err)
		}
		n := 0
		for _, err := range tree.All(t.Context(), "") {
			if n++; err != nil {
				t.Fatal(err)
			}
		}
		if n != 4 {
			t.Errorf("%T has %d entries, want the root and 3 folders", tree, n)
		}
	}
}
