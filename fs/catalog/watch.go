package catalog

import (
	"context"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/names"
)

// A Watcher is a Catalog that reports its changes.
type Watcher interface {
	Catalog

	// Watch returns a channel that receives a value soon after the newest version of a
	// symbol changed. There may be surplus values, and one value for several changes. The
	// channel is closed when ctx ends or the catalog can no longer report. The error is
	// errors.ErrUnsupported if the store cannot report at all.
	Watch(ctx context.Context) (<-chan struct{}, error)
}

var _ Watcher = (*StoreCatalog)(nil)

// Watch implements Watcher if the store can report changes. Each change of a symbol ends
// with a change of its ref, or of the symbol list, which is written after the ref.
func (c *StoreCatalog) Watch(ctx context.Context) (<-chan struct{}, error) {
	return origin.Watch(ctx, c.store, names.RefPrefix, names.SymbolPrefix)
}
