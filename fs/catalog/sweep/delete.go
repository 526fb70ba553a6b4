package sweep

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/names"
)

// A lease is the right to delete what is listed. It ends one window after it was last
// renewed.
type lease struct {
	w     *sweeper
	st    names.Sweep
	tag   origin.Tag
	taken time.Time // before the request to the store
}

// renew begins the lease or extends it. The tag proves that no other sweep has taken it
// over.
func (l *lease) renew(ctx context.Context) error {
	taken := l.w.o.Clock()
	l.st.Lease = taken.Add(l.w.window)
	tag, err := l.w.put(ctx, &l.st, l.tag)
	if err != nil {
		return err
	}
	l.tag, l.taken = tag, taken
	return nil
}

// hold calls do with a context that ends before the lease does. It renews the lease if
// half of it is over, and again after a slow renewal. It returns an error if the lease is
// lost. Unfinished work is repeated.
func (l *lease) hold(ctx context.Context, do func(context.Context) error) error {
	w := l.w
	for range maxTries {
		if w.elapsed(l.taken) > w.window/2 {
			err := l.renew(ctx)
			if errors.Is(err, origin.ErrConflict) {
				err = fmt.Errorf("the lease was lost: %w", ErrOther)
			}
			if err != nil {
				return err
			}
		}
		if w.elapsed(l.taken) > w.window*3/4 {
			continue
		}
		held, cancel := context.WithTimeout(ctx, min(time.Minute, w.window/8))
		err := do(held)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return err
		}
	}
	return fmt.Errorf("the store is too slow to delete anything: %w", origin.ErrUnavailable)
}

// finish deletes what is doomed, then ends the sweep.
func (w *sweeper) finish(ctx context.Context, l *lease, doomed []origin.Item) error {
	w.report.Deleted = map[names.Kind]Counts{}
	total, done := int64(len(doomed)), int64(0)
	for _, kind := range fromTop {
		items := only(doomed, kind)
		for batch := range slices.Chunk(items, deletesAtOnce) {
			w.o.Progress(Progress{Doing: "delete", Done: done, Total: total})
			if err := l.delete(ctx, batch); err != nil {
				return err
			}
			for _, item := range batch {
				count(w.report.Deleted, kind, item.Size)
			}
			done += int64(len(batch))
		}
	}
	w.o.Progress(Progress{Doing: "delete", Done: done, Total: total})
	if err := w.store.Sync(ctx); err != nil {
		return err
	}
	if err := l.end(ctx); err != nil {
		return err
	}
	// Lists are of no use to anyone now, and those that stay are swept some day.
	for _, k := range w.lists {
		if err := w.store.Delete(ctx, k); err != nil {
			w.o.Logger.Warn("the list of a sweep is left behind", "key", k, "err", err)
		}
	}
	return nil
}

// deletesAtOnce is how many objects are deleted between two looks at the lease.
const deletesAtOnce = 64

// delete deletes some objects. A later try skips the deleted ones.
func (l *lease) delete(ctx context.Context, items []origin.Item) error {
	gone := make([]atomic.Bool, len(items))
	return l.hold(ctx, func(ctx context.Context) error {
		var g errgroup.Group
		g.SetLimit(workers(l.w.store))
		for i, item := range items {
			if gone[i].Load() {
				continue
			}
			g.Go(func() error {
				err := l.w.insist(ctx, func(ctx context.Context) error { return l.w.store.Delete(ctx, item.Key) })
				gone[i].Store(err == nil)
				return err
			})
		}
		return g.Wait()
	})
}

// end removes the sweep key. If the answer is lost, another sweep may have begun under it
// before the next try.
func (l *lease) end(ctx context.Context) error {
	for range maxTries {
		err := l.hold(ctx, func(ctx context.Context) error { return l.w.store.Delete(ctx, names.SweepKey()) })
		if !errors.Is(err, origin.ErrUnknown) {
			return err
		}
		st, _, err := l.w.read(ctx)
		if err != nil || st == nil || st.ID != l.st.ID {
			return err
		}
	}
	return fmt.Errorf("%s: %w, %d times", names.SweepKey(), origin.ErrUnknown, maxTries)
}

// only returns the items of one kind.
func only(items []origin.Item, kind names.Kind) []origin.Item {
	return slices.DeleteFunc(slices.Clone(items), func(item origin.Item) bool {
		p, err := names.ParseKey(item.Key)
		return err != nil || p.Kind != kind
	})
}
