package reconstruct

import (
	"time"

	"github.com/xetfs/xetfs/cache"
	"github.com/xetfs/xetfs/cache/disk"
	"github.com/xetfs/xetfs/cache/recent"
	"github.com/xetfs/xetfs/codec"
)

const (
	maxBacking  = 64               // open whole files
	idleBacking = 10 * time.Second // an unused file is closed after it, at the latest after twice that time
)

// backingFiles are the whole files that were read last. An open file cannot be evicted, so
// files do not stay open for long.
type backingFiles struct {
	c    *cache.Cache
	open *recent.Set[codec.Hash, *disk.File]
}

// An openBacking is an open whole file.
type openBacking = recent.Item[codec.Hash, *disk.File]

func (s *backingFiles) init(c *cache.Cache) {
	s.c = c
	s.open = recent.New[codec.Hash](maxBacking, idleBacking, func(f *disk.File) {
		_ = f.Close() // it was only read
	})
}

// readAt fills p from a whole file, and reports whether it could.
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

// take returns a whole file, which must be put back after the read, or nil.
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
