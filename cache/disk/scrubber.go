package disk

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/xetfs/xetfs/cache/disk/internal/index"
)

// A scrubber compares whole files with their checksums in the background. The kernel reads them
// directly, so a byte that changed on disk would stay unnoticed. A file is compared after its
// first open, and again after an open some days later. Suspect files precede the others, and are
// not opened before they match.
type scrubber struct {
	s     *Store
	began time.Time
	ctx   context.Context // canceled by Close
	stop  context.CancelFunc
	wake  wake
	done  chan struct{}

	mu       sync.Mutex
	suspects []scrubTask // guarded by mu
	routine  []scrubTask // guarded by mu
}

// A scrubTask is a whole file that is queued for comparison.
type scrubTask struct {
	d *folder
	w *index.WholeFile
}

// isQueued is the due time of a file in a list of the scrubber.
const isQueued = math.MaxInt64

// The scrubber pauses between reads and has a maximum rate. A suspect file is useless before its
// comparison, so its pauses are short.
const (
	routinePauses, suspectPauses = 9, 1 // pause per read, in multiples of its time
	routineRate, suspectRate     = 32 << 20, 256 << 20
)

func (sc *scrubber) init(s *Store) {
	sc.s, sc.began = s, time.Now()
	sc.ctx, sc.stop = context.WithCancel(context.Background())
	sc.wake, sc.done = newWake(), make(chan struct{})
}

// clock is the time since Open.
func (sc *scrubber) clock() int64 { return int64(time.Since(sc.began)) }

// add queues a file if its comparison is due.
func (sc *scrubber) add(d *folder, w *index.WholeFile) {
	due, suspect := w.Due.Load(), w.Suspect.Load()
	if due == isQueued || due > sc.clock() && !suspect || !w.Due.CompareAndSwap(due, isQueued) {
		return
	}
	sc.push(scrubTask{d, w}, suspect)
}

// markSuspect queues a file that must not be opened before its comparison.
func (sc *scrubber) markSuspect(d *folder, w *index.WholeFile) {
	if !w.Suspect.Swap(true) {
		w.Due.Store(isQueued) // an entry in the other list is skipped
		sc.push(scrubTask{d, w}, true)
	}
}

func (sc *scrubber) push(e scrubTask, suspect bool) {
	sc.mu.Lock()
	if suspect {
		sc.suspects = append(sc.suspects, e)
	} else {
		sc.routine = append(sc.routine, e)
	}
	sc.mu.Unlock()
	sc.wake.signal()
}

func (sc *scrubber) take() (scrubTask, bool) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	for _, list := range []*[]scrubTask{&sc.suspects, &sc.routine} {
		if len(*list) > 0 {
			e := (*list)[0]
			(*list)[0] = scrubTask{}
			*list = (*list)[1:]
			return e, true
		}
	}
	return scrubTask{}, false
}

// wait waits for the scrubber to end after stop.
func (sc *scrubber) wait(limit time.Duration) error { return within(limit, sc.done) }

// pace pauses after a read of n bytes of a file.
func (sc *scrubber) pace(w *index.WholeFile, n int, took time.Duration) {
	pause := max(routinePauses*took, time.Duration(n)*time.Second/routineRate)
	if w.Suspect.Load() {
		pause = max(suspectPauses*took, time.Duration(n)*time.Second/suspectRate)
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-sc.ctx.Done():
	}
}
