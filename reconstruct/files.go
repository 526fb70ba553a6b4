package reconstruct

import (
	"sync"

	"github.com/xetfs/xetfs/cache/lru"
	"github.com/xetfs/xetfs/codec"
)

// files has the files that were opened last, so that a file that is opened often is checked
// once.
type files struct {
	mu   sync.Mutex
	byID *lru.Cache[codec.FileID, *File] // guarded by mu
}

// A file costs its slots for groups of terms, and some for itself: one of very many terms
// takes the place of many files. The terms are bounded by groups.
const (
	maxSlots  = 1 << 16 // of 48 bytes
	fileSlots = maxSlots / 4096
)

func (fs *files) init() { fs.byID = lru.New[codec.FileID, *File](maxSlots, nil) }

func (fs *files) get(id codec.FileID) (*File, bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.byID.Get(id)
}

// add stores f, and returns the stored file: another reader may have been faster.
func (fs *files) add(id codec.FileID, f *File) *File {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.byID.Add(id, f, int64(fileSlots+len(f.slots)))
}

// drop removes a file that could not be read, so that the next open sees whether it was
// repaired.
func (fs *files) drop(f *File) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if stored, ok := fs.byID.Get(f.id); ok && stored == f {
		fs.byID.Remove(f.id)
	}
}
