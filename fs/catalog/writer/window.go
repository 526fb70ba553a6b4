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

// A window is the time for which a publish may rely on what it has looked up. It begins
// when the state of the sweep is read. A sweep waits for two windows between saying what
// it wants to delete and deleting it, so within one window either there is no sweep to
// be afraid of, or it is known and can be told what to keep, or it will see the commit.
//
// It is renewed while there is time. It is safe for concurrent use.
//
// Its lock is held while the store is asked: whoever relies on something must wait for
// the answer whether it may.
type window struct {
	p *Writer

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

func (p *Writer) openWindow(ctx context.Context) (*window, error) {
	w := &window{p: p, reused: map[names.Key]struct{}{}}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w, w.readLocked(ctx)
}

// readLocked reads the state of the sweep: the window begins.
func (w *window) readLocked(ctx context.Context) error {
	for try := 1; ; try++ {
		start := w.p.o.Clock()
		sweep := new(names.Sweep)
		tag, err := catalog.ReadDocument(ctx, w.p.store, names.SweepKey(), "", sweep)
		gone := errors.Is(err, origin.ErrNotFound)
		if err != nil && !gone {
			return err
		}
		if w.sweep != nil && (gone || w.sweep.ID != sweep.ID) {
			w.ended = append(w.ended, w.listed)
			w.sweep, w.tag, w.listed = nil, "", nil
		}
		if gone {
			w.beginLocked(start)
			return nil
		}
		if w.sweep == nil || w.sweep.List != sweep.List {
			listed, err := w.p.readSweepList(ctx, sweep.List)
			lost := errors.Is(err, origin.ErrNotFound) || errors.Is(err, codec.ErrCorrupt)
			switch {
			case lost && try < maxTries:
				continue // that sweep is over
			case lost && !sweep.Deleting:
				w.p.o.Logger.Warn("the list of a sweep cannot be used: nothing of it will be deleted", "event", "corrupt", "what", "catalog", "key", sweep.List, "err", err)
			case err != nil:
				return err
			}
			w.listed = listed
		}
		slices.Sort(sweep.Kept)
		w.sweep, w.tag = sweep, tag
		w.beginLocked(start)
		return nil
	}
}

// beginLocked begins the window, which may follow another one.
func (w *window) beginLocked(start time.Time) {
	if !w.start.IsZero() && elapsed(w.start, start) >= w.p.catalog.Settings().Window {
		w.gap, w.late = true, true
	}
	w.start = start
}

func (p *Writer) readSweepList(ctx context.Context, k names.Key) ([]names.Key, error) {
	var listed []names.Key
	_, err := catalog.ReadObject(ctx, p.store, k, "", func(value []byte) (err error) {
		if err = names.CheckValue(k, value); err == nil {
			listed, err = names.DecodeSweepList(value)
		}
		return err
	})
	return listed, err
}

// listsLocked says whether the sweep wants to delete a key.
func (w *window) listsLocked(k names.Key) bool {
	if w.sweep == nil {
		return false
	}
	if _, kept := slices.BinarySearch(w.sweep.Kept, k); kept {
		return false
	}
	_, listed := slices.BinarySearch(w.listed, k)
	return listed
}

// lists says whether the sweep wants to delete a key.
func (w *window) lists(k names.Key) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.listsLocked(k)
}

// sweeping says whether a sweep is under way.
func (w *window) sweeping() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sweep != nil
}

// note says that the publish relies on keys that are there and protected.
func (w *window) note(keys ...names.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range keys {
		w.reused[k] = struct{}{}
	}
}

// protect takes keys from the list of a sweep that wants to delete them. Keys that it
// returns may have been deleted; when it returns, nobody is about to delete them any
// more. What is there after it, or is put, is then noted.
func (w *window) protect(ctx context.Context, keys ...names.Key) (lost []names.Key, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := w.renewLocked(ctx); err != nil {
		return nil, err
	}
	unsafe, err := w.rescueLocked(ctx, keys)
	if err != nil {
		return nil, err
	}
	others := slices.DeleteFunc(unsafe, func(k names.Key) bool { return slices.Contains(keys, k) })
	for _, k := range keys {
		if w.late || w.endedLocked(k) {
			lost = append(lost, k)
		}
	}
	if w.gap {
		return lost, w.closeGapLocked(ctx)
	}
	return lost, w.checkThere(ctx, others)
}

// endedLocked says whether a sweep that is over wanted to delete a key.
func (w *window) endedLocked(k names.Key) bool {
	for _, listed := range w.ended {
		if _, ok := slices.BinarySearch(listed, k); ok {
			return true
		}
	}
	return false
}

