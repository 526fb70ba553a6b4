package writer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog"
)

// A sweepGuard protects what a publish relies on from a concurrent sweep. It holds for one
// window, which begins when the state of the sweep is read.
//
// A sweep waits for two windows between its announcement and its deletions. Within one
// window, a publish therefore meets one of three cases. No sweep is dangerous; or the
// announced sweep receives the keys to keep; or the sweep sees the commit.
//
// A publish renews the window while time is left. A sweepGuard is safe for concurrent use.
// Its lock is held during requests, because every caller must wait for the answer.
type sweepGuard struct {
	w      *Writer
	noWait bool // return errSweeping instead of waiting for a sweep

	mu     sync.Mutex
	start  time.Time              // of the window; guarded by mu, as all below
	sweep  *names.Sweep           // nil: no sweep is under way; Kept is sorted
	tag    origin.Tag             // of sweep
	since  time.Time              // when the guard first read the state with this tag
	listed []names.Key            // keys that the sweep wants to delete, sorted
	ended  [][]names.Key          // the same of sweeps that have ended
	gap    bool                   // a whole window passed between two readings, and the used keys were not checked since
	late   bool                   // a gap has occurred
	reused map[names.Key]struct{} // keys that the publish relies on
}

func (w *Writer) openSweepGuard(ctx context.Context) (*sweepGuard, error) {
	sg := &sweepGuard{w: w, reused: map[names.Key]struct{}{}}
	sg.mu.Lock()
	defer sg.mu.Unlock()
	return sg, sg.readLocked(ctx)
}

// readLocked reads the state of the sweep. A new window begins.
func (sg *sweepGuard) readLocked(ctx context.Context) error {
	for try := 1; ; try++ {
		start := sg.w.o.Clock()
		sweep := new(names.Sweep)
		tag, err := catalog.ReadDocument(ctx, sg.w.store, names.SweepKey(), "", sweep)
		gone := errors.Is(err, origin.ErrNotFound)
		if err != nil && !gone {
			return err
		}
		if sg.sweep != nil && (gone || sg.sweep.ID != sweep.ID) {
			sg.ended = append(sg.ended, sg.listed)
			sg.sweep, sg.tag, sg.listed = nil, "", nil
		}
		if gone {
			sg.beginLocked(start)
			return nil
		}
		if sg.sweep == nil || sg.sweep.List != sweep.List {
			listed, err := sg.w.readSweepList(ctx, sweep.List)
			lost := errors.Is(err, origin.ErrNotFound) || errors.Is(err, codec.ErrCorrupt)
			switch {
			case lost && try < maxTries:
				continue // that sweep has ended
			case lost && !sweep.Deleting:
				sg.w.o.Logger.Warn("the list of a sweep is unusable; the sweep deletes nothing", "event", "corrupt", "what", "catalog", "key", sweep.List, "err", err)
			case err != nil:
				return err
			}
			sg.listed = listed
		}
		if tag != sg.tag {
			sg.since = start
		}
		slices.Sort(sweep.Kept)
		sg.sweep, sg.tag = sweep, tag
		sg.beginLocked(start)
		return nil
	}
}

// beginLocked begins a window. It records a gap if the window before has ended.
func (sg *sweepGuard) beginLocked(start time.Time) {
	if !sg.start.IsZero() && elapsed(sg.start, start) >= sg.w.catalog.Settings().Window {
		sg.gap, sg.late = true, true
	}
	sg.start = start
}

func (w *Writer) readSweepList(ctx context.Context, k names.Key) ([]names.Key, error) {
	var listed []names.Key
	_, err := catalog.ReadObject(ctx, w.store, k, "", func(value []byte) (err error) {
		if err = names.CheckValue(k, value); err == nil {
			listed, err = names.DecodeSweepList(value)
		}
		return err
	})
	return listed, err
}

