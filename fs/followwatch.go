package fs

import (
	"context"
	"time"

	"github.com/xetfs/xetfs/fs/catalog"
)

// followPause is the shortest time between two polls. Changes arrive in bursts.
const followPause = 100 * time.Millisecond

// absentPoll is the poll interval until an absent or unreadable store is watched again. A
// store that has returned must be visible within 10 seconds.
const absentPoll = 5 * time.Second

// run polls until ctx ends: by the clock, and after each change if the catalog reports changes.
// It polls without delay for the first change of a burst, and after a pause for all others. By
// the clock it also retries to watch a catalog.
func (w *follower) run(ctx context.Context) {
	tick := time.NewTicker(w.follow)
	defer tick.Stop()
	interval := w.follow
	changed, unwatch := w.watch(ctx)
	defer func() { unwatch() }()
	if changed != nil {
		w.poll(ctx) // changes since the mount began
	}
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			continue
		case <-tick.C:
			if changed == nil || w.storeMoved {
				unwatch()
				w.storeMoved = false
				changed, unwatch = w.watch(ctx)
			}
		case _, ok := <-changed:
			if !ok {
				changed = nil
				continue
			}
			w.poll(ctx)
			_ = catalog.Sleep(ctx, w.followPause) // an end of ctx ends the loop
			unsignal(changed)
		}
		w.poll(ctx)
		if next := w.interval(); next != interval {
			interval = next
			tick.Reset(next)
		}
	}
}

// interval returns the time between two polls by the clock.
func (w *follower) interval() time.Duration {
	if w.storeAbsent || w.storeMoved {
		return min(w.follow, absentPoll)
	}
	return w.follow
}

// watch returns a channel of changes, and a function that ends the watch. The channel is nil if
// the catalog cannot be watched; the reason is logged once.
func (w *follower) watch(ctx context.Context) (<-chan struct{}, func()) {
	c, ok := w.catalog.(catalog.Watcher)
	if !ok || ctx.Err() != nil {
		return nil, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	changed, err := c.Watch(ctx)
	if err == nil {
		w.watchErr = ""
		return changed, func() {
			cancel()
			for range changed { //nolint:revive // it is closed then
			}
		}
	}
	cancel()
	if text := err.Error(); w.watchErr != text {
		w.watchErr = text
		w.log.Debug("the catalog cannot be watched; it is polled by the clock alone", "each", w.follow, "err", err)
	}
	return nil, func() {}
}

// unsignal removes a pending signal.
func unsignal(changed <-chan struct{}) {
	select {
	case <-changed:
	default:
	}
}
