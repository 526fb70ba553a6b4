package reconstruct

import (
	"sync"

	"github.com/xetfs/xetfs/cache/lru"
	"github.com/xetfs/xetfs/codec"
)

// maxSmall is how many bytes of proven small files stay in memory.
const maxSmall = 4 * smallFile

// smallFiles has the content of small files that were proven last, which were read whole for that.
type smallFiles struct {
	byID *lru.Clock[codec.FileID, []byte] // immutable contents
}

func (s *smallFiles) init() { s.byID = lru.NewClock[codec.FileID, []byte](maxSmall) }

func (s *smallFiles) add(id codec.FileID, content []byte) {
	s.byID.Add(id, content, int64(len(content))+256)
}

// get returns the content of a file.
func (s *smallFiles) get(id codec.FileID) (content []byte, ok bool) { return s.byID.Get(id) }

// read fills p with the bytes of a file from off on, and reports whether it could.
func (s *smallFiles) read(id codec.FileID, p []byte, off int64) bool {
	content, ok := s.get(id)
	if !ok || off+int64(len(p)) > int64(len(content)) {
		return false
	}
	copy(p, content[off:])
	return true
}

// isSmallInMemory reports whether reads of the file need no chunk.
func (f *File) isSmallInMemory() bool {
	if f.tracker == nil || f.size > smallFile {
		return false
	}
	_, ok := f.r.small.get(f.id)
	return ok
}

func (s *smallFiles) drop(id codec.FileID) { s.byID.Remove(id) }

// maxSuspects is how many corrupt files are remembered.
const maxSuspects = 4096

// suspects are the files that were found corrupt last, and not read correctly since.
type suspects struct {
	mu   sync.Mutex
	byID *lru.Cache[codec.FileID, struct{}] // guarded by mu
}

func (s *suspects) init() { s.byID = lru.New[codec.FileID, struct{}](maxSuspects, nil) }

func (s *suspects) add(id codec.FileID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byID.Add(id, struct{}{}, 1)
}

func (s *suspects) has(id codec.FileID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.byID.Get(id)
	return ok
}

func (s *suspects) remove(id codec.FileID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byID.Remove(id)
}
