package main

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/xetfs/xetfs/cache/disk"
	"github.com/xetfs/xetfs/cache/logdedup"
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
	log  *logdedup.Handler
	come chan disk.Event
	done chan struct{}

	mu     sync.Mutex
	closed bool // guarded by mu
}

func newCacheEvents(log *slog.Logger) *cacheEvents {
	limited := logdedup.New(log.Handler(), logdedup.Options{
		Period: droppedPeriod, Burst: droppedEvents, Count: suppressedName, Key: isDropped,
	})
	e := &cacheEvents{log: limited, come: make(chan disk.Event, waitingEvents), done: make(chan struct{})}
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
		e.log.Count(eventRecord(event))
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
	e.log.Close()
}

func (e *cacheEvents) run() {
	defer close(e.done)
	for event := range e.come {
		if r := eventRecord(event); e.log.Enabled(context.Background(), r.Level) {
			_ = e.log.Handle(context.Background(), r) // nothing can be done about a broken log
		}
	}
}

// isDropped limits the lines of disk.EventDropped. The key is the same for all events, so
// that any line carries the count.
func isDropped(r slog.Record) (key string, limited bool) {
	return "", r.Message == eventTexts[disk.EventDropped]
}

// eventRecord returns the log line of an event.
func eventRecord(event disk.Event) slog.Record {
	level := slog.LevelWarn
	if event.Name == disk.EventResumed || event.Name == disk.EventOwned {
		level = slog.LevelInfo
	}
	r := slog.NewRecord(time.Now(), level, eventTexts[event.Name], 0)
	r.Add("event", event.Name)
	if event.What != "" {
		r.Add("entry", event.What)
	}
	if event.Err != nil {
		r.Add("err", event.Err)
	}
	return r
}
