package sweep

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog"
)

// maxTries bounds how often a step is done again: because the store did not answer, or
// because writers kept objects meanwhile.
const maxTries = 10

// read returns the state of the sweep that is under way, or nil.
func (w *sweeper) read(ctx context.Context) (*names.Sweep, origin.Tag, error) {
	st := new(names.Sweep)
	tag, err := catalog.ReadDocument(ctx, w.store, names.SweepKey(), "", st)
	if errors.Is(err, origin.ErrNotFound) {
		return nil, "", nil
	}
	return st, tag, err
}

// announce marks, and announces what is to be deleted. The state is another sweep's if
// that was faster, and nil if there is nothing to delete.
func (w *sweeper) announce(ctx context.Context) (*names.Sweep, origin.Tag, error) {
	now, err := w.storeTime(ctx)
	if err != nil {
		return nil, "", err
	}
	garbage, err := w.survey(ctx, "mark", now, new(names.Sweep))
	if err != nil || len(garbage) == 0 {
		return nil, "", err
	}
	list, err := w.putList(ctx, garbage)
	if err != nil {
		return nil, "", err
	}
	if _, err := w.put(ctx, &names.Sweep{ID: w.randomID(), List: list, Started: w.o.Clock()}, ""); err != nil && !errors.Is(err, origin.ErrExists) {
		return nil, "", err
	}
	// A sweep of the same objects that ended meanwhile has taken its list along.
	if _, err := w.putList(ctx, garbage); err != nil {
		return nil, "", err
	}
	return w.read(ctx)
}

// decide marks again, and takes the lease. It returns what is to be deleted.
func (w *sweeper) decide(ctx context.Context, id string) (*lease, []origin.Item, error) {
	for range maxTries {
		st, tag, err := w.read(ctx)
		switch {
		case err != nil:
			return nil, nil, err
		case st == nil, st.ID != id, st.Deleting:
			return nil, nil, fmt.Errorf("the sweep that was announced is no longer waiting: %w", ErrOther)
		}
		listed, err := w.readList(ctx, st.List)
		if err != nil {
			return nil, nil, err
		}
		now, err := w.storeTime(ctx)
		if err != nil {
			return nil, nil, err
		}
		garbage, err := w.survey(ctx, "mark again", now, st)
		if err != nil {
			return nil, nil, err
		}
		l, doomed, err := w.condemn(ctx, st, tag, common(garbage, listed))
		if !errors.Is(err, origin.ErrConflict) {
			return l, doomed, err
		}
	}
	return nil, nil, fmt.Errorf("writers kept objects %d times while they were looked at", maxTries)
}

// common returns the items whose keys are listed. Both are sorted.
func common(items []origin.Item, listed []names.Key) []origin.Item {
	return slices.DeleteFunc(items, func(item origin.Item) bool {
		_, found := slices.BinarySearch(listed, item.Key)
		return !found
	})
}

// condemn replaces the state of a sweep by one in which this sweeper deletes.
func (w *sweeper) condemn(ctx context.Context, st *names.Sweep, tag origin.Tag, doomed []origin.Item) (*lease, []origin.Item, error) {
	list, err := w.putList(ctx, doomed)
	if err != nil {
		return nil, nil, err
	}
	w.lists = append(w.lists, st.List, list)
	l := &lease{w: w, st: names.Sweep{ID: st.ID, Deleting: true, List: list, Started: st.Started, Owner: w.owner}, tag: tag}
	return l, doomed, l.renew(ctx)
}

