package catalog

import (
	"context"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/names"
)

// A Watching is a Catalog that says by itself when it changes.
type Watching interface {
	Catalog

	// Watch returns a channel that gets a value soon after a symbol got another newest
	// version; maybe also when none did, and one for many. It is closed when ctx ends,
	// and before that if the catalog can tell no longer. The error is errors.ErrUnsupported
	// if it cannot tell at all, or what is in the way just now.
	Watch(ctx context.Context) (<-chan struct{}, error)
}

var _ Watching = (*Stored)(nil)

// Watch implements Watching, where the store is origin.Watching. Each change of a symbol ends
// with a change of its ref, or of the symbol list, which is written after the ref.
func (c *Stored) Watch(ctx context.Context) (<-chan struct{}, error) {
	return origin.Watch(ctx, c.store, names.RefPrefix, names.SymbolPrefix)
}
