package fs

import (
	"sync"
	"time"
)

// A statPredictor is a thread that lists directories. Some ask for the attributes of what they
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
type statPredictor struct {
	ignored int
	stats   bool      // it has looked one up at some time
	last    time.Time // when it listed
}

const (
	maxIgnoredNew   = 1 << 15 // files that a walker is told of that looks nothing up
	maxIgnoredKnown = 1 << 20 // the same for one that did; some list 100,000 names first
	probeEvery      = 128     // one file in so many is left out
	maxPredictors   = 1024
	predictorAge    = 10 * time.Second // after which a thread may be another
)

// isProbe says whether a file is one of those that show who looks files up.
func isProbe(id identity) bool { return id.gen%probeEvery == 0 }

// predictors are the walkers by thread.
type statPredictors struct {
	mu   sync.Mutex
	list map[uint32]*statPredictor // guarded by mu
}

// wantsAttrs notes that a thread lists, and says whether it is to be told of attributes. A
// thread that has no number cannot be followed.
func (w *statPredictors) wantsAttrs(thread uint32) bool {
	if thread == 0 {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	known := w.list[thread]
	if known == nil || now.Sub(known.last) > predictorAge {
		known = w.addLocked(thread, now)
	}
	known.last = now
	if known.stats {
		return known.ignored < maxIgnoredKnown
	}
	return known.ignored < maxIgnoredNew
}

// hasAttr notes that a thread was told of some files.
func (w *statPredictors) attrsSent(thread uint32, files int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if known := w.list[thread]; known != nil {
		known.ignored += files
	}
}

func (w *statPredictors) addLocked(thread uint32, now time.Time) *statPredictor {
	if w.list == nil {
		w.list = make(map[uint32]*statPredictor)
	}
	if len(w.list) >= maxPredictors {
		for other, known := range w.list {
			if len(w.list) >= maxPredictors || now.Sub(known.last) > predictorAge {
				delete(w.list, other)
			}
		}
	}
	known := &statPredictor{}
	w.list[thread] = known
	return known
}

// lookedUp notes that a thread has looked up a file.
func (w *statPredictors) lookedUp(thread uint32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if known := w.list[thread]; known != nil {
		known.ignored, known.stats = 0, true
	}
}
