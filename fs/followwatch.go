package fs

import (
	"context"
	"time"

	"github.com/xetfs/xetfs/fs/catalog"
)

// followPause is the shortest time between two looks at a catalog that reports changes: they
// come in bursts, and no store should be read more often.
const followPause = 100 * time.Millisecond

// run looks again and again until ctx ends: by the clock, and when the catalog reports a
// change, if it can. The first change of a burst is looked at without delay, and all others of the
// burst after a pause. A catalog that cannot report changes just now is asked again by the clock.
func (w *follower) run(ctx context.Context) {
	tick := time.NewTicker(w.follow)
	defer tick.Stop()
	changed, unwatch := w.watch(ctx)
	defer func() { unwatch() }()
	if changed != nil {
		w.poll(ctx) // for what changed since the mount began
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
			_ = catalog.Sleep(ctx, w.followPause) // when ctx ends, so does the loop
			unsignal(changed)
		}
		w.poll(ctx)
	}
}

// watch returns a channel with the changes of the catalog, and a function that ends it. The
// channel is nil if the catalog cannot be watched; the reason is logged once.
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
		w.log.Debug("new versions are looked for by the clock alone", "each", w.follow, "err", err)
	}
	return nil, func() {}
}

// unsignal takes back a signal that is waiting.
func unsignal(changed <-chan struct{}) {
	select {
	case <-changed:
	default:
	}
}
