package fs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
)

// A follower polls for newer versions and switches the volumes of a mount to them. One goroutine
// uses it.
type follower struct {
	*source
	files       *filesystem
	limit       time.Duration     // of one poll
	logged      map[string]string // last logged problem by symbol, which is not repeated
	watchErr    string            // last logged reason why the catalog cannot be watched
	storeErr    string            // last logged reason why the store is gone; "": the store exists
	storeAbsent bool              // the last check failed
	storeMoved  bool              // the store was gone, so the watched folder may be its old one
	unlisted    bool              // the last poll could not list the symbols
}

func newFollower(s *source, f *filesystem) *follower {
	return &follower{source: s, files: f, limit: f.limit, logged: make(map[string]string)}
}

// poll polls all volumes of the mount once. It closes symbols without a node in the kernel.
func (fo *follower) poll(ctx context.Context) {
	defer fo.setError()
	root := fo.files.root
	if !fo.checkStore(ctx) {
		return
	}
	in, ok := root.nested.(*symbols)
	if !ok {
		fo.pollVolume(ctx, root)
		return
	}
	fo.pollSymbols(ctx, root)
	for _, v := range in.all() {
		if _, known := fo.files.nodes.find(v.rootID()); !known {
			in.forget(v)
			delete(fo.logged, v.symbol)
			continue
		}
		fo.pollVolume(ctx, v.volume)
	}
}

// setError sets Stats.FollowError to the first problem.
func (fo *follower) setError() {
	text := fo.storeErr
	for _, symbol := range slices.Sorted(maps.Keys(fo.logged)) {
		text = cmp.Or(text, fo.logged[symbol])
	}
	fo.files.followErr.Store(text[:min(len(text), maxFollowError)])
}

// checkStore reports whether the store is still that of the catalog and has some symbols.
// Otherwise the mount stays as it is.
func (fo *follower) checkStore(stop context.Context, symbols ...string) bool {
	c, ok := fo.catalog.(catalog.Checker)
	if !ok {
		return true
	}
	ctx, cancel := context.WithTimeout(stop, fo.limit)
	defer cancel()
	err := c.Check(ctx, symbols...)
	fo.storeAbsent = err != nil
	var gone *catalog.StoreError
	switch {
	case stop.Err() != nil:
		return false
	case errors.As(err, &gone):
		fo.warnStoreGone(gone)
	case err != nil:
		fo.warn(fo.files.root, "the store cannot be read; the mount keeps its version", "follow_failed", err)
	case fo.storeErr != "" && len(symbols) == 0:
		fo.storeErr, fo.storeMoved = "", true
		fo.log.Info("the store has returned", "event", "store_back")
	}
	return err == nil
}

// pollVolume switches the volume of a symbol to its current version.
func (fo *follower) pollVolume(stop context.Context, v *volume) {
	ctx, cancel := context.WithTimeout(stop, fo.limit)
	defer cancel()
	old := v.current.Load()
	row, err := fo.row(ctx, v.symbol)
	if err == nil && row.Root == old.row.Root && row.Number == old.row.Number {
		delete(fo.logged, v.symbol)
		return
	}
	var t catalog.Tree
	if err == nil {
		t, err = fo.open(ctx, v.symbol, row)
	}
	switch {
	case stop.Err() != nil:
	case isGone(err):
		fo.warn(v, "the mounted version was deleted; it remains readable while its data exists", "version_deleted", err)
	case err != nil:
		fo.warn(v, "the newest version cannot be read; the mount keeps its version", "follow_failed", err)
	default:
		delete(fo.logged, v.symbol)
		fo.switchTo(ctx, stop, v, t)
	}
}

// open opens a version and reads its first entry. The mount does not switch to an unreadable
// version.
func (fo *follower) open(ctx context.Context, symbol string, row names.Row) (catalog.Tree, error) {
	t, err := fo.versioned.OpenRow(ctx, symbol, row)
	if err != nil {
		return nil, err
	}
	root, err := t.Lookup(ctx, "")
	switch {
	case err != nil && !isGone(err):
		return nil, err
	case err != nil || root.Type != page.Dir:
		return nil, fmt.Errorf("%s: version %d has no root", symbol, row.Number) // the version exists, but is no tree
	}
	return t, nil
}

// switchTo switches a volume to another tree and invalidates the differences. Open files and
// directories keep their version. The search for differences ends with ctx; by then most cached
// names have expired.
func (fo *follower) switchTo(ctx, stop context.Context, v *volume, t catalog.Tree) {
	old, now := fo.swapTree(v, t)
	defer v.switching.Store(false)
	if now.row.Number == old.row.Number {
		fo.log.Debug("the data of the version has other places", "symbol", v.symbol, "version", now.row.Number)
	} else {
		fo.log.Info("switched to another version", "event", "version_switched", "symbol", v.symbol,
			"from", old.row.Number, "to", now.row.Number, "published", now.row.Time)
	}
	if now.row.Number < old.row.Number {
		fo.log.Warn("the mounted version was deleted", "event", "version_deleted", "symbol", v.symbol,
			"version", old.row.Number, "published", old.row.Time)
	}
	changes := fo.versioned.Changes(ctx, old.row, now.row)
	err := fo.files.invalidate(ctx, v, identified(v, changes))
	if err != nil {
		fo.log.Debug("the changes are unknown; all cached names are invalidated", "symbol", v.symbol, "err", err)
		err = fo.files.invalidateAll(stop, v)
	}
	if err != nil {
		fo.log.Debug("the changes were not invalidated", "symbol", v.symbol, "err", err)
	}
}

