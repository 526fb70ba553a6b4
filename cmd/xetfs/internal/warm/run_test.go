package warm

import (
	"context"
	"iter"
	"slices"
	"testing"

	"github.com/xetfs/xetfs/cache"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
	"github.com/xetfs/xetfs/reconstruct"
)

// A damagedTree has the folders a, b and c with one file each. The folder b cannot be listed.
type damagedTree struct{ catalog.Tree }

func (damagedTree) Lookup(context.Context, string) (page.Entry, error) {
	return page.Entry{Type: page.Dir}, nil
}

func (damagedTree) List(_ context.Context, dir, _ string) iter.Seq2[page.Entry, error] {
	return func(yield func(page.Entry, error) bool) {
		switch dir {
		case "":
			for _, path := range []string{"a", "b", "c"} {
				if !yield(page.Entry{Path: path, Type: page.Dir}, nil) {
					return
				}
			}
		case "b":
			yield(page.Entry{}, codec.Corrupt("index page", 0, "it has another hash"))
		default:
			yield(page.Entry{Path: dir + "/f", Size: 10, ID: codec.FileID{File: codec.Hash{dir[0]}, Shard: codec.Hash{1}}}, nil)
		}
	}
}

// A folder that cannot be listed is one failure. Files behind it are warmed all the same.
func TestRun_DamagedFolder(t *testing.T) {
	store, err := dir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	c, err := cache.New(objects.New(store, objects.Options{}), cache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var failed []string
	r := New(Options{
		Cache: c, Reader: reconstruct.New(c, reconstruct.Options{}), Tree: damagedTree{}, Paths: []string{""},
		Bar:    ui.NewProgress(t.Output(), "", "", ui.ProgressNone),
		Failed: func(path string, _ error) { failed = append(failed, path) },
	})
	all, err := r.Plan(t.Context())
	if all.Files != 2 || err != nil || len(failed) > 0 {
		t.Errorf("Plan = %+v, %v, with the failures %q", all, err, failed)
	}
	result, err := r.Do(t.Context())
	slices.Sort(failed)
	if want := []string{"a/f", "b", "c/f"}; err != nil || result.Failed != 3 || !slices.Equal(failed, want) { // the store lacks the files
		t.Errorf("Do = %+v, %v, with the failures %q, want %q", result, err, failed, want)
	}
}
