package fs

import (
	"container/list"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

const (
	maxStreams = 256              // files of a stateless mount that are kept open
	idleStream = 10 * time.Second // after which one that is not read is closed, at the latest twice that
)

// streams are the open files of a stateless mount, where the kernel does not say what is
// opened and closed. A file is open from its first read on: until it has not been read
// for a while, or others have been, or the kernel forgets its inode.
type streams struct {
	mu     sync.Mutex
	byIno  map[uint64]*sharedFile // guarded by mu
	recent list.List              // of *sharedFile, used last comes last; guarded by mu
	timer  *time.Timer            // nil: nothing is open; guarded by mu
	closed bool                   // guarded by mu

	closing sync.WaitGroup // files that forget closes
}

// A sharedFile is an open file that all its readers share.
type sharedFile struct {
	*fileHandle
	place   *list.Element // in streams.recent; nil: it is there no more; guarded by streams.mu
	readers int           // reads under way; guarded by streams.mu
	idle    bool          // it was not used since the timer; guarded by streams.mu
}

func newStreams() *streams { return &streams{byIno: make(map[uint64]*sharedFile)} }

// take returns the file of an inode, which must be put back after the read.
func (s *streams) take(f *filesystem, req *request, ino uint64) (*sharedFile, fuse.Status) {
	s.mu.Lock()
	known := s.findLocked(ino)
	s.mu.Unlock()
	if known != nil {
		return known, fuse.OK
	}
	h, status := f.open(req, ino)
	if !status.Ok() {
		return nil, status
	}
	known, surplus := s.add(h)
	closeAll(surplus)
	return known, fuse.OK
}

func (s *streams) findLocked(ino uint64) *sharedFile {
	known := s.byIno[ino]
	if known != nil {
		known.readers++
		known.idle = false
		s.recent.MoveToBack(known.place)
	}
	return known
}

// add adds a file, unless another reader was faster, and returns what is to be closed.
func (s *streams) add(h *fileHandle) (used *sharedFile, surplus []stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.findLocked(h.ino); known != nil {
		return known, []stream{h.stream}
	}
	used = &sharedFile{fileHandle: h, readers: 1}
	if s.closed {
		return used, nil
	}
	used.place = s.recent.PushBack(used)
	s.byIno[h.ino] = used
	if s.recent.Len() > maxStreams {
		surplus = s.dropLocked(s.recent.Front().Value.(*sharedFile), nil)
	}
	if s.timer == nil {
		s.timer = time.AfterFunc(idleStream, s.closeIdle)
	}
	return used, surplus
}

// put gives a file back.
func (s *streams) put(h *sharedFile) {
	s.mu.Lock()
	h.readers--
	last := h.readers == 0 && h.place == nil
	s.mu.Unlock()
	if last {
		h.stream.Close()
	}
}

// dropLocked takes a file out, and appends it to what is to be closed, unless somebody
// reads it: then the last reader closes it.
func (s *streams) dropLocked(h *sharedFile, surplus []stream) []stream {
	s.recent.Remove(h.place)
	delete(s.byIno, h.ino)
	h.place = nil
	if h.readers > 0 {
		return surplus
	}
	return append(surplus, h.stream)
}

// closeIdle closes the files that were not used since it ran last.
func (s *streams) closeIdle() {
	s.mu.Lock()
	var surplus []stream
	for _, h := range s.byIno {
		if h.idle && h.readers == 0 {
			surplus = s.dropLocked(h, surplus)
		}
		h.idle = true
	}
	s.timer = nil
	if len(s.byIno) > 0 && !s.closed {
		s.timer = time.AfterFunc(idleStream, s.closeIdle)
	}
	s.mu.Unlock()
	closeAll(surplus)
}

// forget closes a file that the kernel does not know any more. It does not wait for that:
// go-fuse may answer nothing else meanwhile. A nil s has no files.
func (s *streams) forget(ino uint64) {
	if s == nil {
		return
	}
	s.mu.Lock()
	var surplus []stream
	if h := s.byIno[ino]; h != nil {
		surplus = s.dropLocked(h, nil)
	}
	s.mu.Unlock()
	if len(surplus) > 0 {
		s.closing.Go(func() { closeAll(surplus) })
	}
}

// close closes all files, and those that come later after their first read.
func (s *streams) close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	var surplus []stream
	for _, h := range s.byIno {
		surplus = s.dropLocked(h, surplus)
	}
	s.mu.Unlock()
	closeAll(surplus)
	s.closing.Wait()
}

// closeAll only stops fetching ahead: there is nothing to fail.
func closeAll(list []stream) {
	for _, s := range list {
		s.Close()
	}
}
