package writer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	iofs "io/fs"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog"
)

// Snapshot resolves each symbol and keeps the versions alive under a name. Without
// replace, it returns io/fs.ErrExist for an existing name. Symbols are read one after the
// other, so that a concurrent publish of several symbols may be included in part.
func (w *Writer) Snapshot(ctx context.Context, name, message string, symbols map[string]names.AsOf, replace bool) (*names.Snapshot, error) {
	if err := names.CheckSnapshot(name); err != nil {
		return nil, err
	}
	now := w.now()
	for try := 1; ; try++ {
		// The time between the first ref and the commit must be within a window. Only
		// then a sweep that found a version dead checks it again.
		begun := w.o.Clock()
		s, err := w.resolveAll(ctx, symbols)
		if err != nil {
			return nil, err
		}
		s.Name, s.Message, s.Time = name, message, now
		if w.o.Clock().Sub(begun) < w.catalog.Settings().Window/2 {
			err = w.putSnapshot(ctx, s, replace)
			if !errors.Is(err, origin.ErrConflict) {
				return s, err
			}
		}
		if try == maxTries {
			return nil, fmt.Errorf("snapshot %s: %w", name, ErrBusy)
		}
		if err := w.pause(ctx, try); err != nil {
			return nil, err
		}
	}
}

func (w *Writer) resolveAll(ctx context.Context, symbols map[string]names.AsOf) (*names.Snapshot, error) {
	s := &names.Snapshot{Rows: make(map[string]names.Row, len(symbols))}
	for symbol, at := range symbols {
		if at.Form == names.ByIdentity {
			return nil, fmt.Errorf("%s: a snapshot holds versions, and %v is none", symbol, at)
		}
		row, err := w.catalog.Resolve(ctx, symbol, at)
		if err != nil {
			return nil, err
		}
		s.Rows[symbol] = row
	}
	return s, nil
}

// putSnapshot stores a snapshot. It returns ErrConflict if another writer replaces it at
// the same time.
func (w *Writer) putSnapshot(ctx context.Context, s *names.Snapshot, replace bool) error {
	value, err := names.Encode(s)
	if err != nil {
		return err
	}
	k := names.SnapshotKey(s.Name)
	tag := origin.Tag("")
	there := false
	if replace {
		_, tag, err = w.store.Get(ctx, k, "")
		there = err == nil
		if err != nil && !errors.Is(err, origin.ErrNotFound) {
			return err
		}
	}
	err = w.timed(ctx, func(ctx context.Context) (err error) {
		if there {
			_, err = w.store.PutIfMatch(ctx, k, value, tag)
		} else {
			_, err = w.store.PutIfAbsent(ctx, k, value)
		}
		return err
	})
	switch {
	case err == nil:
		return w.store.Sync(ctx)
	case errors.Is(err, origin.ErrUnknown), errors.Is(err, origin.ErrExists):
		return w.readBackSnapshot(ctx, k, value, replace, err)
	case errors.Is(err, origin.ErrNotFound):
		return fmt.Errorf("%w: %w", origin.ErrConflict, err)
	}
	return err
}

// readBackSnapshot returns the outcome of a put that failed for a reason. An existing
// snapshot may be our own, whose answer was lost.
func (w *Writer) readBackSnapshot(ctx context.Context, k names.Key, value []byte, replace bool, why error) error {
	now, _, err := w.store.Get(ctx, k, "")
	switch {
	case err == nil && bytes.Equal(now, value):
		return w.store.Sync(ctx)
	case err == nil && !replace:
		return fmt.Errorf("%s: %w", k, iofs.ErrExist)
	case err == nil || errors.Is(err, origin.ErrNotFound):
		return fmt.Errorf("%w: %w", origin.ErrConflict, why) // the caller tries again
	}
	return orUnknown(errors.Is(why, origin.ErrUnknown), err)
}

// DeleteSnapshot deletes a snapshot, or returns io/fs.ErrNotExist.
func (w *Writer) DeleteSnapshot(ctx context.Context, name string) error {
	if err := names.CheckSnapshot(name); err != nil {
		return catalog.NewAbsentError(fmt.Sprintf("snapshot %q", name), "%v", err)
	}
	k := names.SnapshotKey(name)
	_, err := w.store.Size(ctx, k)
	if errors.Is(err, origin.ErrNotFound) {
		return catalog.AbsentSnapshotError(name)
	}
	if err == nil {
		err = w.remove(ctx, k)
	}
	if err == nil {
		err = w.store.Sync(ctx)
	}
	return err
}
