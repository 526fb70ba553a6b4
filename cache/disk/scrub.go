package disk

import (
	"context"
	"errors"
	"time"

	"github.com/xetfs/xetfs/cache/disk/internal/index"
	"github.com/xetfs/xetfs/cache/disk/internal/wal"
)

func (sc *scrubber) run() {
	defer close(sc.done)
	for sc.ctx.Err() == nil {
		if e, ok := sc.take(); ok {
			sc.scrub(e)
			continue
		}
		select {
		case <-sc.wake:
		case <-sc.ctx.Done():
		}
	}
}

func (sc *scrubber) scrub(e scrubTask) {
	switch {
	case e.d != sc.s.disk.Load() || e.w.Gone.Load() || e.w.Due.Load() != isQueued:
	case sc.s.down() != nil:
		e.w.Due.Store(0)
	default:
		_ = sc.s.scrubFile(sc.ctx, e.d, e.w, sc.pace) // scrubFile handles the error
	}
}

// scrubFile compares a file with its checksum. A file that matches may be opened from now on;
// another one is forgotten.
func (s *Store) scrubFile(ctx context.Context, d *folder, w *index.WholeFile, pace func(w *index.WholeFile, n int, took time.Duration)) error {
	ctime, err := d.checksumFile(ctx, w, pace)
	switch {
	case err == nil:
		s.clearSuspect(d, w, ctime)
	case ctx.Err() == nil:
		s.fileFailed(d, w, err)
	}
	return err
}

// clearSuspect records that a file with this ctime matched its checksum. The record is queued
// before the file is returned, so that a store that closes then still writes it.
func (s *Store) clearSuspect(d *folder, w *index.WholeFile, ctime int64) {
	w.Due.Store(s.scrubber.clock() + int64(s.o.testing.recheck))
	news := w.CTime.Swap(ctime) != ctime
	if wr := s.writer.Load(); news && wr != nil {
		wr.later(func() { wr.recordCtime(d, w) })
	}
	w.Suspect.Store(false)
}

// recordCtime writes the new ctime of a file to the journal.
func (wr *writer) recordCtime(d *folder, w *index.WholeFile) {
	if d == wr.d && wr.policy.HasFile(w) && !w.Gone.Load() {
		wr.policy.Push(index.Protected, index.QueueItem{File: w})
		wr.write(wal.NewFileRecord(w))
	}
}

// checkNow compares a suspect file at once and reports whether it stays. Otherwise the caller
// would write the file again.
func (s *Store) checkNow(d *folder, w *index.WholeFile) (kept bool, err error) {
	if w == nil || !w.Suspect.Load() {
		return w != nil, nil
	}
	err = s.scrubFile(s.scrubber.ctx, d, w, nil)
	if errors.Is(err, context.Canceled) {
		return false, ErrClosed
	}
	return err == nil, nil
}
