package reconstruct

import (
	"context"
	"errors"
	"slices"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
)

// A retry is the one request for another File Info block of an open file.
type retry struct {
	done  chan struct{} // closed when group is final
	group *group        // nil: the origin has no other block
}

// another returns the terms of f by another File Info block, after a read with old has failed
// because of corrupt or missing data. A proven block from a cache may name xorbs that the store
// does not have. The store then has a better block. Each File sends one such request.
func (f *File) another(ctx context.Context, old *group, err error) *group {
	if f.fixed || f.tracker != nil || f.large != nil || !errors.Is(err, codec.ErrCorrupt) && !errors.Is(err, origin.ErrNotFound) {
		return nil
	}
	r := &retry{done: make(chan struct{})}
	if !f.retry.CompareAndSwap(nil, r) {
		return f.otherReaders(ctx, old)
	}
	defer close(r.done)
	next, err := f.readGroup(ctx, 0) // forgetAfter has made the origin forget the old block
	if ctx.Err() != nil {
		f.retry.Store(nil) // another reader may have more time
	}
	if err != nil || slices.Equal(next.layout.terms, old.layout.terms) {
		return nil
	}
	f.only.CompareAndSwap(old, nil)
	r.group = f.r.terms.add(next)
	return r.group
}

// otherReaders returns the result of another reader's request, if it differs from old.
func (f *File) otherReaders(ctx context.Context, old *group) *group {
	r := f.retry.Load()
	if r == nil {
		return nil
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		return nil
	}
	if r.group == old {
		return nil
	}
	return r.group
}
