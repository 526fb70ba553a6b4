package cache

import (
	"slices"
	"sync"
)

// restful is how often every other stream may ask before one that does not is
// taken to be at rest.
const restful = 8

// budget is the memory that fetching ahead may take, shared by all streams of the
// mount. Where it becomes scarce a stream gets no more than its fair share. One that
// rests gives its part back when another needs the room. Of those that do not rest, one
// that has nothing takes from one with more than its share: what is dropped must be
// fetched again.
type budget struct {
	max int64

	mu     sync.Mutex
	used   int64    // guarded by mu
	clock  int64    // counts what all streams asked for; guarded by mu
	aheads []*Ahead // those that hold something, longest at rest first; guarded by mu
}

func (b *budget) inUse() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// activeLocked makes a the stream that asked last.
func (b *budget) activeLocked(a *Ahead) {
	if i := slices.Index(b.aheads, a); i >= 0 {
		b.aheads = slices.Delete(b.aheads, i, i+1)
	}
	if len(a.holds) > 0 {
		b.aheads = append(b.aheads, a)
	}
}

// reserve takes n bytes of the budget, at the cost of other streams if need be, and says
// whether it could.
func (a *Ahead) reserve(n int64) bool {
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
		fair := a.heldLocked()+n <= share
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

// shareLocked returns what a may have where all have the same.
func (b *budget) shareLocked(a *Ahead) int64 {
	streams := int64(len(b.aheads))
	if len(a.holds) == 0 {
		streams++
	}
	return b.max / streams
}

// victimLocked returns what must go so that a has more: what is held for a stream at
// rest or else, if a has nothing, what one that has more than its share will read last.
func (b *budget) victimLocked(a *Ahead, share int64, fair bool) *hold {
	rest := restful * int64(len(b.aheads)+1)
	for _, other := range b.aheads {
		if other != a && b.clock-other.last > rest {
			return other.holds[0]
		}
	}
	if !fair || len(a.holds) > 0 {
		return nil
	}
	for _, other := range b.aheads {
		if other.heldLocked() > share {
			return other.holds[len(other.holds)-1]
		}
	}
	return nil
}

func (a *Ahead) heldLocked() (n int64) {
	for _, h := range a.holds {
		n += h.bytes
	}
	return n
}

func (b *budget) giveBack(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
}
