package disk

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/xetfs/xetfs/cache/disk/internal/index"
)

// A scrubber compares whole files with their checksums in the background: the kernel reads
// them by itself, and nobody else would see that a disk has changed a byte. Each is looked
// at when it is opened for the first time, and then again when it is opened after days. A
// file that is in doubt comes before those, and is not given out until it is found sound.
type scrubber struct {
	s     *Store
	began time.Time
	ctx   context.Context // ends with the store
	stop  context.CancelFunc
	wake  wake
	done  chan struct{}

	mu       sync.Mutex
	suspects []scrubTask // guarded by mu
	routine  []scrubTask // guarded by mu
}

// A scrubTask is a whole file that waits for it.
type scrubTask struct {
	d *folder
	w *index.WholeFile
}

// isQueued is the due of a file that stands in a list of the checker.
const isQueued = math.MaxInt64

// How much of the time of a disk a check takes, and how fast it reads at most. A file in
// doubt is no use until it is done.
const (
	routinePauses, suspectPauses = 9, 1 // as long as a read takes, so many times
	routineRate, suspectRate     = 32 << 20, 256 << 20
)

func (sc *scrubber) init(s *Store) {
	sc.s, sc.began = s, now()
	sc.ctx, sc.stop = context.WithCancel(context.Background())
	sc.wake, sc.done = newWake(), make(chan struct{})
}

// clock is the time since the store was opened.
func (sc *scrubber) clock() int64 { return int64(time.Since(sc.began)) }

// add has a file compared if it is due.
func (sc *scrubber) add(d *folder, w *index.WholeFile) {
	due, suspect := w.Due.Load(), w.Suspect.Load()
	if due == isQueued || due > sc.clock() && !suspect || !w.Due.CompareAndSwap(due, isQueued) {
		return
	}
	sc.push(scrubTask{d, w}, suspect)
}

// markSuspect has a file compared before it is given out again.
func (sc *scrubber) markSuspect(d *folder, w *index.WholeFile) {
	if !w.Suspect.Swap(true) {
		w.Due.Store(isQueued) // it may stand among the others; then it is passed over there
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

// wait waits for the checker to end after stop.
func (sc *scrubber) wait(limit time.Duration) error { return within(limit, sc.done) }

// pace leaves the disk to others after n bytes of a file were read.
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
