package repack

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"iter"

	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog/tree"
)

// switchAll gives all live versions and snapshots their new rows. A symbol that is always
// overtaken by publishes does not stop the others.
func (r *run) switchAll(ctx context.Context) error {
	symbols, err := r.catalog.RefSymbols(ctx)
	if err != nil {
		return err
	}
	var failed error
	for i, symbol := range symbols {
		r.o.Progress(Progress{Doing: Switching, Done: int64(i), Total: int64(len(symbols))})
		n, err := r.moves.Symbol(ctx, symbol, r.moveTree)
		if errors.Is(err, iofs.ErrNotExist) {
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", symbol, err))
		}
		if n > 0 && err == nil {
			r.report.Symbols++
			r.report.Versions += n
		}
	}
	for name, err := range r.catalog.Snapshots(ctx) {
		if err != nil {
			return errors.Join(failed, err)
		}
		n, err := r.moves.Snapshot(ctx, name, r.moveTree)
		if err != nil {
			failed = errors.Join(failed, err)
		} else if n > 0 {
			r.report.Snapshots++
		}
	}
	return failed
}

// moveTree makes the tree that takes the place of the tree of a row, and returns its root.
func (r *run) moveTree(ctx context.Context, row names.Row) (page.Hash, error) {
	if root, ok := r.roots[row.Root]; ok {
		return root, nil
	}
	touched, err := r.look(ctx, row.Root, nil, 0)
	if err != nil || !touched {
		return row.Root, err
	}
	t, err := tree.Open(ctx, r.pages, row.Tree())
	if err != nil {
		return page.Hash{}, err
	}
	exist := map[page.Hash]struct{}{}
	if err := r.pagesOf(ctx, row.Root, nil, 0, exist); err != nil {
		return page.Hash{}, err
	}
	root, err := r.moves.Build(ctx, row.Identity, r.entries(t.All(ctx, "")), exist)
	if err != nil {
		return page.Hash{}, err
	}
	r.roots[row.Root] = root
	return root, nil
}

// pagesOf adds the pages of a live tree to found. They stay as long as the tree is live.
func (r *run) pagesOf(ctx context.Context, h page.Hash, parent *page.Page, row int, found map[page.Hash]struct{}) error {
	found[h] = struct{}{}
	p, err := r.page(ctx, h, parent, row)
	if err != nil {
		return err
	}
	i := 0
	for l := range p.LinksFrom(0) {
		if p.Level() == 1 {
			found[l.Page] = struct{}{} // the walk has read it
		} else if err := r.pagesOf(ctx, l.Page, p, i, found); err != nil {
			return err
		}
		i++
	}
	return nil
}

// entries yields entries with their new places.
func (r *run) entries(all iter.Seq2[page.Entry, error]) iter.Seq2[page.Entry, error] {
	return func(yield func(page.Entry, error) bool) {
		for e, err := range all {
			if err == nil && !e.ID.Shard.IsZero() {
				e.ID = r.newPlace(e.ID)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}
