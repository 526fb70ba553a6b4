package serve

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
)

// A listedStore counts lists.
type listedStore struct {
	*downStore
	lists atomic.Int64
}

func (s *listedStore) List(ctx context.Context, prefix string, after names.Key) iter.Seq2[origin.Item, error] {
	s.lists.Add(1)
	return s.downStore.List(ctx, prefix, after)
}

// A client requests many new files at once. The symbols of a remote store are listed once for all of them, and
// the references are read once. Both are read again later, and a reference after a commit.
func TestReadableOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHistory(t, 1)
		others := []string{"p/a", "p/b", "p/c"}
		summed := func(i byte) page.Entry {
			e := shown(i)
			e.SHA256 = &[32]byte{i}
			return e
		}
		for i, symbol := range others {
			h.publishTo(symbol, summed(byte(i)), nil)
		}
		store := &listedStore{downStore: h.store}
		c, err := catalog.Open(t.Context(), store, origin.Pages(h.store.Store))
		if err != nil {
			t.Fatal(err)
		}
		w := NewWriter(WriterOptions{Repos: NewRepos(c, false, slog.New(slog.DiscardHandler))})
		readable := func(i byte) bool {
			t.Helper()
			found, err := w.readable(t.Context(), "o/n", [32]byte{i})
			if err != nil && !errors.Is(err, origin.ErrNotFound) || err == nil && found.ID.File != (codec.Hash{i, 1}) {
				t.Errorf("file %d: %v, %v", i, found, err)
			}
			return err == nil
		}
		if readable(100) || !readable(2) {
			t.Error("the wrong files are found")
		}
		reads, lists := h.store.reads.Load(), store.lists.Load()
		for i := range byte(200) {
			time.Sleep(lineageAge / 100)
			if readable(i) != (i < 3) {
				t.Errorf("file %d is found: %t", i, i >= 3)
			}
		}
		if more, again := h.store.reads.Load()-reads, store.lists.Load()-lists; more > 6 || again != 0 { // those of o/n
			t.Errorf("%d documents were read and %d lists, want 6 and none", more, again)
		}
		h.publishTo("p/b", summed(100), nil)
		w.o.Repos.lineages.expire("p/b")
		if !readable(100) {
			t.Error("the file of a commit is not found")
		}
		h.publishTo("p/c", summed(101), nil)
		h.publishTo("p/d", summed(102), nil)
		time.Sleep(searchAge)
		if !readable(101) || !readable(102) {
			t.Error("files of later versions and symbols are not found")
		}
	})
}