// isListedLocked reports whether the sweep wants to delete a key.
func (sg *sweepGuard) isListedLocked(k names.Key) bool {
	if sg.sweep == nil {
		return false
	}
	if _, kept := slices.BinarySearch(sg.sweep.Kept, k); kept {
		return false
	}
	_, listed := slices.BinarySearch(sg.listed, k)
	return listed
}

// isListed reports whether the sweep wants to delete a key.
func (sg *sweepGuard) isListed(k names.Key) bool {
	sg.mu.Lock()
	defer sg.mu.Unlock()
	return sg.isListedLocked(k)
}

// isSweeping reports whether a sweep is under way.
func (sg *sweepGuard) isSweeping() bool {
	sg.mu.Lock()
	defer sg.mu.Unlock()
	return sg.sweep != nil
}

// record adds keys that exist and are protected to those that the publish relies on.
func (sg *sweepGuard) record(keys ...names.Key) {
	sg.mu.Lock()
	defer sg.mu.Unlock()
	for _, k := range keys {
		sg.reused[k] = struct{}{}
	}
}

// protect removes keys from the list of a sweep. It returns the keys that may be deleted
// already. After it returns, no sweep is about to delete one of the keys. The caller
// then checks or stores the objects and records the keys.
func (sg *sweepGuard) protect(ctx context.Context, keys ...names.Key) (lost []names.Key, err error) {
	sg.mu.Lock()
	defer sg.mu.Unlock()
	if _, err := sg.renewLocked(ctx); err != nil {
		return nil, err
	}
	unsafe, err := sg.rescueLocked(ctx, keys)
	if err != nil {
		return nil, err
	}
	others := slices.DeleteFunc(unsafe, func(k names.Key) bool { return slices.Contains(keys, k) })
	for _, k := range keys {
		if sg.late || sg.endedLocked(k) {
			lost = append(lost, k)
		}
	}
	if sg.gap {
		return lost, sg.closeGapLocked(ctx)
	}
	return lost, sg.checkExist(ctx, others)
}

// endedLocked reports whether a sweep that has ended wanted to delete a key.
func (sg *sweepGuard) endedLocked(k names.Key) bool {
	for _, listed := range sg.ended {
		if _, ok := slices.BinarySearch(listed, k); ok {
			return true
		}
	}
	return false
}

// rescueLocked removes keys from the list of the sweep. For a new sweep, it does so with
// every key that the publish relies on. It returns the keys that could not be rescued,
// after the sweep that lists them has ended.
func (sg *sweepGuard) rescueLocked(ctx context.Context, keys []names.Key) (unsafe []names.Key, err error) {
	for try := 1; ; try++ {
		want := sg.wantedLocked(keys)
		if len(want) == 0 {
			return unsafe, nil
		}
		id := sg.sweep.ID
		if sg.sweep.Deleting {
			err = sg.waitLocked(ctx)
		} else {
			err = sg.keepLocked(ctx, want)
		}
		switch {
		case err == nil:
		case !errors.Is(err, errOvertaken):
			return nil, err
		case try == maxTries:
			return nil, ErrBusy
		default:
			if err = sg.w.pause(ctx, try); err == nil {
				err = sg.readLocked(ctx)
			}
			if err != nil {
				return nil, err
			}
		}
		if sg.sweep == nil || sg.sweep.ID != id {
			unsafe = append(unsafe, want...)
			keys = slices.Concat(keys, sg.reusedLocked())
		}
	}
}

func (sg *sweepGuard) wantedLocked(keys []names.Key) []names.Key {
	var want []names.Key
	for _, k := range keys {
		if sg.isListedLocked(k) {
			want = append(want, k)
		}
	}
	return want
}

func (sg *sweepGuard) reusedLocked() []names.Key {
	keys := make([]names.Key, 0, len(sg.reused))
	for k := range sg.reused {
		keys = append(keys, k)
	}
	return keys
}

