package cache

import (
	"slices"
	"sync"
)

// idleFactor is how often every other stream may prefetch before a stream that does not is
// idle.
const idleFactor = 8

// budget is the memory for readahead, shared by all streams of the mount. If memory is scarce,
// a stream gets at most its fair share. An idle stream loses its reservations when another one
// needs room. Otherwise a stream without reservations takes from one above its share: dropped
// chunks must be fetched again.
type budget struct {
	max int64

	mu      sync.Mutex
	used    int64        // guarded by mu
	clock   int64        // counts the reserve calls of all streams; guarded by mu
	streams []*Readahead // with reservations, longest idle first; guarded by mu
}

func (b *budget) inUse() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// touchLocked makes a the most recently active stream.
func (b *budget) touchLocked(a *Readahead) {
	if i := slices.Index(b.streams, a); i >= 0 {
		b.streams = slices.Delete(b.streams, i, i+1)
	}
	if len(a.reservations) > 0 {
		b.streams = append(b.streams, a)
	}
}

// reserve takes n bytes of the budget, if necessary from other streams, and reports whether it
// could.
func (a *Readahead) reserve(n int64) bool {
	b := &a.c.budget
	b.mu.Lock()
	b.clock++
	a.last = b.clock
	b.mu.Unlock()
	for {
		b.mu.Lock()
		if a.closed || n > b.max {
			b.mu.Unlock()
			return false
		}
		share := b.shareLocked(a)
		fair := a.reservedLocked()+n <= share
		if after := b.used + n; after <= b.max && (fair || after <= b.max/2) {
			b.used = after
			b.mu.Unlock()
			return true
		}
		victim := b.victimLocked(a, share, fair)
		b.mu.Unlock()
		if victim == nil {
			return false
		}
		victim.drop()
	}
}

// shareLocked returns the fair share of a.
func (b *budget) shareLocked(a *Readahead) int64 {
	streams := int64(len(b.streams))
	if len(a.reservations) == 0 {
		streams++
	}
	return b.max / streams
}

// Streams returns the number of streams with prefetched chunks, at least 1.
func (a *Readahead) Streams() int {
	a.c.budget.mu.Lock()
	defer a.c.budget.mu.Unlock()
	return max(1, len(a.c.budget.streams))
}

// victimLocked picks a reservation to evict for a: the oldest one of an idle stream. If a holds
// nothing, it picks the newest one of a stream above its share.
func (b *budget) victimLocked(a *Readahead, share int64, fair bool) *reservation {
	rest := idleFactor * int64(len(b.streams)+1)
	for _, other := range b.streams {
		if other != a && b.clock-other.last > rest {
			return other.reservations[0]
		}
	}
	if !fair || len(a.reservations) > 0 {
		return nil
	}
	for _, other := range b.streams {
		if other.reservedLocked() > share {
			return other.reservations[len(other.reservations)-1]
		}
	}
	return nil
}

func (a *Readahead) reservedLocked() (n int64) {
	for _, h := range a.reservations {
		n += h.bytes
	}
	return n
}

func (b *budget) release(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
}
