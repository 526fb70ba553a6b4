package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// Open opens a cache in dir, which it creates if needed, and reads its index. Entries without a
// file are forgotten; files without an entry are deleted in the background. The error is
// ErrBusy, ErrNewer, ErrRefused, or that of reading or writing the folder. A caller without a
// store continues without a disk cache.
func Open(dir string, o Options) (*Store, error) {
	if o.MaxBytes != 0 && o.MaxBytes < minBytes && o.testing.segment == 0 {
		return nil, fmt.Errorf("disk cache %s: %d bytes are too few, %d is the least", dir, o.MaxBytes, minBytes)
	}
	o.setDefaults()
	s := &Store{dir: dir, o: o}
	s.reads.init(o.ReadLimit)
	s.ahead = make(background, maxAhead)
	s.scrubber.init(s)
	err := s.openAsOwner()
	if err != nil && o.Share && mayShare(err) {
		if shared := s.share(); !errors.Is(shared, fs.ErrNotExist) {
			err = shared // otherwise there is no cache yet, and err is the reason
		}
	}
	if err != nil {
		s.scrubber.stop()
		return nil, fmt.Errorf("disk cache %s: %w", dir, err)
	}
	go s.scrubber.run()
	if s.Shared() && o.TakeOver {
		s.standby = newStandby(s)
	}
	return s, nil
}

// Sync returns when all earlier puts are durable.
func (s *Store) Sync() error {
	wr := s.writer.Load()
	if wr == nil {
		return nil
	}
	return wr.sync()
}

// Flush returns when all earlier puts can be found, also by processes that open the folder, and
// survive kill -9. It may wait for as long as the disk blocks. If ctx ends, it returns the error
// of ctx.
func (s *Store) Flush(ctx context.Context) error {
	wr := s.writer.Load()
	if wr == nil {
		return nil
	}
	return wr.call(ctx, &callOp{run: func() error { return nil }})
}

// Close makes everything durable and releases the folder. It returns within 10 seconds, also if
// the disk hangs. Open whole files stay open.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	end := time.Now().Add(s.o.testing.ending)
	s.scrubber.stop()
	err := s.standby.close(max(time.Until(end), 0))
	if wr := s.writer.Load(); wr != nil && err == nil {
		err = wr.close(max(time.Until(end), 0))
	}
	if err == nil {
		err = s.scrubber.wait(max(time.Until(end), 0))
	}
	if err == nil {
		err = s.ahead.close(max(time.Until(end), 0))
	}
	if err == nil {
		if err = s.disk.Load().close(); errors.Is(err, os.ErrClosed) {
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("disk cache %s: %w", s.dir, err)
	}
	return nil
}

// openAsOwner opens the folder as its only writer.
func (s *Store) openAsOwner() error {
	wr := newWriter(s)
	if err := wr.load(); err != nil {
		return err
	}
	s.writer.Store(wr)
	go wr.run()
	return nil
}
