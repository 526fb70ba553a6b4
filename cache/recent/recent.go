package recent

import (
	"container/list"
	"sync"
	"time"
)

// A Set has open values by key. It closes a value that was unused for a while, that others
// displaced, or that Forget names. A value in use stays open. A Set is safe for concurrent use.
type Set[K comparable, V any] struct {
	most  int
	idle  time.Duration
	close func(V)

	mu     sync.Mutex
	byKey  map[K]*Item[K, V] // guarded by mu
	order  list.List         // of *Item[K, V], most recently used last; guarded by mu
	timer  *time.Timer       // nil: no value is open; guarded by mu
	closed bool              // guarded by mu

	closing sync.WaitGroup // values that are closed in the background
}

// An Item is an open value that all its users share.
type Item[K comparable, V any] struct {
	Value V

	key   K
	place *list.Element // in Set.order; nil: removed; guarded by Set.mu
	users int           // guarded by Set.mu
	idle  bool          // not used since the last timer; guarded by Set.mu
}

// New returns a Set of up to most values. An unused value is closed after idle, at the latest
// after twice that time.
func New[K comparable, V any](most int, idle time.Duration, closeValue func(V)) *Set[K, V] {
	return &Set[K, V]{most: most, idle: idle, close: closeValue, byKey: make(map[K]*Item[K, V])}
}

// Find returns the open value of a key, which must be Put back after use, or nil.
func (s *Set[K, V]) Find(key K) *Item[K, V] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.findLocked(key)
}

func (s *Set[K, V]) findLocked(key K) *Item[K, V] {
	known := s.byKey[key]
	if known != nil {
		known.users++
		known.idle = false
		s.order.MoveToBack(known.place)
	}
	return known
}

// Add takes over an open value, and returns the Item to use and to Put back. If the key has a
// value already, Add returns that one and closes the new one. After Close the value is closed
// when it is Put back.
func (s *Set[K, V]) Add(key K, value V) *Item[K, V] {
	used, surplus := s.add(key, value)
	s.closeAll(surplus)
	return used
}

func (s *Set[K, V]) add(key K, value V) (used *Item[K, V], surplus []V) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.findLocked(key); known != nil {
		return known, []V{value}
	}
	used = &Item[K, V]{Value: value, key: key, users: 1}
	if s.closed {
		return used, nil
	}
	used.place = s.order.PushBack(used)
	s.byKey[key] = used
	if s.order.Len() > s.most {
		surplus = s.dropLocked(s.order.Front().Value.(*Item[K, V]), nil)
	}
	if s.timer == nil {
		s.timer = time.AfterFunc(s.idle, s.closeIdle)
	}
	return used, surplus
}

// Put ends the use of an Item that Find or Add returned.
func (s *Set[K, V]) Put(it *Item[K, V]) {
	s.mu.Lock()
	it.users--
	last := it.users == 0 && it.place == nil
	s.mu.Unlock()
	if last {
		s.close(it.Value)
	}
}

// Forget removes the value of a key. It does not wait until the value is closed.
func (s *Set[K, V]) Forget(key K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if it := s.byKey[key]; it != nil {
		s.closeSoonLocked(s.dropLocked(it, nil))
	}
}

// Len returns the number of open values, without removed ones in use.
func (s *Set[K, V]) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.order.Len()
}

// Closed reports whether the Set is closed, so that no added value stays open.
func (s *Set[K, V]) Closed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// Close closes all values. The last user closes a value in use.
func (s *Set[K, V]) Close() {
	s.mu.Lock()
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	var surplus []V
	for _, it := range s.byKey {
		surplus = s.dropLocked(it, surplus)
	}
	s.mu.Unlock()
	s.closeAll(surplus)
	s.closing.Wait()
}

// closeIdle closes the values that were not used since its last run.
func (s *Set[K, V]) closeIdle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var surplus []V
	for _, it := range s.byKey {
		if it.idle && it.users == 0 {
			surplus = s.dropLocked(it, surplus)
		}
		it.idle = true
	}
	s.closeSoonLocked(surplus)
	s.timer = nil
	if len(s.byKey) > 0 {
		s.timer = time.AfterFunc(s.idle, s.closeIdle)
	}
}

// dropLocked removes an Item. It appends the value to surplus, which the caller closes, unless
// it is in use: then the last user closes it.
func (s *Set[K, V]) dropLocked(it *Item[K, V], surplus []V) []V {
	s.order.Remove(it.place)
	delete(s.byKey, it.key)
	it.place = nil
	if it.users > 0 {
		return surplus
	}
	return append(surplus, it.Value)
}

// closeSoonLocked closes values in the background. Close waits for them: it cannot have started
// to wait before, since an Item was still present.
func (s *Set[K, V]) closeSoonLocked(surplus []V) {
	if len(surplus) > 0 {
		s.closing.Go(func() { s.closeAll(surplus) })
	}
}

func (s *Set[K, V]) closeAll(surplus []V) {
	for _, v := range surplus {
		s.close(v)
	}
}
