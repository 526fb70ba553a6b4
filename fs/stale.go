package fs

import (
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// The kernel keeps a listing and fills it from whichever open directory reads on at its
// end. A directory that was opened before its volume showed a new version goes on with
// the old one. So that the kernel never keeps that for the new one, it keeps nothing of
// a directory while one of an older version is open, and drops what it has when the last
// one has been closed.
type staleListings struct {
	mu   sync.Mutex
	open map[uint64]int  // old directories that are open, by inode; guarded by mu
	drop map[uint64]bool // inodes of which the kernel's listing is to be dropped; guarded by mu
}

// openFlags returns how the kernel may use its listing of a directory that was opened, and
// is in the table of those, for it.
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

// mark notes that a directory which is open is of an old version.
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

// dirClosed notes that a directory was closed.
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
