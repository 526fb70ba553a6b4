package disk

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// The disk is left alone after this many failures in that time, and trusted again after
// as many good looks at it.
const (
	maxFailures   = 3
	failureWindow = time.Minute
	goodProbes    = 3
)

// A health is what is known about the disk.
type health struct {
	suspended atomic.Bool

	mu        sync.Mutex
	failures  []time.Time // the last ones; guarded by mu
	fullUntil time.Time   // guarded by mu
}

// full says that nothing is written now, because there was no room a while ago.
func (h *health) full() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.fullUntil.IsZero() && now().Before(h.fullUntil)
}

// fill begins a pause and says whether there was none.
func (h *health) fill(pause time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := now()
	begins := h.fullUntil.IsZero() || t.After(h.fullUntil)
	if begins {
		h.fullUntil = t.Add(pause)
	}
	return begins
}

// count counts a failure and says whether there were too many.
func (h *health) count() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := now()
	h.failures = append(h.failures, t)
	if n := len(h.failures) - maxFailures; n > 0 {
		h.failures = h.failures[n:]
	}
	return len(h.failures) == maxFailures && t.Sub(h.failures[0]) < failureWindow
}

// clear forgets what was.
func (h *health) clear() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failures, h.fullUntil = nil, time.Time{}
}

// isFull says that an error means that there is no room, of whatever kind.
func isFull(err error) bool {
	return errors.Is(err, ErrFull) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EFBIG)
}

// isResourceExhausted says that this process or the machine lacks something to open or read a file:
// that says nothing about the file.
func isResourceExhausted(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
}

// now is the clock. Only differences of it count, and those do not jump when somebody
// sets the time.
func now() time.Time { return time.Now() }
