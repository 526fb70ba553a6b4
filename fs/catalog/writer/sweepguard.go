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

// A sweepGuard is the time for which a publish may rely on what it has looked up. It begins
// when the state of the sweep is read. A sweep waits for two windows between saying what
// it wants to delete and deleting it, so within one window either there is no sweep to
// be afraid of, or it is known and can be told what to keep, or it will see the commit.
//
// It is renewed while there is time. It is safe for concurrent use.
//
// Its lock is held while the store is asked: whoever relies on something must wait for
// the answer whether it may.
type sweepGuard struct {
	w *Writer

	mu     sync.Mutex
	start  time.Time              // guarded by mu, as all below
	sweep  *names.Sweep           // nil: none is under way; Kept is sorted
	tag    origin.Tag             // of sweep
	listed []names.Key            // what the sweep wants to delete, sorted
	ended  [][]names.Key          // what sweeps wanted to delete that are over
	gap    bool                   // between two readings of the state a whole window was over: sweeps may have come and gone, and what is relied on was not looked at since
	late   bool                   // there was such a gap
	reused map[names.Key]struct{} // what the publish relies on
}

func (w *Writer) openSweepGuard(ctx context.Context) (*sweepGuard, error) {
	sg := &sweepGuard{w: w, reused: map[names.Key]struct{}{}}
	sg.mu.Lock()
	defer sg.mu.Unlock()
	return sg, sg.readLocked(ctx)
}

// readLocked reads the state of the sweep: the window begins.
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
				continue // that sweep is over
			case lost && !sweep.Deleting:
				sg.w.o.Logger.Warn("the list of a sweep cannot be used: nothing of it will be deleted", "event", "corrupt", "what", "catalog", "key", sweep.List, "err", err)
			case err != nil:
				return err
			}
			sg.listed = listed
		}
		slices.Sort(sweep.Kept)
		sg.sweep, sg.tag = sweep, tag
		sg.beginLocked(start)
		return nil
	}
}

// beginLocked begins the window, which may follow another one.
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

// isListedLocked says whether the sweep wants to delete a key.
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

// isListed says whether the sweep wants to delete a key.
func (sg *sweepGuard) isListed(k names.Key) bool {
	sg.mu.Lock()
	defer sg.mu.Unlock()
	return sg.isListedLocked(k)
}

// isSweeping says whether a sweep is under way.
func (sg *sweepGuard) isSweeping() bool {
	sg.mu.Lock()
	defer sg.mu.Unlock()
	return sg.sweep != nil
}

// record says that the publish relies on keys that are there and protected.
func (sg *sweepGuard) record(keys ...names.Key) {
	sg.mu.Lock()
	defer sg.mu.Unlock()
	for _, k := range keys {
		sg.reused[k] = struct{}{}
	}
}

// protect takes keys from the list of a sweep that wants to delete them. Keys that it
// returns may have been deleted; when it returns, nobody is about to delete them any
// more. What is there after it, or is put, is then noted.
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

// endedLocked says whether a sweep that is over wanted to delete a key.
func (sg *sweepGuard) endedLocked(k names.Key) bool {
	for _, listed := range sg.ended {
		if _, ok := slices.BinarySearch(listed, k); ok {
			return true
		}
	}
	return false
}

// rescueLocked takes keys from the list of the sweep. If there is a new sweep, it does
// so with everything that the publish relies on. It returns keys that could not be
// rescued, after the sweep that has them on its list is over.
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

// keepLocked tells the sweep what to keep. It is errOvertaken if its state has changed, or
// may have.
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

// waitLocked waits until a sweep that is deleting is over. One that was left behind by a
// crash is for the next sweep to end, which may be a long time away.
func (sg *sweepGuard) waitLocked(ctx context.Context) error {
	id, length := sg.sweep.ID, sg.w.catalog.Settings().Window
	sg.w.o.Logger.Info("waiting for a sweep that deletes what is published again", "event", "sweep_wait", "sweep", id)
	for sg.sweep != nil && sg.sweep.ID == id && sg.sweep.Deleting {
		if sg.w.o.Clock().Sub(sg.sweep.Lease) > 2*length {
			return fmt.Errorf("sweep %s was left unfinished and stands in the way: run the sweep again", id)
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

// renew begins a new window when half of this one is over. If all of it is over, it
// looks whether everything is still there that the publish relies on; what else was to
// happen within the window is late.
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
			sg.start = start // the next one must look again
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

// closeGapLocked looks whether everything is still there that the publish relies on.
func (sg *sweepGuard) closeGapLocked(ctx context.Context) error {
	err := sg.checkExist(ctx, sg.reusedLocked())
	sg.gap = err != nil
	return err
}

// elapsed is the time between two readings of a clock. While a machine is suspended, only
// one of its two clocks goes on.
func elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}

// checkExist is ErrSwept if one of some keys is not there.
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
