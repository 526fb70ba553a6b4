package disk

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// The store is suspended after maxFailures failures within failureWindow, and resumes after
// goodProbes successful probes.
const (
	maxFailures   = 3
	failureWindow = time.Minute
	goodProbes    = 3
)

// A health is the record of failures of the disk.
type health struct {
	suspended atomic.Bool

	mu        sync.Mutex
	failures  []time.Time // the last ones; guarded by mu
	fullUntil time.Time   // guarded by mu
}

// full reports whether writes pause after a lack of room.
func (h *health) full() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.fullUntil.IsZero() && time.Now().Before(h.fullUntil)
}

// fill starts a pause and reports whether none was under way.
func (h *health) fill(pause time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := time.Now()
	begins := h.fullUntil.IsZero() || t.After(h.fullUntil)
	if begins {
		h.fullUntil = t.Add(pause)
	}
	return begins
}

// count counts a failure and reports whether there were too many.
func (h *health) count() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := time.Now()
	h.failures = append(h.failures, t)
	if n := len(h.failures) - maxFailures; n > 0 {
		h.failures = h.failures[n:]
	}
	return len(h.failures) == maxFailures && t.Sub(h.failures[0]) < failureWindow
}

// clear forgets all failures.
func (h *health) clear() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failures, h.fullUntil = nil, time.Time{}
}

// isFull reports whether an error means a lack of room, of any kind.
func isFull(err error) bool {
	return errors.Is(err, ErrFull) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EFBIG)
}

// isResourceExhausted reports whether this process or the machine lacks a resource for opening
// or reading a file. Such an error says nothing about the file.
func isResourceExhausted(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
}
