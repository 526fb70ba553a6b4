package harness

import (
	"context"
	"sync"
)

// A Gate is a door that reads must pass.
type Gate struct {
	mu   sync.Mutex
	open chan struct{} // closed while the door is open; guarded by mu
}

// Shut makes all reads from now on wait.
func (g *Gate) Shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = make(chan struct{})
}

// Open lets all reads pass, those that wait too.
func (g *Gate) Open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
	default:
		close(g.open)
	}
}

// Pass waits until the gate is open or ctx ends.
func (g *Gate) Pass(ctx context.Context) error {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	select {
	case <-open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// NewGate is a door that is open.
func NewGate() *Gate {
	g := &Gate{open: make(chan struct{})}
	g.Open()
	return g
}
