package origin

import (
	"context"
	"fmt"
	"sync"
)

// A flight lets those who ask for the same thing at the same time share one answer. One
// who gives up leaves at once and does not stop the others; when the last one gives up,
// the question is cancelled. The zero flight is ready for use.
type flight[K comparable, V any] struct {
	goesOn func(key K) bool // without waiters; nil: never; constant

	mu    sync.Mutex
	calls map[K]*call[V] // guarded by mu
}

type call[V any] struct {
	cancel  context.CancelFunc
	waiters int           // guarded by flight.mu
	done    chan struct{} // closed once val and err are final
	val     V
	err     error
}

// do returns what ask returns.
func (f *flight[K, V]) do(ctx context.Context, key K, ask func(context.Context) (V, error)) (V, error) {
	var none V
	if err := ctx.Err(); err != nil {
		return none, err
	}
	f.mu.Lock()
	c, ok := f.calls[key]
	if !ok {
		c = f.startLocked(ctx, key, ask)
	}
	c.waiters++
	f.mu.Unlock()

	select {
	case <-c.done:
		return c.val, c.err
	case <-ctx.Done():
		f.leave(key, c)
		return none, ctx.Err()
	}
}

func (f *flight[K, V]) startLocked(ctx context.Context, key K, ask func(context.Context) (V, error)) *call[V] {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c := &call[V]{cancel: cancel, done: make(chan struct{})}
	if f.calls == nil {
		f.calls = map[K]*call[V]{}
	}
	f.calls[key] = c
	go func() {
		defer cancel()
		defer close(c.done)
		defer f.forget(key, c)
		defer guard(&c.err)
		c.val, c.err = ask(ctx)
	}()
	return c
}

// leave is called by one who waits no longer.
func (f *flight[K, V]) leave(key K, c *call[V]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.waiters--; c.waiters == 0 && (f.goesOn == nil || !f.goesOn(key)) {
		f.forgetLocked(key, c) // whoever comes now asks anew
		c.cancel()
	}
}

// part lets whoever comes from now on ask anew. Those who wait get their answer.
func (f *flight[K, V]) part(key K) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.calls, key)
}

func (f *flight[K, V]) forget(key K, c *call[V]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forgetLocked(key, c)
}

func (f *flight[K, V]) forgetLocked(key K, c *call[V]) {
	if f.calls[key] == c {
		delete(f.calls, key)
	}
}

// guard turns a panic into an error: a bug in one answer must not end the mount.
func guard(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("panic: %v", r)
	}
}
