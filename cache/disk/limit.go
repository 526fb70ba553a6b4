package disk

import (
	"errors"
	"fmt"
	"github.com/xetfs/xetfs/cache/disk/internal/vfs"
	"os"
	"slices"
	"sync"
	"time"
)

var (
	errTimeout = errors.New("the disk did not answer in time")
	errBacklog = fmt.Errorf("%w: too many wait for it", errTimeout) // nothing was begun
)

// maxStuck is how many readers may hang in the kernel at one time. Who comes when as
// many do waits for one of them, and no longer than the limit.
const maxStuck = 64

// A limiter lets nobody wait for the disk longer than its limit.
type limiter struct {
	limit time.Duration
	slots chan struct{}
}

func (l *limiter) init(limit time.Duration) {
	l.limit, l.slots = limit, make(chan struct{}, maxStuck)
}

// do returns what f does, or errTimeout when it has not returned in time. Then f goes on,
// and what it uses must be left to it; errBacklog, which is an errTimeout, says that f was not
// even called.
func (l *limiter) do(f func() error) error {
	timer := time.NewTimer(l.limit)
	defer timer.Stop()
	select {
	case l.slots <- struct{}{}:
	case <-timer.C:
		return errBacklog
	}
	done := make(chan error, 1)
	go func() {
		done <- f()
		<-l.slots
	}()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return errTimeout
	}
}

// maxOpen is how many segments are kept open for reading.
const maxOpen = 256

// openFiles keeps segments open and closes those that were not read for long.
type openFiles struct {
	mu       sync.Mutex
	segments []*segment // guarded by mu
	hand     int        // guarded by mu
	closed   bool       // guarded by mu
}

// An segmentFile is the file of a segment while it is open.
type segmentFile struct{ vfs.File }

// get returns the file of a segment. It may be closed at any moment, which a reader
// sees as os.ErrClosed.
func (o *openFiles) get(d vfs.Dir, s *segment) (vfs.File, error) {
	if !s.recent.Load() {
		s.recent.Store(true)
	}
	if f := s.open.Load(); f != nil {
		return f, nil
	}
	f, err := d.Open(s.name(), false)
	if err != nil {
		return nil, err
	}
	return o.put(s, &segmentFile{File: f})
}

// put makes f the file of s, if it has none yet.
func (o *openFiles) put(s *segment, f *segmentFile) (vfs.File, error) {
	o.mu.Lock()
	first := s.open.Load()
	refused := o.closed || s.gone.Load()
	var old *segmentFile
	if first == nil && !refused {
		old = o.makeRoom()
		s.open.Store(f)
		o.segments = append(o.segments, s)
	}
	o.mu.Unlock()
	if old != nil {
		_ = old.Close() // it was only read
	}
	switch {
	case refused:
		return nil, errors.Join(os.ErrClosed, f.Close())
	case first != nil:
		return first, f.Close()
	}
	return f, nil
}

// makeRoom takes the file that is to be closed because another one is opened. The
// caller holds mu.
func (o *openFiles) makeRoom() *segmentFile {
	if len(o.segments) < maxOpen {
		return nil
	}
	for range 2 * len(o.segments) {
		o.hand = (o.hand + 1) % len(o.segments)
		s := o.segments[o.hand]
		if s.recent.Swap(false) || s.pinned.Load() {
			continue
		}
		o.segments[o.hand] = o.segments[len(o.segments)-1]
		o.segments = o.segments[:len(o.segments)-1]
		return s.open.Swap(nil)
	}
	return nil
}

// drop closes the file of a segment that is no more.
func (o *openFiles) drop(s *segment) {
	o.mu.Lock()
	s.gone.Store(true)
	f := s.open.Swap(nil)
	if i := slices.Index(o.segments, s); i >= 0 {
		o.segments = slices.Delete(o.segments, i, i+1)
	}
	o.mu.Unlock()
	if f != nil {
		_ = f.Close() // nobody wants its bytes any more
	}
}

// closeAll closes all files. Nothing is opened afterwards.
func (o *openFiles) closeAll() {
	o.mu.Lock()
	o.closed = true
	segments := o.segments
	o.segments = nil
	o.mu.Unlock()
	for _, s := range segments {
		if f := s.open.Swap(nil); f != nil {
			_ = f.Close() // what had to last was synced
		}
	}
}
