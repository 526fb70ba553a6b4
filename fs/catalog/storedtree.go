package catalog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"github.com/xetfs/xetfs/cache/flight"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog/tree"
)

// OpenRow implements VersionedCatalog. OpenRow fills in the totals of a row that has only a Root.
func (c *StoreCatalog) OpenRow(ctx context.Context, symbol string, row names.Row) (Tree, error) {
	t := &storedTree{catalog: c, symbol: symbol, row: row}
	now, err := tree.Open(ctx, c.pages, row.Tree())
	if errors.Is(err, origin.ErrNotFound) && t.Move(ctx) {
		now, err = t.now.Load(), nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: index of version %d: %w", symbol, row.Number, err)
	}
	t.now.Store(now)
	entries, size := now.Totals()
	if row.Entries == 0 && row.Bytes == 0 {
		row.Entries, row.Bytes = entries, size
	}
	if row.Entries != entries || row.Bytes != size {
		return nil, fmt.Errorf("%s: version %d: %w", symbol, row.Number, codec.Corrupt(
			"index", 0, "%d entries with %d bytes, the version says %d and %d", entries, size, row.Entries, row.Bytes))
	}
	t.row = row
	return t, nil
}

// A storedTree is the tree of a row. If its pages are missing, after a repack and a sweep, it reads
// those at its present place.
type storedTree struct {
	catalog *StoreCatalog
	symbol  string
	row     names.Row
	now     atomic.Pointer[tree.Tree]

	moves    flight.Group[struct{}, bool]
	searched atomic.Pointer[time.Time] // end of the last search without a result; nil: none
}

// A Mover is a Tree whose pages and files a repack moves to other places of the store.
type Mover interface {
	Tree

	// Move searches the present place of the tree, and reports whether it is another one than
	// before. Lookups and listings then return the present places of files.
	Move(ctx context.Context) bool
}

var _ Mover = (*storedTree)(nil)

// moveInterval is the shortest time between two searches, so that reads of lost data cause few.
const moveInterval = time.Second

// Move implements Mover. The identity proves the tree at another place.
func (t *storedTree) Move(ctx context.Context) bool {
	if last := t.searched.Load(); t.row.Identity.IsZero() || last != nil && time.Since(*last) < moveInterval {
		return false
	}
	moved, err := t.moves.Do(ctx, struct{}{}, t.move)
	return moved && err == nil
}

func (t *storedTree) move(ctx context.Context) (bool, error) {
	row, err := t.catalog.byIdentity(ctx, t.symbol, names.AsOf{Form: names.ByIdentity, Identity: t.row.Identity})
	old := t.row.Root
	if now := t.now.Load(); now != nil {
		old = now.Root()
	}
	if err == nil && row.Root != old {
		var now *tree.Tree
		if now, err = tree.Open(ctx, t.catalog.pages, row.Tree()); err == nil {
			t.now.Store(now)
			return true, nil
		}
	}
	if ctx.Err() == nil {
		end := time.Now()
		t.searched.Store(&end)
	}
	return false, err
}

// hasMoved reports whether a failed read of pages may succeed now.
func (t *storedTree) hasMoved(ctx context.Context, err error) bool {
	return errors.Is(err, origin.ErrNotFound) && t.Move(ctx)
}

// Version implements Tree.
func (t *storedTree) Version() names.Row { return t.row }

// Totals implements Tree.
func (t *storedTree) Totals() (entries, bytes int64) { return t.now.Load().Totals() }

// OneInode implements Tree. Entries have modes and times of their own.
func (t *storedTree) OneInode() bool { return false }

// Lookup implements Tree.
func (t *storedTree) Lookup(ctx context.Context, path string) (page.Entry, error) {
	e, err := t.now.Load().Lookup(ctx, path)
	if t.hasMoved(ctx, err) {
		e, err = t.now.Load().Lookup(ctx, path)
	}
	t.hint(&e)
	return e, err
}

// List implements Tree.
func (t *storedTree) List(ctx context.Context, dir, after string) iter.Seq2[page.Entry, error] {
	return t.entries(ctx, func(now *tree.Tree) iter.Seq2[page.Entry, error] { return now.List(ctx, dir, after) })
}

// All implements Tree.
func (t *storedTree) All(ctx context.Context, dir string) iter.Seq2[page.Entry, error] {
	return t.entries(ctx, func(now *tree.Tree) iter.Seq2[page.Entry, error] { return now.All(ctx, dir) })
}

// entries yields the entries of a list. If the tree moves meanwhile, entries continues with the list
// at the present place, which has the same entries.
func (t *storedTree) entries(ctx context.Context, list func(now *tree.Tree) iter.Seq2[page.Entry, error]) iter.Seq2[page.Entry, error] {
	return func(yield func(page.Entry, error) bool) {
		seen := 0
		for moved := true; moved; {
			moved = false
			n := 0
			for e, err := range list(t.now.Load()) {
				if moved = t.hasMoved(ctx, err); moved {
					break
				}
				if n++; err == nil && n <= seen {
					continue
				}
				seen = n
				t.hint(&e)
				if !yield(e, err) {
					return
				}
			}
		}
	}
}

// hint marks the place of a file as unproven, if the identity proves the tree.
func (t *storedTree) hint(e *page.Entry) {
	if t.row.Pinned {
		hint(e)
	}
}

// hint marks the place of a file as unproven.
func hint(e *page.Entry) { e.ID.Hint = !e.ID.Shard.IsZero() }