// keepLocked adds keys to the list of kept keys in the state of the sweep. It returns
// errOvertaken if the state has changed, or may have changed.
func (sg *sweepGuard) keepLocked(ctx context.Context, keys []names.Key) error {
	next := *sg.sweep
	next.Kept = slices.Compact(slices.Sorted(slices.Values(slices.Concat(next.Kept, keys))))
	value, err := names.Encode(&next)
	if err != nil {
		return err
	}
	tag, err := sg.w.store.PutIfMatch(ctx, names.SweepKey(), value, sg.tag)
	switch {
	case err == nil:
		sg.sweep, sg.tag = &next, tag
		return nil
	case errors.Is(err, origin.ErrConflict), errors.Is(err, origin.ErrNotFound), errors.Is(err, origin.ErrUnknown):
		return errOvertaken
	}
	return err
}

// waitLocked waits until a deleting sweep has ended. The next sweep ends one that a crash
// left behind, which may take long; that is an error. A live sweep renews its lease within each
// window. The end of the lease is by the clock of the sweeper, so it is not used.
func (sg *sweepGuard) waitLocked(ctx context.Context) error {
	id, length := sg.sweep.ID, sg.w.catalog.Settings().Window
	if !sg.noWait {
		sg.w.o.Logger.Warn("waiting for a sweep that deletes republished objects; if no sweep runs, xetfs catalog sweep ends it", "event", "sweep_wait", "sweep", id)
	}
	for looks := 0; sg.sweep != nil && sg.sweep.ID == id && sg.sweep.Deleting; looks++ {
		switch {
		case elapsed(sg.since, sg.w.o.Clock()) > 3*length:
			return fmt.Errorf("sweep %s was left unfinished and blocks this publish; run the sweep again (xetfs catalog sweep)", id)
		case sg.noWait && looks > 0:
			return errSweeping
		case sg.noWait:
			if err := sg.readLocked(ctx); err != nil {
				return err
			}
			continue
		}
		if err := sg.w.o.Sleep(ctx, min(10*time.Second, length/60)); err != nil {
			return err
		}
		if err := sg.readLocked(ctx); err != nil {
			return err
		}
	}
	return nil
}

// renew begins a new window when half of the current one is over. If all of it is over,
// renew checks that every key still exists on which the publish relies. The other steps
// that had to happen within the window are then late.
func (sg *sweepGuard) renew(ctx context.Context) (late bool, err error) {
	sg.mu.Lock()
	defer sg.mu.Unlock()
	return sg.renewLocked(ctx)
}

func (sg *sweepGuard) renewLocked(ctx context.Context) (late bool, err error) {
	start, length := sg.start, sg.w.catalog.Settings().Window
	if !sg.gap && elapsed(start, sg.w.o.Clock()) < length/2 {
		return false, nil
	}
	defer func() {
		if err != nil {
			sg.start = start // the next call must check again
		}
	}()
	if err := sg.readLocked(ctx); err != nil {
		return false, err
	}
	keys, err := sg.rescueLocked(ctx, sg.reusedLocked())
	if err != nil {
		return false, err
	}
	if sg.gap {
		return true, sg.closeGapLocked(ctx)
	}
	return false, sg.checkExist(ctx, keys)
}

// closeGapLocked checks that every key still exists on which the publish relies.
func (sg *sweepGuard) closeGapLocked(ctx context.Context) error {
	err := sg.checkExist(ctx, sg.reusedLocked())
	sg.gap = err != nil
	return err
}

// elapsed returns the time between two readings of a clock. On a suspended machine, only
// one of its two clocks runs.
func elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}

// checkExist returns ErrSwept if one of some keys does not exist.
func (sg *sweepGuard) checkExist(ctx context.Context, keys []names.Key) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(putsAtOnce)
	for _, k := range keys {
		g.Go(func() error {
			_, err := sg.w.store.Size(ctx, k)
			if errors.Is(err, origin.ErrNotFound) {
				return fmt.Errorf("%s: %w", k, ErrSwept)
			}
			return err
		})
	}
	return g.Wait()
}
