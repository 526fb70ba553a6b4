package recent

import (
	"container/list"
	"sync"
	"sync/atomic"
	"time"
)

// A Set has open values by key. It closes a value that was unused for a while, that others
// displaced, or that Forget names. A value in use stays open. Without room it displaces the oldest
// value that was not found since the last look (CLOCK). A Set is safe for concurrent use. Find and
// Put take no lock, because each read calls them.
type Set[K comparable, V any] struct {
	most  int
	idle  time.Duration
	close func(V)

	byKey sync.Map // K → *Item[K, V]; changed with mu

	mu     sync.Mutex
	order  list.List   // of *Item[K, V], oldest first; guarded by mu
	timer  *time.Timer // nil: no value is open; guarded by mu
	closed bool        // guarded by mu

	closing sync.WaitGroup // values that are closed in the background
}

// An Item is an open value that all its users share.
type Item[K comparable, V any] struct {
	Value V

	key   K
	place *list.Element // in Set.order; nil: removed; guarded by Set.mu
	users atomic.Int32  // and one for Set while it has the item; 0: closed
	found atomic.Bool   // since the last look for an item to displace
	idle  atomic.Bool   // not found since the last timer
}

// New returns a Set of up to most values. An unused value is closed after idle, at the latest
// after twice that time.
func New[K comparable, V any](most int, idle time.Duration, closeValue func(V)) *Set[K, V] {
	return &Set[K, V]{most: most, idle: idle, close: closeValue}
}

// Find returns the open value of a key, which must be Put back after use, or nil.
func (s *Set[K, V]) Find(key K) *Item[K, V] {
	it := s.item(key)
	if it == nil || !it.retain() {
		return nil
	}
	if !it.found.Load() { // a store would take the cache line from other cores
		it.found.Store(true)
	}
	if it.idle.Load() {
		it.idle.Store(false)
	}
	return it
}

// item returns the item of a key, or nil.
func (s *Set[K, V]) item(key K) *Item[K, V] {
	known, _ := s.byKey.Load(key)
	it, _ := known.(*Item[K, V])
	return it
}

// retain adds a user. It returns false if the value is closed.
func (it *Item[K, V]) retain() bool {
	for {
		n := it.users.Load()
		if n == 0 {
			return false
		}
		if it.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
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
	if known := s.Find(key); known != nil {
		return known, []V{value}
	}
	used = &Item[K, V]{Value: value, key: key}
	used.users.Store(1)
	if s.closed {
		return used, nil
	}
	if s.order.Len() >= s.most {
		surplus = s.dropLocked(s.oldestLocked(), nil)
	}
	used.users.Add(1)
	used.place = s.order.PushBack(used)
	s.byKey.Store(key, used)
	if s.timer == nil {
		s.timer = time.AfterFunc(s.idle, s.closeIdle)
	}
	return used, surplus
}

// oldestLocked returns the item to displace. It moves found ones to the end.
func (s *Set[K, V]) oldestLocked() *Item[K, V] {
	for looks := 2 * s.order.Len(); ; looks-- {
		it := s.order.Front().Value.(*Item[K, V])
		if looks == 0 || !it.found.Swap(false) {
			return it
		}
		s.order.MoveToBack(it.place)
	}
}

// Put ends the use of an Item that Find or Add returned.
func (s *Set[K, V]) Put(it *Item[K, V]) {
	if it.users.Add(-1) == 0 {
		s.close(it.Value)
	}
}

// Forget removes the value of a key. It does not wait until the value is closed.
func (s *Set[K, V]) Forget(key K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if it := s.item(key); it != nil {
		s.closeSoonLocked(s.dropLocked(it, nil))
	}
}

// CloseUnused closes an unused value in the background: the one that Add would displace first. It
// reports whether there is one.
func (s *Set[K, V]) CloseUnused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range 2 * s.order.Len() { // the first look at an item may only show that it was found
		it := s.order.Front().Value.(*Item[K, V])
		if !it.found.Swap(false) && it.users.Load() == 1 {
			surplus := s.dropLocked(it, nil) // empty: Find was faster
			s.closeSoonLocked(surplus)
			return len(surplus) > 0
		}
		s.order.MoveToBack(it.place)
	}
	return false
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
	for s.order.Len() > 0 {
		surplus = s.dropLocked(s.order.Front().Value.(*Item[K, V]), surplus)
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
	for e := s.order.Front(); e != nil; {
		it := e.Value.(*Item[K, V])
		e = e.Next()
		if it.idle.Swap(true) && it.users.Load() == 1 {
			surplus = s.dropLocked(it, surplus)
		}
	}
	s.closeSoonLocked(surplus)
	s.timer = nil
	if s.order.Len() > 0 {
		s.timer = time.AfterFunc(s.idle, s.closeIdle)
	}
}

// dropLocked removes an Item. It appends the value to surplus, which the caller closes, unless
// it is in use: then the last user closes it.
func (s *Set[K, V]) dropLocked(it *Item[K, V], surplus []V) []V {
	s.order.Remove(it.place)
	s.byKey.Delete(it.key)
	it.place = nil
	if it.users.Add(-1) > 0 {
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
