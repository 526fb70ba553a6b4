package reconstruct

import (
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
