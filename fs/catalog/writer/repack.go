package writer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/pack"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
	"github.com/xetfs/xetfs/fs/catalog/tree"
)

// A Repack gives the live versions of a catalog other rows, whose trees have the same files at
// new places. It must begin before the first lookup in the store, as a Session. One goroutine
// uses it.
type Repack struct{ s *Session }

// BeginRepack reads the state of the sweep. The window of the sweep guard begins.
func (w *Writer) BeginRepack(ctx context.Context) (*Repack, error) {
	sg, err := w.openSweepGuard(ctx)
	if err != nil {
		return nil, fmt.Errorf("state of the sweep: %w", err)
	}
	r := &Repack{&Session{w: w, st: &state{}, guard: sg}}
	r.s.reuse.init(ctx, w.store, sg)
	return r, nil
}

// Sink wraps a sink; see Session.Sink.
func (r *Repack) Sink(sink pack.Sink) pack.Sink { return r.s.Sink(sink) }

// Has reports whether an object exists and the repack may rely on it.
func (r *Repack) Has(ctx context.Context, k names.Key) (bool, error) {
	there, err := r.s.reuse.exists(ctx, k)
	if !there || err != nil {
		return false, err
	}
	return r.s.reuse.use(ctx, k)
}

// Build stores the pages of a tree, except those in exist, and returns its root. The tree must
// have an identity.
func (r *Repack) Build(ctx context.Context, want page.Identity, entries iter.Seq2[page.Entry, error], exist map[page.Hash]struct{}) (page.Hash, error) {
	pages := r.s.newPagePutter(ctx)
	pages.skip = exist
	root, err := tree.Build(ctx, r.s.w.catalog.Settings().Page, entries, pages.put)
	if err == nil && root.Identity != want {
		err = fmt.Errorf("the moved tree has the identity %v, not %v", root.Identity, want)
	}
	return root.Page, pages.finish(err)
}

// A MoveTree returns the root of the tree that takes the place of the tree of a row. The result
// may be the same.
type MoveTree func(ctx context.Context, row names.Row) (page.Hash, error)

// moved returns the row with the new place of its tree.
func (move MoveTree) moved(ctx context.Context, row names.Row) (names.Row, error) {
	root, err := move(ctx, row)
	row.Root = root
	return row, err
}

// Symbol gives the live versions of a symbol new rows, as one change. It returns the number of
// versions with another row. If another change was faster, Symbol calls move again.
func (r *Repack) Symbol(ctx context.Context, symbol string, move MoveTree) (count int, err error) {
	st, err := r.s.w.load(ctx, symbol)
	if err != nil {
		return 0, err
	}
	_, err = r.s.w.commit(ctx, st, r.s.guard, func(ctx context.Context, st *state) (*change, error) {
		count = 0
		if st.head == nil {
			return nil, nil //nolint:nilnil // nothing to do
		}
		c := new(change)
		for row, err := range r.s.w.catalog.LiveFrom(ctx, st.head) {
			if err != nil {
				return nil, err
			}
			moved, err := move.moved(ctx, row)
			if err != nil {
				return nil, err
			}
			if moved.Root != row.Root {
				count++
			}
			c.moved = append(c.moved, moved)
		}
		if count == 0 {
			return nil, nil //nolint:nilnil // as above
		}
		return c, nil
	})
	return count, err
}

// Snapshot gives the versions in a snapshot new rows, and returns the number of versions with
// another row. A missing snapshot was deleted a moment ago.
func (r *Repack) Snapshot(ctx context.Context, name string, move MoveTree) (count int, err error) {
	for try := 1; ; try++ {
		count, err = r.snapshotOnce(ctx, name, move)
		switch {
		case errors.Is(err, origin.ErrNotFound):
			return 0, nil
		case !errors.Is(err, origin.ErrConflict) && !errors.Is(err, origin.ErrUnknown):
			return count, err
		case try == maxTries:
			return 0, fmt.Errorf("snapshot %s: %w", name, ErrBusy)
		}
		if err := r.s.w.pause(ctx, try); err != nil {
			return 0, err
		}
	}
}

// snapshotOnce is one try of Snapshot. It returns ErrConflict if it was too slow.
func (r *Repack) snapshotOnce(ctx context.Context, name string, move MoveTree) (count int, err error) {
	w, k := r.s.w, names.SnapshotKey(name)
	old := new(names.Snapshot)
	tag, err := catalog.ReadDocument(ctx, w.store, k, "", old)
	if err != nil {
		return 0, err
	}
	next := *old
	next.Rows, next.Replaced = maps.Clone(old.Rows), map[string]names.Row{}
	for symbol, row := range old.Rows {
		moved, err := move.moved(ctx, row)
		if err != nil {
			return 0, fmt.Errorf("snapshot %s: %s: %w", name, symbol, err)
		}
		if moved.Root == row.Root {
			continue
		}
		next.Rows[symbol], next.Replaced[symbol] = moved, row
		count++
	}
	if count == 0 {
		return 0, nil
	}
	stored, err := catalog.Modified(ctx, w.store, k)
	if err != nil {
		return 0, err
	}
	next.Older = replacedTrees(old, stored.UTC(), w.catalog.Settings().Grace)
	value, err := names.Encode(&next)
	if err != nil {
		return 0, err
	}
	if err := w.store.Sync(ctx); err != nil {
		return 0, err
	}
	late, err := r.s.guard.renew(ctx)
	if err == nil && late {
		err = origin.ErrConflict
	}
	if err != nil {
		return 0, err
	}
	err = w.timed(ctx, func(ctx context.Context) error {
		_, err := w.store.PutIfMatch(ctx, k, value, tag)
		return err
	})
	if errors.Is(err, origin.ErrUnknown) {
		if now, _, getErr := w.store.Get(ctx, k, ""); getErr == nil && bytes.Equal(now, value) {
			err = nil
		}
	}
	if err != nil {
		return 0, err
	}
	return count, w.store.Sync(ctx)
}

// replacedTrees returns the trees that repacks have replaced in a snapshot. The store received the
// snapshot at the time stored. Trees whose time of grace was over then are left out.
func replacedTrees(s *names.Snapshot, stored time.Time, grace time.Duration) []names.OldTree {
	trees := slices.DeleteFunc(slices.Clone(s.Older), func(old names.OldTree) bool { return stored.Sub(old.Replaced) >= grace })
	for _, symbol := range slices.Sorted(maps.Keys(s.Replaced)) {
		trees = append(trees, names.OldTree{Root: s.Replaced[symbol].Root, Replaced: stored})
	}
	return trees
}
