package reconstruct

import (
	"container/list"
	"sync"

	"github.com/xetfs/xetfs/codec"
)

// files keeps the files that were opened last, so that a file that is opened again and
// again is checked once.
type files struct {
	mu    sync.Mutex
	byID  map[codec.FileID]*list.Element // guarded by mu
	byAge list.List                      // of *File, newest first; guarded by mu
	slots int                            // for groups of terms, of large files; guarded by mu
}

// A file of very many terms takes the place of many files.
const (
	maxFiles = 4096
	maxSlots = 1 << 16 // of 48 bytes; their terms are bounded by groups
)

func (fs *files) init() { fs.byID = map[codec.FileID]*list.Element{} }

func (fs *files) get(id codec.FileID) (*File, bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	e, ok := fs.byID[id]
	if !ok {
		return nil, false
	}
	fs.byAge.MoveToFront(e)
	return e.Value.(*File), true
}

// add keeps f, and returns what is kept: somebody may have been faster.
func (fs *files) add(id codec.FileID, f *File) *File {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if e, ok := fs.byID[id]; ok {
		return e.Value.(*File)
	}
	fs.byID[id] = fs.byAge.PushFront(f)
	fs.slots += len(f.slots)
	for fs.byAge.Len() > 1 && (fs.byAge.Len() > maxFiles || fs.slots > maxSlots) {
		fs.dropLocked(fs.byAge.Back())
	}
	return f
}

// drop forgets a file that could not be read, so that the next open sees whether it
// was repaired.
func (fs *files) drop(f *File) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if e, ok := fs.byID[f.id]; ok && e.Value == f {
		fs.dropLocked(e)
	}
}

func (fs *files) dropLocked(e *list.Element) {
	f := fs.byAge.Remove(e).(*File)
	delete(fs.byID, f.id)
	fs.slots -= len(f.slots)
}
