package lru

import (
	"sync"
	"sync/atomic"
)

// A Clock is a Cache for values that many cores look up. Get takes no lock: it marks its entry, and
// Add evicts the oldest entries without a mark (CLOCK). A Clock is safe for concurrent use.
type Clock[K comparable, V any] struct {
	max   int64
	byKey sync.Map // K → *clockEntry[K, V]

	mu   sync.Mutex
	ring clockEntry[K, V] // its next entry is the oldest one; guarded by mu
	n    int              // number of entries; guarded by mu
	cost int64            // of all entries; guarded by mu
}

type clockEntry[K comparable, V any] struct {
	key   K
	value V
	cost  int64
	used  atomic.Bool // since Add looked at it last

	prev, next *clockEntry[K, V] // guarded by Clock.mu
}

// NewClock returns an empty Clock with a limit.
func NewClock[K comparable, V any](max int64) *Clock[K, V] {
	c := &Clock[K, V]{max: max}
	c.ring.prev, c.ring.next = &c.ring, &c.ring
	return c
}

// Get returns the value of a key.
func (c *Clock[K, V]) Get(key K) (value V, ok bool) {
	found, ok := c.byKey.Load(key)
	if !ok {
		return value, false
	}
	e := found.(*clockEntry[K, V])
	if !e.used.Load() { // a store would take the cache line from other cores
		e.used.Store(true)
	}
	return e.value, true
}

// Add is Cache.Add.
func (c *Clock[K, V]) Add(key K, value V, cost int64) V {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, ok := c.Get(key); ok {
		return old
	}
	e := &clockEntry[K, V]{key: key, value: value, cost: cost}
	c.linkLocked(e)
	c.byKey.Store(key, e)
	for looks := 2 * c.n; c.cost > c.max && c.n > 1; looks-- {
		old := c.ring.next
		c.unlinkLocked(old)
		if old == e || looks > 0 && old.used.Swap(false) {
			c.linkLocked(old)
			continue
		}
		c.byKey.Delete(old.key)
	}
	return value
}

// Remove removes a key, and reports whether it had a value.
func (c *Clock[K, V]) Remove(key K) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, ok := c.byKey.LoadAndDelete(key)
	if ok {
		c.unlinkLocked(found.(*clockEntry[K, V]))
	}
	return ok
}

// linkLocked makes e the newest entry.
func (c *Clock[K, V]) linkLocked(e *clockEntry[K, V]) {
	e.prev, e.next = c.ring.prev, &c.ring
	e.prev.next, e.next.prev = e, e
	c.n++
	c.cost += e.cost
}

func (c *Clock[K, V]) unlinkLocked(e *clockEntry[K, V]) {
	e.prev.next, e.next.prev = e.next, e.prev
	c.n--
	c.cost -= e.cost
}

// Len returns the number of entries.
func (c *Clock[K, V]) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// Cost returns the costs of all entries together.
func (c *Clock[K, V]) Cost() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cost
}
