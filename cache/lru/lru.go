package lru

import "iter"

// A Cache maps keys to values. The costs of all entries together stay within a limit, except
// that the newest entry stays even if it exceeds the limit alone. The owner of a Cache guards
// it with its own mutex, together with the state that belongs to the entries.
type Cache[K comparable, V any] struct {
	max     int64
	onEvict func(key K, value V) // nil: no callback

	byKey map[K]*entry[K, V]
	ring  entry[K, V] // its next entry is the most recently used one
	cost  int64       // of all entries
}

type entry[K comparable, V any] struct {
	key        K
	value      V
	cost       int64
	prev, next *entry[K, V]
}

// New returns an empty Cache with a limit. It calls onEvict, if not nil, for each entry that
// Add evicts for another one. The callback must not use the Cache.
func New[K comparable, V any](max int64, onEvict func(key K, value V)) *Cache[K, V] {
	c := &Cache[K, V]{max: max, onEvict: onEvict, byKey: map[K]*entry[K, V]{}}
	c.ring.prev, c.ring.next = &c.ring, &c.ring
	return c
}

// Get returns the value of a key and makes it the most recently used one.
func (c *Cache[K, V]) Get(key K) (value V, ok bool) {
	e, ok := c.byKey[key]
	if !ok {
		return value, false
	}
	e.unlink()
	c.link(e)
	return e.value, true
}

// Add stores a value under a key that has none and evicts others until the costs are within
// the limit. It returns the stored value: if the key has a value already, that one stays.
func (c *Cache[K, V]) Add(key K, value V, cost int64) V {
	if old, ok := c.Get(key); ok {
		return old
	}
	e := &entry[K, V]{key: key, value: value, cost: cost}
	c.byKey[key] = e
	c.link(e)
	c.cost += cost
	for c.cost > c.max && len(c.byKey) > 1 {
		old := c.ring.prev
		c.remove(old)
		if c.onEvict != nil {
			c.onEvict(old.key, old.value)
		}
	}
	return value
}

// Remove removes a key without a call of onEvict, and reports whether it had a value.
func (c *Cache[K, V]) Remove(key K) bool {
	e, ok := c.byKey[key]
	if ok {
		c.remove(e)
	}
	return ok
}

func (c *Cache[K, V]) remove(e *entry[K, V]) {
	e.unlink()
	delete(c.byKey, e.key)
	c.cost -= e.cost
}

// link makes e the most recently used entry.
func (c *Cache[K, V]) link(e *entry[K, V]) {
	e.prev, e.next = &c.ring, c.ring.next
	e.prev.next, e.next.prev = e, e
}

func (e *entry[K, V]) unlink() { e.prev.next, e.next.prev = e.next, e.prev }

// All yields the entries, most recently used first. The loop must not change the Cache.
func (c *Cache[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for e := c.ring.next; e != &c.ring && yield(e.key, e.value); e = e.next {
		}
	}
}

// Len returns the number of entries.
func (c *Cache[K, V]) Len() int { return len(c.byKey) }

// Cost returns the costs of all entries together.
func (c *Cache[K, V]) Cost() int64 { return c.cost }
