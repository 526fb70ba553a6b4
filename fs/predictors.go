package fs

import (
	"sync"
	"time"
)

// A statPredictor predicts whether a thread needs attributes with a listing. du, tar and ls -l
// do; find -name does not. Superfluous attributes double the cost of a listing, and missing ones
// cost a message each. The kernel's guess (READDIRPLUS_AUTO) fails for tools that list a whole
// directory first, as most do.
//
// So a thread gets attributes, except for one probe in probeEvery files. A thread that looks up
// no probe gets none after a while, until it looks one up. The predictor counts the files with
// attributes since the last lookup of a probe. Directories always have attributes, because most
// threads descend.
type statPredictor struct {
	ignored int
	stats   bool      // it has looked up a probe
	last    time.Time // last listing
}

const (
	maxIgnoredNew   = 1 << 15 // files with attributes for a thread without any lookup
	maxIgnoredKnown = 1 << 20 // the same after a lookup; some tools list 100,000 names first
	probeEvery      = 128     // one file in probeEvery has no attributes
	maxPredictors   = 1024
	predictorAge    = 10 * time.Second // the number of an older thread may be that of another one
)

// isProbe reports whether a file has no attributes in listings.
func isProbe(id identity) bool { return id.gen%probeEvery == 0 }

// statPredictors are the predictors by thread.
type statPredictors struct {
	mu   sync.Mutex
	list map[uint32]*statPredictor // guarded by mu
}

// wantsAttrs records a listing, and reports whether the thread gets attributes. A thread without
// a number always does.
func (sp *statPredictors) wantsAttrs(thread uint32) bool {
	if thread == 0 {
		return true
	}
	sp.mu.Lock()
	defer sp.mu.Unlock()
	now := time.Now()
	known := sp.list[thread]
	if known == nil || now.Sub(known.last) > predictorAge {
		known = sp.addLocked(thread, now)
	}
	known.last = now
	if known.stats {
		return known.ignored < maxIgnoredKnown
	}
	return known.ignored < maxIgnoredNew
}

// attrsSent counts files with attributes.
func (sp *statPredictors) attrsSent(thread uint32, files int) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if known := sp.list[thread]; known != nil {
		known.ignored += files
	}
}

func (sp *statPredictors) addLocked(thread uint32, now time.Time) *statPredictor {
	if sp.list == nil {
		sp.list = make(map[uint32]*statPredictor)
	}
	if len(sp.list) >= maxPredictors {
		for other, known := range sp.list {
			if len(sp.list) >= maxPredictors || now.Sub(known.last) > predictorAge {
				delete(sp.list, other)
			}
		}
	}
	known := &statPredictor{}
	sp.list[thread] = known
	return known
}

// lookedUp records a lookup of a file.
func (sp *statPredictors) lookedUp(thread uint32) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if known := sp.list[thread]; known != nil {
		known.ignored, known.stats = 0, true
	}
}
