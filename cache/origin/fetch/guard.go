package fetch

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// A period has stallChecks checks. A request without any byte ends after a period. Silence after
// some bytes ends it within a period, and at most one check earlier. A request with too few bytes
// ends one check after a period: bytes may arrive at the time of a check.
const (
	stallChecks = 10
	slowChecks  = stallChecks + 1
)

// A stallGuard ends a request that receives less than leastRate during a period.
type stallGuard struct {
	ctx    context.Context // of the request
	cancel context.CancelCauseFunc
	start  time.Time
	period time.Duration
	timer  *time.Timer
	bytes  atomic.Int64 // since the last check

	mu     sync.Mutex
	recent [slowChecks]int64 // bytes before each check; guarded by mu
	checks int               // that recent has; guarded by mu
}

// leastRate is the lowest rate of an answer, in bytes per second.
const leastRate = 1 << 10

var errStalled = errors.New("stalled")

func newStallGuard(ctx context.Context, period time.Duration) *stallGuard {
	g := &stallGuard{start: time.Now(), period: period}
	g.ctx, g.cancel = context.WithCancelCause(ctx)
	g.mu.Lock() // check may run before timer is set
	defer g.mu.Unlock()
	g.timer = time.AfterFunc(period/stallChecks, g.check)
	return g
}

func (g *stallGuard) check() {
	if g.isStalled() {
		g.cancel(errStalled)
		return
	}
	g.timer.Reset(g.period / stallChecks)
}

// isStalled reports whether the last checks found too few bytes.
func (g *stallGuard) isStalled() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	copy(g.recent[:], g.recent[1:])
	g.recent[slowChecks-1] = g.bytes.Swap(0)
	g.checks = min(g.checks+1, slowChecks)
	total := int64(0)
	for _, n := range g.recent {
		total += n
	}
	isSilent := g.checks >= stallChecks && total == g.recent[0]+g.recent[1]
	isSlow := g.checks == slowChecks && total < int64(leastRate*g.period.Seconds())
	return isSilent || isSlow
}

// restart begins a period, at the headers of the answer.
func (g *stallGuard) restart() { g.next(0, g.period/stallChecks) }

// next sets the time of the next check, as if some checks had found nothing.
func (g *stallGuard) next(checks int, pause time.Duration) {
	g.mu.Lock()
	g.recent, g.checks = [slowChecks]int64{}, checks
	g.mu.Unlock()
	g.timer.Reset(pause)
}

// received counts bytes that arrived.
func (g *stallGuard) received(n int) { g.bytes.Add(int64(n)) }

// endLimit bounds the wait for the end of an answer whose bytes have all arrived.
const endLimit = 50 * time.Millisecond

// shorten ends the request soon.
func (g *stallGuard) shorten() {
	g.bytes.Store(0)
	g.next(slowChecks-1, min(g.period/stallChecks, endLimit))
}

func (g *stallGuard) stop() {
	g.timer.Stop()
	g.cancel(nil)
}
