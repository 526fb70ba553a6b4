package lru

import "container/list"

// A Cache maps keys to values. The costs of all entries together stay within a limit, except
// that the newest entry stays even if it exceeds the limit alone. The owner of a Cache guards
// it with its own mutex, together with the state that belongs to the entries.
type Cache[K comparable, V any] struct {
	max     int64
	onEvict func(key K, value V) // nil: no callback

	byKey map[K]*list.Element // of *entry[K, V]
	byUse list.List           // most recently used first
	cost  int64               // of all entries
}

type entry[K comparable, V any] struct {
	key   K
	value V
	cost  int64
}

// New returns an empty Cache with a limit. It calls onEvict, if not nil, for each entry that
// Add evicts for another one. The callback must not use the Cache.
func New[K comparable, V any](max int64, onEvict func(key K, value V)) *Cache[K, V] {
	return &Cache[K, V]{max: max, onEvict: onEvict, byKey: map[K]*list.Element{}}
}

// Get returns the value of a key and makes it the most recently used one.
func (c *Cache[K, V]) Get(key K) (value V, ok bool) {
	e, ok := c.byKey[key]
	if !ok {
		return value, false
	}
	c.byUse.MoveToFront(e)
	return e.Value.(*entry[K, V]).value, true
}

// Add stores a value under a key that has none and evicts others until the costs are within
// the limit. It returns the stored value: if the key has a value already, that one stays.
func (c *Cache[K, V]) Add(key K, value V, cost int64) V {
	if old, ok := c.Get(key); ok {
		return old
	}
	c.byKey[key] = c.byUse.PushFront(&entry[K, V]{key, value, cost})
	c.cost += cost
	for c.cost > c.max && len(c.byKey) > 1 {
		old := c.remove(c.byUse.Back())
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

func (c *Cache[K, V]) remove(e *list.Element) *entry[K, V] {
	old := c.byUse.Remove(e).(*entry[K, V])
	delete(c.byKey, old.key)
	c.cost -= old.cost
	return old
}

// Len returns the number of entries.
func (c *Cache[K, V]) Len() int { return len(c.byKey) }

// Cost returns the costs of all entries together.
func (c *Cache[K, V]) Cost() int64 { return c.cost }
