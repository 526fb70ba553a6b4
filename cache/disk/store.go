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

// A Store caches runs of packed chunks, index pages and whole files in one folder. Every method
// may forget entries, none returns wrong bytes. A Store is safe for concurrent use.
type Store struct {
	dir string
	o   Options

	disk   atomic.Pointer[folder] // replaced when a suspended store resumes, or at a takeover
	reads  limiter
	ahead  background             // calls of WillRead
	writer atomic.Pointer[writer] // nil: another process owns the folder
	health health
	stats  counters

	pages         sync.Map // pages that wait for the disk: index.Key → *putOp
	materializing sync.Map // whole files that are being written: codec.Hash → struct{}
	corrupt       sync.Map // whole files found corrupt since Open: codec.Hash → struct{}
	closed        atomic.Bool
	standby       *standby // nil: no takeover is wanted
	scrubber      scrubber
}

// Shared reports whether another process owns the folder and this one only reads it.
func (s *Store) Shared() bool { return s.writer.Load() == nil }

// use makes d the folder of the store. A suspended store did not record which files are corrupt, so
// the journal in d may list them. A good copy may have replaced a file since, so a comparison decides.
func (s *Store) use(d *folder) {
	s.disk.Store(d)
	s.corrupt.Range(func(h, _ any) bool {
		if w := d.index.File(h.(codec.Hash)); w != nil {
			s.scrubber.markSuspect(d, w)
		}
		return true
	})
}

// down returns the reason why the disk is not used now.
func (s *Store) down() error {
	if s.closed.Load() {
		return ErrClosed
	}
	if s.health.suspended.Load() {
		return ErrSuspended
	}
	return nil
}

// WriteErr returns the reason why a put would store nothing now; nil if it would.
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

// dropped reports a corrupt entry that is forgotten.
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

// failed records an error of the disk. A single failure costs one entry; three in a minute
// suspend the store.
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

// gone reports whether an error means that the owner of a shared folder has evicted or replaced
// a file. Nothing is corrupt then.
func (s *Store) gone(err error) bool {
	return s.Shared() && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, errFileChanged))
}
