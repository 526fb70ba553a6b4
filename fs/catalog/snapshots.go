package catalog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
)

// Snapshots implements VersionedCatalog.
func (c *StoreCatalog) Snapshots(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		var found []string
		for item, err := range c.store.List(ctx, names.SnapshotPrefix, "") {
			if err != nil {
				yield("", fmt.Errorf("list snapshots: %w", err))
				return
			}
			if p, err := names.ParseKey(item.Key); err == nil && p.Kind == names.SnapshotKind {
				found = append(found, p.Symbol)
			}
		}
		slices.Sort(found) // keys are sorted by how names are escaped
		for _, name := range found {
			if !yield(name, nil) {
				return
			}
		}
	}
}

// Snapshot implements VersionedCatalog.
func (c *StoreCatalog) Snapshot(ctx context.Context, name string) (*names.Snapshot, error) {
	s, _, err := c.readSnapshot(ctx, name)
	return s, err
}

func (c *StoreCatalog) readSnapshot(ctx context.Context, name string) (*names.Snapshot, origin.Tag, error) {
	if err := names.CheckSnapshot(name); err != nil {
		return nil, "", NewAbsentError(fmt.Sprintf("snapshot %q", name), "%v", err)
	}
	s := new(names.Snapshot)
	tag, err := ReadDocument(ctx, c.store, names.SnapshotKey(name), "", s)
	switch {
	case err == nil || errors.Is(err, origin.ErrNotFound):
		if gone := c.sameStore(ctx); gone != nil {
			return nil, tag, fmt.Errorf("snapshot %s: %w", name, gone)
		}
	}
	switch {
	case errors.Is(err, origin.ErrNotFound):
		return nil, "", AbsentSnapshotError(name)
	case err != nil:
		return nil, tag, err
	case s.Name != name:
		return nil, tag, fmt.Errorf("%s: %w", names.SnapshotKey(name), codec.Corrupt("tref", 0, "it is that of %.80q", s.Name))
	}
	return s, tag, nil
}
