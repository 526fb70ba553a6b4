package fs

import (
	"maps"
	"slices"
	"sync"
)

// A handleTable numbers the open files and directories for messages of the kernel.
type handleTable[T any] struct {
	mu   sync.RWMutex
	open map[uint64]T // guarded by mu
	last uint64       // last number; guarded by mu
}

func (t *handleTable[T]) add(v T) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open == nil {
		t.open = make(map[uint64]T)
	}
	t.last++
	t.open[t.last] = v
	return t.last
}

func (t *handleTable[T]) get(n uint64) (T, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	v, ok := t.open[n]
	return v, ok
}

func (t *handleTable[T]) remove(n uint64) (T, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v, ok := t.open[n]
	delete(t.open, n)
	return v, ok
}

// removeAll empties the table and returns its values.
func (t *handleTable[T]) removeAll() map[uint64]T {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.open
	t.open = nil
	return all
}

// all returns the values of the table.
func (t *handleTable[T]) all() []T {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Collect(maps.Values(t.open))
}

func (t *handleTable[T]) len() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.open)
}
