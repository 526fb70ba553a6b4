package index

import (
	"iter"
	"sync"
	"sync/atomic"

	"github.com/xetfs/xetfs/codec"
)

// A WholeFile is a file that is stored in one piece. The first four fields never change.
type WholeFile struct {
	Hash  codec.Hash
	Size  int64
	MTime int64 // in ns; every write to the file changes it
	CRC   uint32

	CTime   atomic.Int64 // of the file when its bytes were last known to match; 0: unknown
	Suspect atomic.Bool  // CTime differs from the disk: a comparison must precede the next use
	Due     atomic.Int64 // time of the next comparison, in the clock of the scrubber
	Corrupt atomic.Bool  // a comparison has failed

	order     uint64 // place in its queue; 0: in no queue; Policy alone uses it
	Unlinked  bool   // the file is deleted; the writer alone uses it
	Uncounted bool   // and its bytes are free; the writer alone uses it

	Uses atomic.Int32
	Open atomic.Int32 // handles; grows under Index.mu only
	Gone atomic.Bool  // forgotten while open: its bytes count until the last handle is closed
}

// Name returns the path of the file in the cache folder.
func (w *WholeFile) Name() string { return FileName(w.Hash) }

// FileName returns the path of a whole file in the cache folder.
func FileName(h codec.Hash) string { return "whole/" + h.String() }

// A fileTable has whole files by hash. Lookups need no lock, and one goroutine changes it at a time.
type fileTable struct {
	byHash sync.Map // codec.Hash → *WholeFile
	n      int      // number of files
}

func (t *fileTable) get(h codec.Hash) *WholeFile {
	w, _ := t.byHash.Load(h)
	found, _ := w.(*WholeFile)
	return found
}

func (t *fileTable) put(w *WholeFile) {
	if _, replaced := t.byHash.Swap(w.Hash, w); !replaced {
		t.n++
	}
}

func (t *fileTable) remove(h codec.Hash) {
	if _, removed := t.byHash.LoadAndDelete(h); removed {
		t.n--
	}
}

func (t *fileTable) all() iter.Seq[*WholeFile] {
	return func(yield func(*WholeFile) bool) {
		t.byHash.Range(func(_, w any) bool { return yield(w.(*WholeFile)) })
	}
}

// AddFile records a whole file.
func (x *Index) AddFile(w *WholeFile) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.files.put(w)
}

// File returns a whole file, nil if it is absent. It takes no lock: each read looks for one.
func (x *Index) File(h codec.Hash) *WholeFile { return x.files.get(h) }

// AcquireFile returns a whole file and counts one more handle of it. It returns nil for an
// absent file.
func (x *Index) AcquireFile(h codec.Hash) *WholeFile {
	x.mu.RLock()
	defer x.mu.RUnlock()
	w := x.files.get(h)
	if w != nil {
		w.Open.Add(1)
	}
	return w
}

// ForgetFile removes a whole file from the index and returns it, nil if it is absent.
func (x *Index) ForgetFile(h codec.Hash) *WholeFile {
	x.mu.Lock()
	defer x.mu.Unlock()
	w := x.files.get(h)
	if w != nil {
		w.Gone.Store(true)
		x.files.remove(h)
	}
	return w
}

// Files returns all whole files in no order.
func (x *Index) Files() (all []*WholeFile) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for w := range x.files.all() {
		all = append(all, w)
	}
	return all
}

// evictFile removes a file from the index if it is closed and unused. It locks mu.
func (x *Index) evictFile(w *WholeFile) (evicted, open bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	open = w.Open.Load() > 0
	if open || w.Uses.Load() > 0 || x.files.get(w.Hash) != w {
		return false, open
	}
	x.files.remove(w.Hash)
	w.Gone.Store(true)
	return true, false
}
