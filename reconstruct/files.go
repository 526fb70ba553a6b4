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

	// held has the files of a source without proofs with open handles. All handles of a file share its
	// tracker. A dropped file stays: the kernel has pages that it returned, and add decides about it.
	held map[codec.FileID]*heldFile // guarded by mu
}

// A heldFile is a file with open handles.
type heldFile struct {
	f       *File
	handles int
}

// A file costs its slots for groups of terms, and some for itself: one of very many terms
// takes the place of many files. The terms are bounded by groups.
const (
	maxSlots  = 1 << 16 // of 48 bytes
	fileSlots = maxSlots / 4096
)

func (fs *files) init() {
	fs.byID = lru.New[codec.FileID, *File](maxSlots, nil)
	fs.held = map[codec.FileID]*heldFile{}
}

func (fs *files) get(id codec.FileID) (*File, bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if h := fs.held[id]; h != nil && !h.f.dropped {
		return h.f, true
	}
	return fs.byID.Get(id)
}

// hold makes opens return f while it has handles, and counts one. release ends the handle.
func (fs *files) hold(f *File) (release func()) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	h := fs.held[f.id]
	switch {
	case h != nil && h.f != f && !h.f.dropped:
		f.supersede() // it was dropped since its open, and another one is in use
		return func() {}
	case h == nil || h.f != f:
		h = &heldFile{f: f}
		fs.held[f.id] = h
	}
	h.handles++
	return func() { fs.release(h) }
}

func (fs *files) release(h *heldFile) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if h.handles--; h.handles == 0 && fs.held[h.f.id] == h {
		delete(fs.held, h.f.id)
	}
}

// add stores f, and returns the stored file: another reader may have been faster. It stores a dropped
// file with open handles again if f has the same plan, or ends its use.
func (fs *files) add(id codec.FileID, f *File) *File {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if h := fs.held[id]; h != nil && h.f.dropped {
		if old := h.f; old.mayContinueAs(f) {
			old.dropped, f = false, old
		} else {
			old.supersede()
		}
	}
	return fs.byID.Add(id, f, int64(fileSlots+len(f.slots)))
}

// drop removes a file that could not be read, so that the next open sees whether it was
// repaired.
func (fs *files) drop(f *File) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f.dropped = true
	if stored, ok := fs.byID.Get(f.id); ok && stored == f {
		fs.byID.Remove(f.id)
	}
}
