package flight

import (
	"context"
	"fmt"
	"sync"
)

// A Group shares one call among concurrent callers with equal keys. A caller that gives up
// does not stop the others. When the last caller gives up, the call is canceled. Results are
// not stored. The zero Group is ready for use.
type Group[K comparable, V any] struct {
	// Detached reports whether the call of a key continues without callers. Do calls it with
	// the mutex held. nil: no call continues.
	Detached func(key K) bool

	running sync.WaitGroup

	mu    sync.Mutex
	calls map[K]*call[V] // guarded by mu
}

type call[V any] struct {
	cancel  context.CancelFunc
	waiters int           // guarded by Group.mu
	done    chan struct{} // closed once val and err are final
	val     V
	err     error
}

// Do returns the result of fn, which runs in a goroutine of its own, once for all callers that
// wait for the key. The context of fn has the values of the first caller but not its deadline.
// A panic of fn is an error.
func (g *Group[K, V]) Do(ctx context.Context, key K, fn func(context.Context) (V, error)) (V, error) {
	var zero V
	if err := ctx.Err(); err != nil {
		return zero, err
	}
	g.mu.Lock()
	c, ok := g.calls[key]
	if !ok {
		c = g.startLocked(ctx, key, fn)
	}
	c.waiters++
	g.mu.Unlock()

	select {
	case <-c.done:
		return c.val, c.err
	case <-ctx.Done():
		g.leave(key, c)
		return zero, ctx.Err()
	}
}

func (g *Group[K, V]) startLocked(ctx context.Context, key K, fn func(context.Context) (V, error)) *call[V] {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c := &call[V]{cancel: cancel, done: make(chan struct{})}
	if g.calls == nil {
		g.calls = map[K]*call[V]{}
	}
	g.calls[key] = c
	g.running.Add(1)
	go func() { // running.Go would allocate a second function
		defer g.running.Done()
		defer cancel()
		defer close(c.done)
		defer g.end(key, c)
		defer Guard(&c.err)
		c.val, c.err = fn(ctx)
	}()
	return c
}

// leave ends the wait of one caller.
func (g *Group[K, V]) leave(key K, c *call[V]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.waiters--; c.waiters == 0 && (g.Detached == nil || !g.Detached(key)) {
		g.endLocked(key, c) // the next caller starts a new call
		c.cancel()
	}
}

// Wait returns when no call runs. It must not run at the same time as Do.
func (g *Group[K, V]) Wait() { g.running.Wait() }

// Forget makes the next caller start a new call. The present callers get the result of theirs.
func (g *Group[K, V]) Forget(key K) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.calls, key)
}

func (g *Group[K, V]) end(key K, c *call[V]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.endLocked(key, c)
}

func (g *Group[K, V]) endLocked(key K, c *call[V]) {
	if g.calls[key] == c {
		delete(g.calls, key)
	}
}

// Guard turns a panic into an error. It must be deferred: a bug in one call must not end the
// process.
func Guard(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("panic: %v", r)
	}
}
