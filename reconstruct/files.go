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
	// tracker. A dropped file stays: the kernel has pages that it returned. See add and hold.
	held map[codec.FileID]*heldFile // guarded by mu
}

// A heldFile is a file with open handles.
type heldFile struct {
	f       *File
	handles int
}

// A file costs its slots for groups of terms, and some for itself: one of very many terms
// takes the place of many files. The terms are bounded by groups. A file of a source without proofs
// also costs its tracker. The trackers of 80 GB in common chunks fit.
const (
	maxSlots  = 1 << 18
	slotBytes = 48
	fileSlots = maxSlots / 4096

	commonChunk = 64 << 10
)

// trackerBytes returns what the tracker of a file takes in memory once the file was read. The number of
// chunks of a large file is a guess.
func trackerBytes(f *File, terms []codec.Term) int64 {
	n, chunks := int64(len(terms)), int64(0)
	for _, t := range terms {
		chunks += int64(t.Chunks.Len())
	}
	if f.large != nil {
		n = int64(f.large.Index.Terms)
		chunks = max(n, f.size/commonChunk)
	}
	return 24*n + 8*chunks + min(f.size/pageSize, maxPages)/8
}

func (fs *files) init() {
	fs.byID = lru.New[codec.FileID, *File](maxSlots, nil)
	fs.held = map[codec.FileID]*heldFile{}
}

func (fs *files) get(id codec.FileID) (*File, bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.getLocked(id)
}

func (fs *files) getLocked(id codec.FileID) (*File, bool) {
	if h := fs.held[id]; h != nil && !h.f.dropped {
		return h.f, true
	}
	return fs.byID.Get(id)
}

// hold returns the file for a new handle of f, and makes opens return it while it has handles. It is
// another one than f if f is no longer in use. It ends the use of a dropped file with open handles.
// release ends the handle.
func (fs *files) hold(f *File) (now *File, release func()) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if stored, ok := fs.getLocked(f.id); ok {
		f = stored
	}
	h := fs.held[f.id]
	if h == nil || h.f != f {
		if h != nil {
			h.f.supersede()
		}
		h = &heldFile{f: f}
		fs.held[f.id] = h
	}
	h.handles++
	f.hadHandle.Store(true)
	return f, func() { fs.release(h) }
}

// replace makes next the file of the open handles of f, so that later opens share its tracker.
func (fs *files) replace(f, next *File) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if h := fs.held[f.id]; h != nil && h.f == f {
		h.f = next
		next.hadHandle.Store(true)
	}
}

func (fs *files) release(h *heldFile) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if h.handles--; h.handles == 0 && fs.held[h.f.id] == h {
		delete(fs.held, h.f.id)
	}
}

// add stores f, and returns the stored file: another reader may have been faster. It stores a dropped
// file with open handles again if f has the same plan.
func (fs *files) add(id codec.FileID, f *File) *File {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if h := fs.held[id]; h != nil && h.f.dropped && h.f.mayContinueAs(f) {
		f = h.f
		f.dropped = false
	}
	return fs.byID.Add(id, f, fileSlots+int64(len(f.slots))+f.trackerSlots)
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
