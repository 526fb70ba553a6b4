package fs

import (
	"sync"
	"time"
)

// A walker is a thread that lists directories. Some ask for the attributes of what they
// find, like du, tar and ls -l; others do not, like find -name. To tell the kernel of
// attributes nobody asks for costs it and us more than twice the listing; not to tell it
// of those that somebody asks for costs a message for each. The kernel's own guess
// (READDIRPLUS_AUTO) is good where each name is asked about as soon as it is listed,
// and not where a whole directory is listed first, which most tools do.
//
// So a walker gets attributes, but for one file here and there. Who never looks such a
// file up gets none after a while, until it looks up one. That is what is counted: the
// files that a walker was told of since it last looked up one that was left out.
// Directories are always told of, as most walkers go into them.
type walker struct {
	ignored int
	stats   bool      // it has looked one up at some time
	last    time.Time // when it listed
}

const (
	patientNew   = 1 << 15 // files that a walker is told of that looks nothing up
	patientKnown = 1 << 20 // the same for one that did; some list 100,000 names first
	leaveOut     = 128     // one file in so many is left out
	maxWalkers   = 1024
	walkerAge    = 10 * time.Second // after which a thread may be another
)

// leftOut says whether a file is one of those that show who looks files up.
func leftOut(id identity) bool { return id.gen%leaveOut == 0 }

// walkers are the walkers by thread.
type walkers struct {
	mu   sync.Mutex
	list map[uint32]*walker // guarded by mu
}

// lists notes that a thread lists, and says whether it is to be told of attributes. A
// thread that has no number cannot be followed.
func (w *walkers) lists(thread uint32) bool {
	if thread == 0 {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	known := w.list[thread]
	if known == nil || now.Sub(known.last) > walkerAge {
		known = w.addLocked(thread, now)
	}
	known.last = now
	if known.stats {
		return known.ignored < patientKnown
	}
	return known.ignored < patientNew
}

// told notes that a thread was told of some files.
func (w *walkers) told(thread uint32, files int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if known := w.list[thread]; known != nil {
		known.ignored += files
	}
}

func (w *walkers) addLocked(thread uint32, now time.Time) *walker {
	if w.list == nil {
		w.list = make(map[uint32]*walker)
	}
	if len(w.list) >= maxWalkers {
		for other, known := range w.list {
			if len(w.list) >= maxWalkers || now.Sub(known.last) > walkerAge {
				delete(w.list, other)
			}
		}
	}
	known := &walker{}
	w.list[thread] = known
	return known
}

// looksUp notes that a thread has looked up a file.
func (w *walkers) looksUp(thread uint32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if known := w.list[thread]; known != nil {
		known.ignored, known.stats = 0, true
	}
}