// takeOver finishes the sweep of another process that has stopped. It waits until the state has
// not changed for two windows. If the state changes meanwhile, it returns ErrOther.
func (w *sweeper) takeOver(ctx context.Context, st *names.Sweep, tag origin.Tag) error {
	now, err := w.storeTime(ctx)
	if err != nil {
		return err
	}
	renewed, err := catalog.Modified(ctx, w.store, names.SweepKey())
	if errors.Is(err, origin.ErrNotFound) {
		return fmt.Errorf("it has ended just now: %w", ErrOther)
	}
	if err != nil {
		return err
	}
	// Stores may round times down to seconds.
	since := w.o.Clock().Add(-max(0, now.Sub(renewed)-2*time.Second))
	if err := w.wait(ctx, since, 2*w.window); err != nil {
		return err
	}
	again, tagNow, err := w.read(ctx)
	switch {
	case err != nil:
		return err
	case again == nil || tagNow != tag:
		return fmt.Errorf("it is deleting: %w", ErrOther)
	}
	listed, err := w.readList(ctx, st.List)
	if err != nil {
		return err
	}
	doomed, err := w.stillOld(ctx, listed, now)
	if err != nil {
		return err
	}
	l, doomed, err := w.condemn(ctx, st, tag, doomed)
	if errors.Is(err, origin.ErrConflict) {
		return fmt.Errorf("it is deleting: %w", ErrOther)
	}
	if err != nil {
		return err
	}
	return w.finish(ctx, l, doomed)
}

// put replaces the state that has the tag, or creates it where the tag is "". If the
// answer is lost it looks what happened: no two states have the same bytes.
func (w *sweeper) put(ctx context.Context, st *names.Sweep, tag origin.Tag) (origin.Tag, error) {
	k := names.SweepKey()
	b, err := names.Encode(st)
	if err != nil {
		return "", err
	}
	for try := 0; ; try++ {
		var now origin.Tag
		if tag == "" {
			now, err = w.store.PutIfAbsent(ctx, k, b)
		} else {
			now, err = w.store.PutIfMatch(ctx, k, b, tag)
		}
		if try > 0 && err != nil || errors.Is(err, origin.ErrUnknown) {
			there, tagThere, getErr := w.store.Get(ctx, k, "")
			if getErr == nil && bytes.Equal(there, b) {
				return tagThere, nil
			}
		}
		if !errors.Is(err, origin.ErrUnknown) || try == maxTries {
			return now, err
		}
		if err := w.pause(ctx, try); err != nil {
			return "", err
		}
	}
}

// pause waits before something is tried again.
func (w *sweeper) pause(ctx context.Context, try int) error {
	return w.o.Sleep(ctx, 50*time.Millisecond<<min(try, 6))
}

// insist does what may be done twice, until the store answers.
func (w *sweeper) insist(ctx context.Context, do func(context.Context) error) error {
	for try := 0; ; try++ {
		err := do(ctx)
		if !errors.Is(err, origin.ErrUnknown) || try == maxTries {
			return err
		}
		if err := w.pause(ctx, try); err != nil {
			return err
		}
	}
}

// putList puts the list of some items, as many as it may have, and makes it durable.
func (w *sweeper) putList(ctx context.Context, items []origin.Item) (names.Key, error) {
	keys := make([]names.Key, 0, len(items))
	for _, item := range items {
		keys = append(keys, item.Key)
	}
	b, err := names.EncodeSweepList(keys)
	if err != nil {
		return "", err
	}
	k := names.SweepListKey(b)
	err = w.insist(ctx, func(ctx context.Context) error {
		_, err := w.store.PutIfAbsent(ctx, k, b)
		return err
	})
	if err != nil && !errors.Is(err, origin.ErrExists) {
		return "", err
	}
	return k, w.store.Sync(ctx)
}

// readList returns the keys of a list. A missing or damaged list counts as empty, and its
// objects are not deleted. Otherwise it would block every writer and sweep permanently.
func (w *sweeper) readList(ctx context.Context, k names.Key) ([]names.Key, error) {
	var keys []names.Key
	_, err := catalog.ReadObject(ctx, w.store, k, "", func(b []byte) (err error) {
		if err = names.CheckValue(k, b); err == nil {
			keys, err = names.DecodeSweepList(b)
		}
		return err
	})
	if errors.Is(err, origin.ErrNotFound) || errors.Is(err, codec.ErrCorrupt) {
		w.o.Logger.Warn("the list of a sweep cannot be used: nothing of it is deleted", "event", "corrupt", "what", "catalog", "key", k, "err", err)
		return nil, nil
	}
	return keys, err
}

func (w *sweeper) randomID() string {
	var id [16]byte
	w.o.Random(id[:])
	return hex.EncodeToString(id[:])
}
