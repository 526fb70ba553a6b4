package reconstruct

import (
	"container/list"
	"sync"
	"time"

	"github.com/xetfs/xetfs/cache"
	"github.com/xetfs/xetfs/cache/disk"
	"github.com/xetfs/xetfs/codec"
)

const (
	maxPlains = 64               // files kept whole that are open here
	idlePlain = 10 * time.Second // after which one that is not read is closed, at the latest twice that
)

// plains are the files kept whole that were read last. What is open cannot be evicted, so
// they do not stay open for long.
type plains struct {
	c *cache.Cache

	mu     sync.Mutex
	byHash map[codec.Hash]*openPlain // guarded by mu
	recent list.List                 // of *openPlain, used last comes last; guarded by mu
	timer  *time.Timer               // nil: nothing is open; guarded by mu
	closed bool                      // guarded by mu
}

// An openPlain is a file that is kept whole.
type openPlain struct {
	*disk.File
	hash    codec.Hash
	place   *list.Element // in plains.recent; nil: it is there no more; guarded by plains.mu
	readers int           // guarded by plains.mu
	idle    bool          // it was not used since the timer; guarded by plains.mu
}

func (s *plains) init(c *cache.Cache) {
	s.c, s.byHash = c, map[codec.Hash]*openPlain{}
}

// readAt fills p from a file that is kept whole, and says whether it could.
func (s *plains) readAt(h codec.Hash, p []byte, off int64) bool {
	if !s.c.Keeps() || len(p) == 0 {
		return false
	}
	f := s.take(h)
	if f == nil {
		return false
	}
	n, _ := f.ReadAt(p, off) // it forgets a file that cannot be read
	s.put(f)
	if n < len(p) {
		s.drop(f)
	}
	return n == len(p)
}

// take returns a file, which must be put back after the read, or nil if it is not kept.
func (s *plains) take(h codec.Hash) *openPlain {
	s.mu.Lock()
	known, closed := s.findLocked(h), s.closed
	s.mu.Unlock()
	if known != nil || closed || !s.c.HasWhole(h) {
		return known
	}
	f, ok := s.c.Whole(h)
	if !ok {
		return nil
	}
	known, surplus := s.add(h, f)
	closePlains(surplus)
	return known
}

func (s *plains) findLocked(h codec.Hash) *openPlain {
	known := s.byHash[h]
	if known != nil {
		known.readers++
		known.idle = false
		s.recent.MoveToBack(known.place)
	}
	return known
}

// add adds a file, unless another reader was faster, and returns what is to be closed.
func (s *plains) add(h codec.Hash, f *disk.File) (used *openPlain, surplus []*disk.File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.findLocked(h); known != nil {
		return known, []*disk.File{f}
	}
	used = &openPlain{File: f, hash: h, readers: 1}
	if s.closed {
		return used, nil
	}
	used.place = s.recent.PushBack(used)
	s.byHash[h] = used
	if s.recent.Len() > maxPlains {
		surplus = s.dropLocked(s.recent.Front().Value.(*openPlain), nil)
	}
	if s.timer == nil {
		s.timer = time.AfterFunc(idlePlain, s.closeIdle)
	}
	return used, surplus
}

// put gives a file back.
func (s *plains) put(f *openPlain) {
	s.mu.Lock()
	f.readers--
	last := f.readers == 0 && f.place == nil
	s.mu.Unlock()
	if last {
		_ = f.Close() // it was only read
	}
}

// drop takes a file out.
func (s *plains) drop(f *openPlain) {
	s.mu.Lock()
	surplus := s.dropLocked(f, nil)
	s.mu.Unlock()
	closePlains(surplus)
}

// dropLocked takes a file out, and appends it to what is to be closed, unless somebody
// reads it: then the last reader closes it.
func (s *plains) dropLocked(f *openPlain, surplus []*disk.File) []*disk.File {
	if f.place == nil {
		return surplus
	}
	s.recent.Remove(f.place)
	delete(s.byHash, f.hash)
	f.place = nil
	if f.readers > 0 {
		return surplus
	}
	return append(surplus, f.File)
}

// closeIdle closes the files that were not used since it ran last.
func (s *plains) closeIdle() {
	s.mu.Lock()
	var surplus []*disk.File
	for _, f := range s.byHash {
		if f.idle && f.readers == 0 {
			surplus = s.dropLocked(f, surplus)
		}
		f.idle = true
	}
	s.timer = nil
	if len(s.byHash) > 0 && !s.closed {
		s.timer = time.AfterFunc(idlePlain, s.closeIdle)
	}
	s.mu.Unlock()
	closePlains(surplus)
}

// close closes all files, and those that are being read after that.
func (s *plains) close() {
	s.mu.Lock()
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	var surplus []*disk.File
	for _, f := range s.byHash {
		surplus = s.dropLocked(f, surplus)
	}
	s.mu.Unlock()
	closePlains(surplus)
}

func closePlains(list []*disk.File) {
	for _, f := range list {
		_ = f.Close() // it was only read
	}
}
