package main

import (
	"log/slog"
	"sync"
	"time"

	"github.com/xetfs/xetfs/cache/disk"
)

// Names of events beside those of package disk. They are stable.
const (
	eventRefused = "cache_dir_refused" // there is no disk cache in this run
	eventShared  = "cache_shared"      // another process writes to it
)

// eventTexts say in words what the events of a store mean.
var eventTexts = map[string]string{
	disk.EventDropped:   "something in the disk cache was damaged and is forgotten",
	disk.EventFull:      "the disk cache keeps nothing new for a while",
	disk.EventSuspended: "the disk cache is left alone until its disk works again",
	disk.EventResumed:   "the disk cache works again",
	disk.EventOwned:     "who wrote to the disk cache has gone, and this process writes to it now",
	disk.EventRebuilt:   "the index of the disk cache was damaged: all or some of it is forgotten",
}

// Bounds of what is logged. A disk that goes bad may drop thousands of entries a second.
const (
	waitingEvents  = 64
	droppedEvents  = 20 // lines of disk.EventDropped
	droppedPeriod  = time.Minute
	suppressedName = "suppressed"
)

// cacheEvents writes what a store tells to a log, from a goroutine of its own: readers meet
// events, and must not wait for a log that may be on the same bad disk. What comes too
// quickly is counted and not written.
type cacheEvents struct {
	log  *slog.Logger
	come chan disk.Event
	done chan struct{}

	mu     sync.Mutex
	closed bool // guarded by mu
	lost   int  // since the last line; guarded by mu

	since   time.Time // the goroutine's alone, as is what follows
	dropped int       // lines of droppedEvents since then
	muted   int       // and those that were not written
}

func newCacheEvents(log *slog.Logger) *cacheEvents {
	e := &cacheEvents{log: log, come: make(chan disk.Event, waitingEvents), done: make(chan struct{})}
	go e.run()
	return e
}

// tell takes an event and does not wait.
func (e *cacheEvents) tell(event disk.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return
	}
	select {
	case e.come <- event:
	default:
		e.lost++
	}
}

// close returns when everything that was told is written.
func (e *cacheEvents) close() {
	e.mu.Lock()
	was := e.closed
	e.closed = true
	e.mu.Unlock()
	if !was {
		close(e.come)
	}
	<-e.done
}

func (e *cacheEvents) run() {
	defer close(e.done)
	for event := range e.come {
		if !e.mute(event, time.Now()) {
			e.write(event)
		}
	}
}

// mute says whether there were enough lines of the same kind lately.
func (e *cacheEvents) mute(event disk.Event, now time.Time) bool {
	if event.Name != disk.EventDropped {
		return false
	}
	if now.Sub(e.since) > droppedPeriod {
		e.since, e.dropped = now, 0
	}
	e.dropped++
	if e.dropped <= droppedEvents {
		return false
	}
	e.muted++
	return true
}

func (e *cacheEvents) write(event disk.Event) {
	attrs := []any{"event", event.Name}
	if event.What != "" {
		attrs = append(attrs, "entry", event.What)
	}
	if event.Err != nil {
		attrs = append(attrs, "err", event.Err)
	}
	e.mu.Lock()
	muted := e.lost + e.muted
	e.lost, e.muted = 0, 0
	e.mu.Unlock()
	if muted > 0 {
		attrs = append(attrs, suppressedName, muted)
	}
	if event.Name == disk.EventResumed || event.Name == disk.EventOwned {
		e.log.Info(eventTexts[event.Name], attrs...)
		return
	}
	e.log.Warn(eventTexts[event.Name], attrs...)
}
