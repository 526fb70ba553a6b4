package reconstruct

import (
	"time"

	"github.com/xetfs/xetfs/cache"
	"github.com/xetfs/xetfs/cache/disk"
	"github.com/xetfs/xetfs/cache/recent"
	"github.com/xetfs/xetfs/codec"
)

const (
	maxBacking  = 64               // files kept whole that are open here
	idleBacking = 10 * time.Second // after which one that is not read is closed, at the latest twice that
)

// backingFiles are the files kept whole that were read last. What is open cannot be evicted, so
// they do not stay open for long.
type backingFiles struct {
	c    *cache.Cache
	open *recent.Set[codec.Hash, *disk.File]
}

// An openBacking is a file that is kept whole.
type openBacking = recent.Item[codec.Hash, *disk.File]

func (s *backingFiles) init(c *cache.Cache) {
	s.c = c
	s.open = recent.New[codec.Hash](maxBacking, idleBacking, func(f *disk.File) {
		_ = f.Close() // it was only read
	})
}

// readAt fills p from a file that is kept whole, and reports whether it could.
func (s *backingFiles) readAt(h codec.Hash, p []byte, off int64) bool {
	if !s.c.HasDisk() || len(p) == 0 {
		return false
	}
	f := s.take(h)
	if f == nil {
		return false
	}
	defer s.open.Put(f)
	n, _ := f.Value.ReadAt(p, off) // it forgets a file that cannot be read
	if n < len(p) {
		s.open.Forget(h)
	}
	return n == len(p)
}

// take returns a file, which must be put back after the read, or nil if it is not kept.
func (s *backingFiles) take(h codec.Hash) *openBacking {
	if known := s.open.Find(h); known != nil {
		return known
	}
	if !s.c.HasFile(h) || s.open.Closed() {
		return nil
	}
	f, ok := s.c.OpenFile(h)
	if !ok {
		return nil
	}
	return s.open.Add(h, f)
}
