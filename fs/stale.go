package fs

import (
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// A staleListings prevents that the kernel caches an old listing. The kernel extends its listing
// from any open directory that reads on at its end. A directory that was opened before a switch
// still lists the old version. So the kernel caches no listing of a directory while an old one
// is open, and drops the listing after the last close.
type staleListings struct {
	mu   sync.Mutex
	open map[uint64]int  // number of open old directories by inode; guarded by mu
	drop map[uint64]bool // inodes whose listing the kernel must drop; guarded by mu
}

// openFlags returns the cache flags of an opened directory. The directory must be in the handle
// table.
func (s *staleListings) openFlags(h *dirHandle) uint32 {
	v := h.ver.vol
	if !v.cacheListings {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !h.ver.isCurrent() {
		s.markLocked(h)
	}
	switch {
	case h.stale || s.open[h.ino] > 0 || v.switching.Load():
		return 0
	case s.drop[h.ino]:
		delete(s.drop, h.ino)
		return fuse.FOPEN_CACHE_DIR
	}
	return fuse.FOPEN_CACHE_DIR | fuse.FOPEN_KEEP_CACHE
}

// mark marks an open directory as old.
func (s *staleListings) mark(h *dirHandle) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.markLocked(h)
}

func (s *staleListings) markLocked(h *dirHandle) {
	if h.stale {
		return
	}
	if s.open == nil {
		s.open, s.drop = make(map[uint64]int), make(map[uint64]bool)
	}
	h.stale = true
	s.open[h.ino]++
}

// dirClosed counts out a closed directory.
func (s *staleListings) dirClosed(h *dirHandle) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !h.stale {
		return
	}
	if s.open[h.ino]--; s.open[h.ino] == 0 {
		delete(s.open, h.ino)
		s.drop[h.ino] = true
	}
}

// forget removes an inode that the kernel has forgotten, with its listing.
func (s *staleListings) forget(ino uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.drop, ino)
}
