package flight

import (
	"context"
	"sync"
)

// A Turn lets one of several concurrent callers prepare what all of them need, and then continue on its own.
// The zero Turn is ready for use.
type Turn struct {
	mu      sync.Mutex
	running *call[struct{}] // nil: none; guarded by mu
}

// Begin begins a turn if none runs. Its caller must call end; calls after the first one have no effect. Else
// Begin returns after the end of the running turn, with end = nil and the error of that.
func (t *Turn) Begin(ctx context.Context) (end func(err error), err error) {
	t.mu.Lock()
	c := t.running
	if c == nil {
		c = &call[struct{}]{done: make(chan struct{})}
		t.running = c
		t.mu.Unlock()
		return func(err error) { t.end(c, err) }, nil
	}
	t.mu.Unlock()
	select {
	case <-c.done:
		return nil, c.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (t *Turn) end(c *call[struct{}], err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running == c {
		c.err, t.running = err, nil
		close(c.done)
	}
}