// swapTree makes t the tree of v. From now on the kernel caches no listing of the old tree.
func (fo *follower) swapTree(v *volume, t shownTree) (old, now *version) {
	v.switching.Store(true)
	old = v.current.Load()
	now = v.setTree(t)
	fo.files.sequences.End(old)
	for _, h := range fo.files.dirs.all() {
		if h.ver.vol == v && h.ver != now {
			fo.files.stale.mark(h)
		}
	}
	return old, now
}

// identified translates the changes of a symbol.
func identified(v *volume, changes iter.Seq2[page.Change, error]) iter.Seq2[difference, error] {
	return func(yield func(difference, error) bool) {
		for c, err := range changes {
			var d difference
			if c.Old != nil {
				d.path, d.old = c.Old.Path, v.identify(c.Old)
			}
			if c.New != nil {
				d.path, d.new = c.New.Path, v.identify(c.New)
			}
			if !yield(d, err) {
				return
			}
		}
	}
}

// pollSymbols adds new symbols and removes deleted ones.
func (fo *follower) pollSymbols(ctx context.Context, root *volume) {
	ctx, cancel := context.WithTimeout(ctx, fo.limit)
	defer cancel()
	list, err := fo.list(ctx)
	if err != nil {
		// A store that is being deleted may lose its list before its settings. The next poll
		// reports that store as gone, so only a second failure is a problem of the list.
		if fo.unlisted {
			fo.warn(root, "symbols cannot be listed; the mount keeps its symbols", "follow_failed", err)
		}
		fo.unlisted = true
		return
	}
	fo.unlisted = false
	delete(fo.logged, "")
	old := root.current.Load().tree.(*symbolTree)
	if slices.Equal(list, old.list) {
		return
	}
	lost := slices.DeleteFunc(slices.Clone(old.list), func(s string) bool { _, found := slices.BinarySearch(list, s); return found })
	if !fo.checkStore(ctx, lost...) { // the store may be in the middle of its deletion
		return
	}
	now := fo.symbolTree(list, old)
	fo.swapTree(root, now)
	defer root.switching.Store(false)
	if err := fo.files.invalidate(ctx, root, old.differences(root, now)); err != nil {
		fo.log.Debug("the changed symbols were not invalidated", "err", err)
	}
}

// warnStoreGone warns of an unusable store, once per reason.
func (fo *follower) warnStoreGone(gone *catalog.StoreError) {
	text := "store_gone: " + gone.Error()
	if fo.storeErr == text {
		return
	}
	fo.storeErr = text
	fo.log.Warn("the store cannot be used; the mount keeps its version", "event", "store_gone", "id", gone.ID, "found", gone.Found, "err", gone)
}

// warn warns of a problem, once. The line has the current version of v. A store that was lost
// during a poll is no problem of a version.
func (fo *follower) warn(v *volume, message, event string, err error) {
	if gone := (*catalog.StoreError)(nil); errors.As(err, &gone) {
		fo.warnStoreGone(gone)
		return
	}
	text := event + ": " + err.Error()
	if fo.logged[v.symbol] == text {
		return
	}
	fo.logged[v.symbol] = text
	log := fo.log.With("event", event)
	if row := v.current.Load().row; v.symbol != "" {
		log = log.With("symbol", v.symbol, "version", row.Number, "published", row.Time)
	}
	log.Warn(message, "err", err)
}

// followPause is the shortest time between two polls. Changes arrive in bursts.
const followPause = 100 * time.Millisecond

// absentPoll is the poll interval until an absent or unreadable store is watched again. A
// store that has returned must be visible within 10 seconds.
const absentPoll = 5 * time.Second

// run polls until ctx ends: by the clock, and after each change if the catalog reports changes.
// It polls without delay for the first change of a burst, and after a pause for all others. By
// the clock it also retries to watch a catalog.
func (fo *follower) run(ctx context.Context) {
	tick := time.NewTicker(fo.follow)
	defer tick.Stop()
	interval := fo.follow
	changed, unwatch := fo.watch(ctx)
	defer func() { unwatch() }()
	if changed != nil {
		fo.poll(ctx) // changes since the mount began
	}
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			continue
		case <-tick.C:
			if changed == nil || fo.storeMoved {
				unwatch()
				fo.storeMoved = false
				changed, unwatch = fo.watch(ctx)
			}
		case _, ok := <-changed:
			if !ok {
				changed = nil
				continue
			}
			fo.poll(ctx)
			_ = origin.Sleep(ctx, fo.followPause) // an end of ctx ends the loop
			unsignal(changed)
		}
		fo.poll(ctx)
		if next := fo.interval(); next != interval {
			interval = next
			tick.Reset(next)
		}
	}
}

// interval returns the time between two polls by the clock.
func (fo *follower) interval() time.Duration {
	if fo.storeAbsent || fo.storeMoved {
		return min(fo.follow, absentPoll)
	}
	return fo.follow
}

// watch returns a channel of changes, and a function that ends the watch. The channel is nil if
// the catalog cannot be watched; the reason is logged once.
func (fo *follower) watch(ctx context.Context) (<-chan struct{}, func()) {
	c, ok := fo.catalog.(catalog.Watcher)
	if !ok || ctx.Err() != nil {
		return nil, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	changed, err := c.Watch(ctx)
	if err == nil {
		fo.watchErr = ""
		return changed, func() {
			cancel()
			for range changed { //nolint:revive // it is closed then
			}
		}
	}
	cancel()
	if text := err.Error(); fo.watchErr != text {
		fo.watchErr = text
		fo.log.Debug("the catalog cannot be watched; it is polled by the clock alone", "each", fo.follow, "err", err)
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
