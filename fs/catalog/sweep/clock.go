package sweep

import (
	"context"
	"errors"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
)

// storeTime returns the time of the store, which decides the ages of its objects. A store
// reports the time only for an object that it received. The object here is a sweep list
// with one random key, which is deleted again. The newest time of all objects is no
// substitute: a time from the future would age all others.
func (w *sweeper) storeTime(ctx context.Context) (time.Time, error) {
	var nothing page.Hash
	w.o.Random(nothing[:])
	b, err := names.EncodeSweepList([]names.Key{names.PageKey(nothing)})
	if err != nil {
		return time.Time{}, err
	}
	k := names.SweepListKey(b)
	err = w.insist(ctx, func(ctx context.Context) error {
		_, err := w.store.PutIfAbsent(ctx, k, b)
		return err
	})
	if err != nil && !errors.Is(err, origin.ErrExists) {
		return time.Time{}, err
	}
	now, err := catalog.Modified(ctx, w.store, k)
	if err != nil {
		return time.Time{}, err
	}
	return now, w.insist(ctx, func(ctx context.Context) error { return w.store.Delete(ctx, k) })
}

// elapsed returns the time since an event, by the clock that moved further. The monotonic
// clock may stop while the machine sleeps, and the other one may be set.
func (w *sweeper) elapsed(since time.Time) time.Duration {
	now := w.o.Clock()
	return max(now.Sub(since), now.Round(0).Sub(since.Round(0)))
}
