package writer

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec/names"
)

// A publish over a large tree of a remote store lists the pages instead of requesting the size of
// each leaf. A lost leaf is stored again.
func TestReplaceManyLeaves(t *testing.T) {
	const files = 150_000
	store := origintest.Memory()
	var sizes atomic.Int64
	remote := origintest.WithFaults(store)
	remote.Before = func(_ context.Context, c origintest.Call) error {
		if c.Op == "Size" {
			sizes.Add(1)
		}
		return nil
	}
	publish := func(changed map[int]bool) {
		s, err := newTestPublisher(t, remote, Options{}).Begin(t.Context(), "m", PublishOptions{})
		if err == nil {
			sizes.Store(0)
			_, err = s.Replace(t.Context(), bigTree(files, changed))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	publish(nil)
	pages := keysOf(t, store, names.PagePrefix)
	publish(map[int]bool{7: true})
	if n := sizes.Load(); len(pages) < 2*maxSizes || n > maxSizes {
		t.Errorf("%d requests for the sizes of %d pages", n, len(pages))
	}
	lost := pages[len(pages)/2]
	if err := store.Delete(t.Context(), lost); err != nil {
		t.Fatal(err)
	}
	publish(map[int]bool{7: true, 8: true})
	if !slices.Contains(keysOf(t, store, names.PagePrefix), lost) {
		t.Error("a lost page is not stored again")
	}
}
