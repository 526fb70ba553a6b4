package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"

	"github.com/xetfs/xetfs/cache/disk/internal/index"
	"github.com/xetfs/xetfs/codec"
)

// A Store keeps runs of packed chunks, index pages and whole files under one folder. It
// is a cache: every method may forget, none may return wrong bytes. It is safe for
// concurrent use.
type Store struct {
	dir string
	o   Options

	disk   atomic.Pointer[folder] // replaced when a suspended store resumes, or a shared one is owned
	reads  limiter
	writer atomic.Pointer[writer] // nil: another process writes
	health health
	stats  counters

	materializing sync.Map // whole files on their way: codec.Hash → struct{}
	corrupt       sync.Map // those found to be damaged since Open: codec.Hash → struct{}
	closed        atomic.Bool
	standby       *standby // nil: nobody waits for the owner to go
	scrubber      scrubber
}

// Shared says that another process writes to the folder and this one only reads.
func (s *Store) Shared() bool { return s.writer.Load() == nil }

// down says that nothing can be asked of the disk now.
func (s *Store) down() error {
	if s.closed.Load() {
		return ErrClosed
	}
	if s.health.suspended.Load() {
		return ErrSuspended
	}
	return nil
}

// WriteErr returns why nothing would be kept that is put now, as PutRun does; nil if
// something would.
func (s *Store) WriteErr() error {
	if s.Shared() {
		return ErrReadOnly
	}
	if err := s.down(); err != nil {
		return err
	}
	if s.health.full() {
		return ErrFull
	}
	return nil
}

// dropped reports that something was damaged and is forgotten.
func (s *Store) dropped(what string, err error) {
	s.stats.dropped.Add(1)
	s.o.Event(Event{Name: EventDropped, What: what, Err: err})
}

func describe(k index.Key, r codec.ChunkRange) string {
	if k.Kind == index.PageKind {
		return fmt.Sprintf("page %x", k.Hash[:])
	}
	return fmt.Sprintf("xorb %s chunks %s", k.Hash, r)
}

// failed takes notice of what the disk answered. A failure among many good calls is one
// entry lost; three in a minute, and the disk is left alone.
func (s *Store) failed(what string, err error) {
	switch {
	case err == nil || errors.Is(err, os.ErrClosed) || isResourceExhausted(err):
	case isFull(err):
		if s.health.fill(s.o.testing.pause) {
			s.o.Event(Event{Name: EventFull, What: what, Err: err})
		}
	case s.health.count() && !s.health.suspended.Swap(true):
		s.o.Event(Event{Name: EventSuspended, What: what, Err: err})
		if wr := s.writer.Load(); wr != nil {
			wr.wake.signal()
			wr.spaceFreed.signal()
		}
	}
}

// gone says that an error means that the owner of a shared folder has evicted something,
// or laid it down anew since: nothing is damaged.
func (s *Store) gone(err error) bool {
	return s.Shared() && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, errFileChanged))
}
