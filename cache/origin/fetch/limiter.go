package fetch

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
)

const (
	startLimit = 32 // of requests at once, unless the maximum is lower
	holdRounds = 20 // without growth after a step that brought nothing, or after a cut
)

// A limiter bounds the requests at once. Callers wait in order, and readahead waits behind requests
// that a reader awaits. The limit grows while more requests bring more bytes per second, and shrinks
// when the server is busy. It changes once per round: as many requests as the limit.
type limiter struct {
	most int // the limit never exceeds it

	mu      sync.Mutex
	limit   int       // guarded by mu
	busy    int       // requests; guarded by mu
	waiting []*waiter // guarded by mu
	round   round     // guarded by mu
	last    step      // that the current limit must improve on; guarded by mu
	hold    int       // rounds without growth; guarded by mu
	careful bool      // the server was busy: grow by one; guarded by mu
	cut     time.Time // of the limit; guarded by mu
}

// A waiter is a caller that waits for its turn.
type waiter struct {
	ctx    context.Context
	ready  chan struct{} // closed when the caller may send
	passed int           // admissions of later callers while it was readahead
}

// maxPassed is how often later callers may pass readahead. A reader may wait for its result in a
// way that the context does not report.
const maxPassed = 64

// A round is a group of consecutive requests.
type round struct {
	start time.Time
	done  int
	bytes int64
	idle  bool // at some time no caller waited
}

// A step is a limit and the bytes per second with it.
type step struct {
	limit int
	rate  float64
}

func newLimiter(most int) *limiter {
	l := &limiter{most: most, limit: min(most, startLimit)}
	l.last.limit = l.limit
	return l
}

// acquire waits until a request may be sent. It returns an error when ctx ends.
func (l *limiter) acquire(ctx context.Context) error {
	l.mu.Lock()
	if l.tryLocked() {
		l.mu.Unlock()
		return nil
	}
	w := &waiter{ctx: ctx, ready: make(chan struct{})}
	l.waiting = append(l.waiting, w)
	l.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.waiting, w); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	} else {
		l.busy--
		l.admitLocked()
	}
	return ctx.Err()
}

// tryAcquire is acquire without a wait.
func (l *limiter) tryAcquire() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tryLocked()
}

func (l *limiter) tryLocked() bool {
	if l.busy >= l.limit || len(l.waiting) > 0 {
		return false
	}
	switch {
	case l.busy > 0:
	case l.round.done == 0:
		l.round.start = time.Now()
	default:
		l.round.idle = true
	}
	l.busy++
	return true
}

// admitLocked lets callers send up to the limit.
func (l *limiter) admitLocked() {
	for len(l.waiting) > 0 && l.busy < l.limit {
		i := l.nextLocked()
		close(l.waiting[i].ready)
		l.waiting = slices.Delete(l.waiting, i, i+1)
		l.busy++
	}
}

// nextLocked returns the index of the waiter to admit: the first that is no readahead, or else the
// first.
func (l *limiter) nextLocked() int {
	for i, w := range l.waiting {
		if w.passed == maxPassed || origin.IsAwaited(w.ctx) {
			for _, before := range l.waiting[:i] {
				before.passed++
			}
			return i
		}
	}
	return 0
}

// release ends a request that received bytes.
func (l *limiter) release(bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy--
	l.round.done++
	l.round.bytes += bytes
	l.round.idle = l.round.idle || len(l.waiting) == 0
	if l.round.done >= l.limit {
		now := time.Now()
		if l.round.idle {
			l.recoverLocked()
		} else {
			l.adjustLocked(float64(l.round.bytes) / max(now.Sub(l.round.start).Seconds(), 1e-9))
		}
		l.round = round{start: now}
	}
	l.admitLocked()
}

// adjustLocked sets the limit after a round in which callers waited all the time.
func (l *limiter) adjustLocked(rate float64) {
	switch {
	case l.limit > l.last.limit && rate < leastGain(l.last, l.limit):
		l.limit, l.hold = l.last.limit, holdRounds
	case l.hold > 0:
		l.hold--
	case l.limit < l.most:
		l.last = step{l.limit, rate}
		growth := 1
		if !l.careful {
			growth = max(1, l.limit/4)
		}
		l.limit = min(l.most, l.limit+growth)
	}
}

// recoverLocked moves the limit back to its start after a round in which it bounded nothing.
func (l *limiter) recoverLocked() {
	switch {
	case l.hold > 0:
		l.hold--
	case l.limit < min(l.most, startLimit):
		l.limit++
		l.last = step{limit: l.limit}
	}
}

// leastGain returns the rate that makes a limit better than the last one. It is a quarter of the
// gain of connections without a shared bottleneck.
func leastGain(last step, limit int) float64 {
	growth := float64(limit-last.limit) / float64(last.limit)
	return last.rate * (1 + growth/4)
}

// congested shrinks the limit because a request that began at start met a busy server. Requests
// from before the last cut change nothing.
func (l *limiter) congested(start time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !start.After(l.cut) {
		return
	}
	l.limit = max(1, l.limit*17/20)
	l.last, l.hold, l.careful, l.cut = step{limit: l.limit}, holdRounds, true, time.Now()
}
