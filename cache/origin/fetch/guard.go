package fetch

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// A stallGuard ends a request that receives less than leastRate.
type stallGuard struct {
	ctx    context.Context // of the request
	cancel context.CancelCauseFunc
	start  time.Time
	period time.Duration
	timer  *time.Timer
	bytes  atomic.Int64 // since the timer was set
}

// leastRate is the lowest rate of an answer, in bytes per second.
const leastRate = 1 << 10

var errStalled = errors.New("stalled")

func newStallGuard(ctx context.Context, period time.Duration) *stallGuard {
	g := &stallGuard{start: time.Now(), period: period}
	g.ctx, g.cancel = context.WithCancelCause(ctx)
	g.timer = time.AfterFunc(period, g.check)
	return g
}

func (g *stallGuard) check() {
	if g.bytes.Swap(0) < int64(leastRate*g.period.Seconds()) {
		g.cancel(errStalled)
		return
	}
	g.timer.Reset(g.period)
}

// restart begins a period, at the headers of the answer.
func (g *stallGuard) restart() { g.timer.Reset(g.period) }

// received counts bytes that arrived.
func (g *stallGuard) received(n int) { g.bytes.Add(int64(n)) }

// endLimit bounds the wait for the end of an answer whose bytes have all arrived.
const endLimit = 50 * time.Millisecond

// shorten ends the request soon.
func (g *stallGuard) shorten() {
	g.bytes.Store(0)
	g.timer.Reset(min(g.period, endLimit))
}

func (g *stallGuard) stop() {
	g.timer.Stop()
	g.cancel(nil)
}
