package catalog

import (
	"context"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/names"
)

// A Watcher is a Catalog that says by itself when it changes.
type Watcher interface {
	Catalog

	// Watch returns a channel that gets a value soon after a symbol got another newest
	// version; maybe also when none did, and one for many. It is closed when ctx ends,
	// and before that if the catalog can tell no longer. The error is errors.ErrUnsupported
	// if it cannot tell at all, or what is in the way just now.
	Watch(ctx context.Context) (<-chan struct{}, error)
}

var _ Watcher = (*StoreCatalog)(nil)

// Watch implements Watching, where the store is origin.Watching. Each change of a symbol ends
// with a change of its ref, or of the symbol list, which is written after the ref.
func (c *StoreCatalog) Watch(ctx context.Context) (<-chan struct{}, error) {
	return origin.Watch(ctx, c.store, names.RefPrefix, names.SymbolPrefix)
}

// Sleep returns after d, or with an error when ctx ends.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
