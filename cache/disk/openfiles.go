package disk

import (
	"errors"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/disk/internal/index"
	"github.com/xetfs/xetfs/cache/disk/internal/vfs"
)

// maxOpen returns the number of segments that stay open for reading, in a process that may have
// some descriptors. Most of them are for other files and connections.
func maxOpen(descriptors uint64) int { return int(min(256, max(1, descriptors/8))) }

// descriptorLimit returns the number of descriptors that this process may have.
func descriptorLimit() uint64 {
	var limit unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) // it does not fail
	return limit.Cur
}

// openFiles keeps segments open, and closes those that were not read for the longest time.
type openFiles struct {
	limit    int // of segments
	mu       sync.Mutex
	segments []*index.Segment // guarded by mu
	hand     int              // guarded by mu
	closed   bool             // guarded by mu
}

// A segmentFile is the file of a segment while it is open.
type segmentFile struct{ vfs.File }

// openOf returns the file of a segment, nil if it is closed.
func openOf(s *index.Segment) *segmentFile {
	f, _ := s.Open.Load().(*segmentFile)
	return f
}

// swapOpen sets the file of a segment and returns the former one.
func swapOpen(s *index.Segment, f *segmentFile) *segmentFile {
	old, _ := s.Open.Swap(f).(*segmentFile)
	return old
}

// get returns the file of a segment. The file may be closed at any moment, which a reader
// sees as os.ErrClosed.
func (o *openFiles) get(d vfs.Dir, s *index.Segment) (vfs.File, error) {
	if !s.Recent.Load() {
		s.Recent.Store(true)
	}
	if f := openOf(s); f != nil {
		return f, nil
	}
	f, err := d.Open(s.Name(), false)
	if err != nil {
		return nil, err
	}
	return o.put(s, &segmentFile{File: f})
}

// put makes f the file of s, unless s has one.
func (o *openFiles) put(s *index.Segment, f *segmentFile) (vfs.File, error) {
	o.mu.Lock()
	first := openOf(s)
	refused := o.closed || s.Gone.Load()
	var old *segmentFile
	if first == nil && !refused {
		old = o.makeRoom()
		s.Open.Store(f)
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

// makeRoom returns the file that is closed in favor of another one, nil if there is
// room. The caller holds mu.
func (o *openFiles) makeRoom() *segmentFile {
	if len(o.segments) < o.limit {
		return nil
	}
	for range 2 * len(o.segments) {
		o.hand = (o.hand + 1) % len(o.segments)
		s := o.segments[o.hand]
		if s.Recent.Swap(false) || s.Pinned.Load() {
			continue
		}
		o.segments[o.hand] = o.segments[len(o.segments)-1]
		o.segments = o.segments[:len(o.segments)-1]
		return swapOpen(s, nil)
	}
	return nil
}

// drop closes the file of a deleted segment.
func (o *openFiles) drop(s *index.Segment) {
	o.mu.Lock()
	s.Gone.Store(true)
	f := swapOpen(s, nil)
	if i := slices.Index(o.segments, s); i >= 0 {
		o.segments = slices.Delete(o.segments, i, i+1)
	}
	o.mu.Unlock()
	if f != nil {
		_ = f.Close() // its bytes are of no use any more
	}
}

// closeAll closes all files. Later calls of put fail.
func (o *openFiles) closeAll() {
	o.mu.Lock()
	o.closed = true
	segments := o.segments
	o.segments = nil
	o.mu.Unlock()
	for _, s := range segments {
		if f := swapOpen(s, nil); f != nil {
			_ = f.Close() // durable data was synced
		}
	}
}
