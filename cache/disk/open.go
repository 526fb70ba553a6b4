package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// Open uses dir, which it makes if it is not there, and reads its index. What the index
// names and the folder does not hold is forgotten; what it does not name is deleted in
// the background.
//
// The error is ErrBusy, ErrNewer or ErrRefused as they say, or why the folder cannot be
// read or written. Whoever gets one goes on without a disk cache.
func Open(dir string, o Options) (*Store, error) {
	if o.MaxBytes != 0 && o.MaxBytes < minBytes && o.testing.segment == 0 {
		return nil, fmt.Errorf("disk cache %s: %d bytes are too few, %d is the least", dir, o.MaxBytes, minBytes)
	}
	o.setDefaults()
	s := &Store{dir: dir, o: o}
	s.reads.init(o.ReadLimit)
	s.scrubber.init(s)
	err := s.openAsOwner()
	if err != nil && o.Share && mayShare(err) {
		if shared := s.share(); !errors.Is(shared, fs.ErrNotExist) {
			err = shared // else there is no cache yet, and err is why none can be made
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

// Sync makes everything last that was put before, and returns when it does.
func (s *Store) Sync() error {
	wr := s.writer.Load()
	if wr == nil {
		return nil
	}
	return wr.sync()
}

// Flush returns when everything that was put before can be found, here and by others who
// open the folder, and survives kill -9. It may wait for as long as the disk does; when ctx
// ends it returns its error.
func (s *Store) Flush(ctx context.Context) error {
	wr := s.writer.Load()
	if wr == nil {
		return nil
	}
	return wr.call(ctx, &callOp{run: func() error { return nil }})
}

// Close makes everything last and gives the folder free. It returns within 10 seconds,
// also if the disk does not answer. What is open of whole files stays open.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	end := now().Add(s.o.testing.ending)
	s.scrubber.stop()
	err := s.standby.close(s.o.testing.ending)
	if wr := s.writer.Load(); wr != nil && err == nil {
		err = wr.close(s.o.testing.ending)
	}
	if err == nil {
		err = s.scrubber.wait(max(time.Until(end), 0))
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

// openAsOwner opens the folder as the process that writes to it.
func (s *Store) openAsOwner() error {
	wr := newWriter(s)
	if err := wr.load(); err != nil {
		return err
	}
	s.writer.Store(wr)
	go wr.run()
	return nil
}
