// Package recent keeps open what was used last, so that what is read again and again is
// opened once.
package recent

import (
	"container/list"
	"sync"
	"time"
)

// A Set is some open things by their keys. Each stays open until it was not used for a
// while, or others were, or somebody forgets it; and in any case as long as it is being
// used. A Set is safe for concurrent use.
type Set[K comparable, V any] struct {
	most  int
	idle  time.Duration
	close func(V)

	mu     sync.Mutex
	byKey  map[K]*Item[K, V] // guarded by mu
	order  list.List         // of *Item[K, V], used last comes last; guarded by mu
	timer  *time.Timer       // nil: nothing is open; guarded by mu
	closed bool              // guarded by mu

	closing sync.WaitGroup // what is closed in the background
}

// An Item is an open thing that all who use it share.
type Item[K comparable, V any] struct {
	Value V

	key   K
	place *list.Element // in Set.order; nil: it is there no more; guarded by Set.mu
	users int           // guarded by Set.mu
	idle  bool          // it was not used since the timer; guarded by Set.mu
}

// New returns a Set of so many things at the most. What is not used for idle is closed, at
// the latest after twice that.
func New[K comparable, V any](most int, idle time.Duration, closeValue func(V)) *Set[K, V] {
	return &Set[K, V]{most: most, idle: idle, close: closeValue, byKey: make(map[K]*Item[K, V])}
}

// Find returns what is open under a key, which must be Put back after use, or nil.
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

// Add takes over what somebody has opened, and returns what is to be used, and Put back:
// if somebody else was faster that is theirs, and this one is closed. After Close it is
// closed when it is Put back.
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

// Put gives back what Find or Add returned.
func (s *Set[K, V]) Put(it *Item[K, V]) {
	s.mu.Lock()
	it.users--
	last := it.users == 0 && it.place == nil
	s.mu.Unlock()
	if last {
		s.close(it.Value)
	}
}

// Forget takes out what is open under a key. It does not wait until that is closed.
func (s *Set[K, V]) Forget(key K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if it := s.byKey[key]; it != nil {
		s.closeSoonLocked(s.dropLocked(it, nil))
	}
}

// Len returns how many things are open, without those that were taken out in use.
func (s *Set[K, V]) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.order.Len()
}

// Closed reports whether nothing that is added stays open any more.
func (s *Set[K, V]) Closed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// Close closes everything. What is being used is closed by its last user.
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

// closeIdle closes what was not used since it ran last.
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

// dropLocked takes something out, and appends it to what is to be closed, unless somebody
// uses it: then the last one closes it.
func (s *Set[K, V]) dropLocked(it *Item[K, V], surplus []V) []V {
	s.order.Remove(it.place)
	delete(s.byKey, it.key)
	it.place = nil
	if it.users > 0 {
		return surplus
	}
	return append(surplus, it.Value)
}

// closeSoonLocked closes things without their user waiting for it. Close does wait: it
// cannot have begun to while something was still there to be dropped.
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
