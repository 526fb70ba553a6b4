package catalog

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
)

// byIdentity returns the row of a tree. Its identity proves the tree, so that nothing else of the
// row is used but the address of the root page. It searches the live versions, the snapshots of
// all symbols, and the versions that were deleted not long ago. For a symbol that does not exist,
// it searches the live versions of all others.
func (c *StoreCatalog) byIdentity(ctx context.Context, symbol string, at names.AsOf) (names.Row, error) {
	seen, err := c.ReadRef(ctx, symbol)
	if err != nil && !isAbsent(err) {
		return names.Row{}, err
	}
	lists := []iter.Seq2[names.Row, error]{c.liveOf(ctx, seen.Ref), c.snapshotRows(ctx), c.deletedOf(ctx, seen.Ref)}
	if seen.Ref == nil {
		lists = append(lists, c.liveOfAll(ctx))
	}
	row, err := findTree(at.Identity, lists...)
	switch {
	case err != nil:
		return names.Row{}, fmt.Errorf("%s: %v: %w", symbol, at, err)
	case row != nil:
		return names.Row{Root: row.Root, Identity: at.Identity, Entries: row.Entries, Bytes: row.Bytes, Pinned: true}, nil
	}
	if err := c.checkPlace(ctx); err != nil {
		return names.Row{}, fmt.Errorf("%s: %w", symbol, err)
	}
	return names.Row{}, absentVersionError(symbol, "no version and no snapshot has the tree %v", at)
}

// findTree returns the first row of some lists with an identity, or nil.
func findTree(id page.Identity, lists ...iter.Seq2[names.Row, error]) (*names.Row, error) {
	for _, list := range lists {
		for row, err := range list {
			if err != nil || row.Identity == id {
				return &row, err
			}
		}
	}
	return nil, nil //nolint:nilnil // absent
}

func isAbsent(err error) bool { return errors.As(err, new(*AbsentError)) }

// liveOf yields the live versions of a symbol, the newest one without reading the version list.
// A nil ref has none.
func (c *StoreCatalog) liveOf(ctx context.Context, ref *names.Ref) iter.Seq2[names.Row, error] {
	return func(yield func(names.Row, error) bool) {
		if ref == nil || ref.Latest == nil || !yield(*ref.Latest, nil) {
			return
		}
		head, err := c.ReadVersion(ctx, ref.Head)
		if err != nil {
			yield(names.Row{}, err)
			return
		}
		c.LiveFrom(ctx, head)(yield)
	}
}

// liveOfAll yields the live versions of all symbols.
func (c *StoreCatalog) liveOfAll(ctx context.Context) iter.Seq2[names.Row, error] {
	return func(yield func(names.Row, error) bool) {
		for symbol, err := range c.Symbols(ctx) {
			var seen TaggedRef
			if err == nil {
				seen, err = c.ReadRef(ctx, symbol)
			}
			if isAbsent(err) {
				continue
			}
			if err != nil {
				yield(names.Row{}, err)
				return
			}
			for row, err := range c.liveOf(ctx, seen.Ref) {
				if !yield(row, err) || err != nil {
					return
				}
			}
		}
	}
}

// snapshotRows yields the rows of all snapshots. A store that cannot list has none.
func (c *StoreCatalog) snapshotRows(ctx context.Context) iter.Seq2[names.Row, error] {
	return func(yield func(names.Row, error) bool) {
		for name, err := range c.Snapshots(ctx) {
			if errors.Is(err, errors.ErrUnsupported) {
				return
			}
			var s *names.Snapshot
			if err == nil {
				s, err = c.Snapshot(ctx, name)
			}
			if isAbsent(err) {
				continue // it was deleted a moment ago
			}
			if err != nil {
				yield(names.Row{}, err)
				return
			}
			for _, row := range s.Rows {
				if !yield(row, nil) {
					return
				}
			}
		}
	}
}

// deletedOf yields the rows of versions that were deleted in the last grace periods: those whose
// deletion the head remembers. It skips a row whose root page was swept.
func (c *StoreCatalog) deletedOf(ctx context.Context, ref *names.Ref) iter.Seq2[names.Row, error] {
	return func(yield func(names.Row, error) bool) {
		if ref == nil {
			return
		}
		head, err := c.ReadVersion(ctx, ref.Head)
		if err != nil {
			yield(names.Row{}, err)
			return
		}
		read := map[names.Key]bool{} // elements whose rows were yielded
		oldest := oldestDeletion(head)
		for v := head; v.Seq >= oldest && v.Parent != ""; {
			k, deletes := v.Parent, v.Kind == names.Delete
			if v, err = c.ReadVersion(ctx, k); err != nil {
				yield(names.Row{}, err)
				return
			}
			if deletes && !c.yieldDeleted(ctx, head, k, read, yield) {
				return
			}
		}
	}
}

// oldestDeletion returns the first change that deleted a version, among those that the head
// remembers.
func oldestDeletion(head *names.Version) uint64 {
	oldest := head.Seq + 1
	for _, d := range head.Deleted {
		if d.Seq > 0 {
			oldest = min(oldest, d.Seq)
		}
	}
	return oldest
}

// yieldDeleted yields the rows of an element and of older ones that the head has deleted. It
// returns false if the caller stopped, or after an error.
func (c *StoreCatalog) yieldDeleted(ctx context.Context, head *names.Version, k names.Key, read map[names.Key]bool, yield func(names.Row, error) bool) bool {
	for k != "" && !read[k] {
		read[k] = true
		v, err := c.ReadVersion(ctx, k)
		if err != nil {
			yield(names.Row{}, err)
			return false
		}
		for _, row := range v.Rows {
			if !head.IsDeleted(row.Number) {
				continue
			}
			if _, err := c.store.Size(ctx, names.PageKey(row.Root)); errors.Is(err, origin.ErrNotFound) {
				continue
			}
			if !yield(row, nil) {
				return false
			}
		}
		k = v.Next
	}
	return true
}
