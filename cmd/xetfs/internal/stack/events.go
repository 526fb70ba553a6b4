package stack

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/xetfs/xetfs/cache/disk"
	"github.com/xetfs/xetfs/cache/logdedup"
)

// Names of events beside those of package disk. The names are stable.
const (
	eventRefused = "cache_dir_refused" // there is no disk cache in this run
	eventShared  = "cache_shared"      // another process writes to it
)

// eventTexts describes the events of a store.
var eventTexts = map[string]string{
	disk.EventDropped:   "something in the disk cache was damaged and is forgotten",
	disk.EventFull:      "the disk cache keeps nothing new for a while",
	disk.EventSuspended: "the disk cache is left alone until its disk works again",
	disk.EventResumed:   "the disk cache works again",
	disk.EventOwned:     "the process that wrote to the disk cache has ended, and this one writes to it now",
	disk.EventRebuilt:   "the index of the disk cache was damaged: some or all of it may be forgotten",
}

// Bounds of the log. A failing disk may drop thousands of entries a second.
const (
	waitingEvents  = 64
	droppedEvents  = 20 // lines of disk.EventDropped
	droppedPeriod  = time.Minute
	suppressedName = "suppressed"
)

// cacheEvents logs the events of a store from a goroutine of its own. Readers cause events and
// must not wait for a log that may be on the same bad disk. Events beyond the bounds are
// counted, not written.
type cacheEvents struct {
	log   *logdedup.Handler
	queue chan disk.Event
	done  chan struct{}

	mu     sync.Mutex
	closed bool // guarded by mu
}

func newCacheEvents(log *slog.Logger) *cacheEvents {
	limited := logdedup.New(log.Handler(), logdedup.Options{
		Period: droppedPeriod, Burst: droppedEvents, Count: suppressedName, Key: isDropped,
	})
	e := &cacheEvents{log: limited, queue: make(chan disk.Event, waitingEvents), done: make(chan struct{})}
	go e.run()
	return e
}

// add queues an event without waiting.
func (e *cacheEvents) add(event disk.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return
	}
	select {
	case e.queue <- event:
	default:
		e.log.Count(eventRecord(event))
	}
}

// close returns when all queued events are written.
func (e *cacheEvents) close() {
	e.mu.Lock()
	was := e.closed
	e.closed = true
	e.mu.Unlock()
	if !was {
		close(e.queue)
	}
	<-e.done
	e.log.Close()
}

func (e *cacheEvents) run() {
	defer close(e.done)
	for event := range e.queue {
		if r := eventRecord(event); e.log.Enabled(context.Background(), r.Level) {
			_ = e.log.Handle(context.Background(), r) // nothing can be done about a broken log
		}
	}
}

// isDropped limits the lines of disk.EventDropped. All events have the same key, so that each
// line has the count.
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
