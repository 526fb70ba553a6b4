package serve

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// reloadEach is the shortest time between two reads of a file in use.
const reloadEach = time.Second

// A reloader has a value that is read from files again while the server runs. Files that cannot
// be used change nothing; each such problem is logged once.
type reloader[T any] struct {
	what  string // the files, for the log
	load  func() (T, error)
	log   *slog.Logger
	value atomic.Pointer[T]

	mu      sync.Mutex
	next    time.Time // earliest time of the next read; guarded by mu
	problem string    // of the last read; guarded by mu
}

// newReloader reads the value for the first time.
func newReloader[T any](what string, load func() (T, error), log *slog.Logger) (*reloader[T], error) {
	value, err := load()
	if err != nil {
		return nil, err
	}
	r := &reloader[T]{what: what, load: load, log: log, next: time.Now().Add(reloadEach)}
	r.value.Store(&value)
	return r, nil
}

// get returns the value, at most reloadEach old. It does not wait for a read by another caller.
func (r *reloader[T]) get() T {
	if r.mu.TryLock() {
		defer r.mu.Unlock()
		if now := time.Now(); !now.Before(r.next) {
			r.next = now.Add(reloadEach)
			r.reloadLocked()
		}
	}
	return *r.value.Load()
}

func (r *reloader[T]) reloadLocked() {
	value, err := r.load()
	if err == nil {
		r.value.Store(&value)
		r.problem = ""
	} else if r.problem != err.Error() {
		r.problem = err.Error()
		r.log.Warn(r.what+" cannot be used, so the former content remains valid", slog.String("event", "reload_failed"), slog.Any("err", err))
	}
}