// rescueLocked takes keys from the list of the sweep. If there is a new sweep, it does
// so with everything that the publish relies on. It returns keys that could not be
// rescued, after the sweep that has them on its list is over.
func (w *window) rescueLocked(ctx context.Context, keys []names.Key) (unsafe []names.Key, err error) {
	for try := 1; ; try++ {
		want := w.wantedLocked(keys)
		if len(want) == 0 {
			return unsafe, nil
		}
		id := w.sweep.ID
		if w.sweep.Deleting {
			err = w.waitLocked(ctx)
		} else {
			err = w.keepLocked(ctx, want)
		}
		switch {
		case err == nil:
		case !errors.Is(err, errLost):
			return nil, err
		case try == maxTries:
			return nil, ErrBusy
		default:
			if err = w.p.pause(ctx, try); err == nil {
				err = w.readLocked(ctx)
			}
			if err != nil {
				return nil, err
			}
		}
		if w.sweep == nil || w.sweep.ID != id {
			unsafe = append(unsafe, want...)
			keys = slices.Concat(keys, w.reusedLocked())
		}
	}
}

func (w *window) wantedLocked(keys []names.Key) []names.Key {
	var want []names.Key
	for _, k := range keys {
		if w.listsLocked(k) {
			want = append(want, k)
		}
	}
	return want
}

func (w *window) reusedLocked() []names.Key {
	keys := make([]names.Key, 0, len(w.reused))
	for k := range w.reused {
		keys = append(keys, k)
	}
	return keys
}

// keepLocked tells the sweep what to keep. It is errLost if its state has changed, or
// may have.
func (w *window) keepLocked(ctx context.Context, keys []names.Key) error {
	next := *w.sweep
	next.Kept = slices.Compact(slices.Sorted(slices.Values(slices.Concat(next.Kept, keys))))
	value, err := names.Encode(&next)
	if err != nil {
		return err
	}
	tag, err := w.p.store.PutIfMatch(ctx, names.SweepKey(), value, w.tag)
	switch {
	case err == nil:
		w.sweep, w.tag = &next, tag
		return nil
	case errors.Is(err, origin.ErrConflict), errors.Is(err, origin.ErrNotFound), errors.Is(err, origin.ErrUnknown):
		return errLost
	}
	return err
}

// waitLocked waits until a sweep that is deleting is over. One that was left behind by a
// crash is for the next sweep to end, which may be a long time away.
func (w *window) waitLocked(ctx context.Context) error {
	id, length := w.sweep.ID, w.p.catalog.Settings().Window
	w.p.o.Logger.Info("waiting for a sweep that deletes what is published again", "event", "sweep_wait", "sweep", id)
	for w.sweep != nil && w.sweep.ID == id && w.sweep.Deleting {
		if w.p.o.Clock().Sub(w.sweep.Lease) > 2*length {
			return fmt.Errorf("sweep %s was left unfinished and stands in the way: run the sweep again", id)
		}
		if err := w.p.o.Sleep(ctx, min(10*time.Second, length/60)); err != nil {
			return err
		}
		if err := w.readLocked(ctx); err != nil {
			return err
		}
	}
	return nil
}

// renew begins a new window when half of this one is over. If all of it is over, it
// looks whether everything is still there that the publish relies on; what else was to
// happen within the window is late.
func (w *window) renew(ctx context.Context) (late bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.renewLocked(ctx)
}

func (w *window) renewLocked(ctx context.Context) (late bool, err error) {
	start, length := w.start, w.p.catalog.Settings().Window
	if !w.gap && elapsed(start, w.p.o.Clock()) < length/2 {
		return false, nil
	}
	defer func() {
		if err != nil {
			w.start = start // the next one must look again
		}
	}()
	if err := w.readLocked(ctx); err != nil {
		return false, err
	}
	keys, err := w.rescueLocked(ctx, w.reusedLocked())
	if err != nil {
		return false, err
	}
	if w.gap {
		return true, w.closeGapLocked(ctx)
	}
	return false, w.checkThere(ctx, keys)
}

// closeGapLocked looks whether everything is still there that the publish relies on.
func (w *window) closeGapLocked(ctx context.Context) error {
	err := w.checkThere(ctx, w.reusedLocked())
	w.gap = err != nil
	return err
}

// elapsed is the time between two readings of a clock. While a machine is suspended, only
// one of its two clocks goes on.
func elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}

// checkThere is ErrSwept if one of some keys is not there.
func (w *window) checkThere(ctx context.Context, keys []names.Key) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(putsAtOnce)
	for _, k := range keys {
		g.Go(func() error {
			_, err := w.p.store.Size(ctx, k)
			if errors.Is(err, origin.ErrNotFound) {
				return fmt.Errorf("%s: %w", k, ErrSwept)
			}
			return err
		})
	}
	return g.Wait()
}
