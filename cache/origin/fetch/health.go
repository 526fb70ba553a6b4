package fetch

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xetfs/xetfs/cache/flight"
)

const (
	downAfter  = 40 * time.Second       // without any answer
	lossPeriod = 20 * time.Second       // in which an origin in use loses an attempt: stall limit and pause
	probeEach  = time.Second            // while the origin is down
	probeLeast = time.Second / 2        // between probes, if new calls wait for one
	downWait   = 900 * time.Millisecond // of a new call for the next probe
	silentFor  = 2 * time.Second        // without any answer: an outage, not one lost connection
	deadAfter  = 5 * time.Second        // of silence: connections may be dead
	deadLeast  = time.Second            // without headers on such a connection
	gateEach   = 100 * time.Millisecond // one attempt, after freeTries of a silence
	freeTries  = 64
)

// A health decides whether the origin of a Client is down: it lost attempts for downAfter
// without any answer. While it is down, only probes are sent. The first answer ends this state
// and all waits for it.
type health struct {
	probe func(ctx context.Context) // sends a request and calls heard
	log   *slog.Logger

	epoch  time.Time
	last   atomic.Int64 // time of the newest answer or byte, after epoch
	silent atomic.Bool  // attempts were lost since then; written with mu

	mu       sync.Mutex
	since    time.Time                // of the silence; guarded by mu
	lastLoss time.Time                // guarded by mu
	tries    int                      // since the silence began; guarded by mu
	nextGate time.Time                // guarded by mu
	down     time.Time                // zero: not down; guarded by mu
	healed   chan struct{}            // closed by the first answer; nil: not silent; guarded by mu
	pending  map[*stallGuard]struct{} // attempts without headers; guarded by mu
	timer    *time.Timer              // of downAfter; guarded by mu
	stop     context.CancelFunc       // ends the probes; guarded by mu
	closed   bool                     // guarded by mu
	probes   sync.WaitGroup

	wanted chan struct{} // has an element if a new call waits for a probe
}

func newHealth(log *slog.Logger, probe func(ctx context.Context)) *health {
	return &health{
		log: log, probe: probe, epoch: time.Now(),
		pending: map[*stallGuard]struct{}{}, wanted: make(chan struct{}, 1),
	}
}

// errHealed is the cause of an attempt that ends because a later one has an answer.
var errHealed = errors.New("a later request was answered")

// heard reports headers or bytes of an answer.
func (h *health) heard() {
	h.last.Store(int64(time.Since(h.epoch)))
	if h.silent.Load() {
		h.heal()
	}
}

// heal ends the silence.
func (h *health) heal() {
	if silent, wasDown := h.endSilence(); wasDown {
		h.log.Info("the origin answers again", slog.String("event", "origin_up"), slog.Duration("silent", silent))
	}
}

// endSilence returns the length of the silence, and whether the origin was down. After a long
// silence, older attempts without an answer may wait on dead connections: they are sent again.
func (h *health) endSilence() (silent time.Duration, wasDown bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.healed == nil {
		return 0, false
	}
	silent, wasDown = time.Since(h.since), !h.down.IsZero()
	if silent > deadAfter {
		for g := range h.pending {
			if time.Since(g.start) > deadLeast {
				g.cancel(errHealed)
			}
		}
	}
	h.clearLocked()
	return silent.Round(time.Second), wasDown
}

// clearLocked returns to the state without losses.
func (h *health) clearLocked() {
	if h.healed != nil {
		close(h.healed)
		h.timer.Stop()
	}
	if h.stop != nil {
		h.stop()
	}
	h.healed, h.stop, h.down = nil, nil, time.Time{}
	h.silent.Store(false)
}

// begin registers an attempt.
func (h *health) begin(g *stallGuard) {
	h.mu.Lock()
	h.pending[g] = struct{}{}
	h.mu.Unlock()
}

// end ends the registration: the attempt has headers or is lost.
func (h *health) end(g *stallGuard) {
	h.mu.Lock()
	delete(h.pending, g)
	h.mu.Unlock()
}

// lost reports an attempt that began at start and has ended without a complete answer.
func (h *health) lost(start time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lastLoss = time.Now()
	if h.healed != nil || h.closed {
		return
	}
	h.since = start
	if last := h.epoch.Add(time.Duration(h.last.Load())); last.After(start) {
		h.since = last
	}
	h.healed, h.tries = make(chan struct{}), 0
	h.silent.Store(true)
	h.timer = time.AfterFunc(time.Until(h.since.Add(downAfter)), h.checkDown)
}

// checkDown logs that the origin is down, if it is.
func (h *health) checkDown() {
	if silent, isDown := h.markDown(); isDown {
		h.log.Warn("the origin does not answer; reads fail until it does", slog.String("event", "origin_down"), slog.Duration("silent", silent))
	}
}

// markDown marks the origin as down and starts the probes, if it is silent and in use.
func (h *health) markDown() (silent time.Duration, isDown bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.healed == nil || h.closed:
		return 0, false
	case time.Since(h.lastLoss) > lossPeriod:
		h.clearLocked()
		return 0, false
	}
	h.down = time.Now()
	ctx, cancel := context.WithCancel(context.Background())
	h.stop = cancel
	h.probes.Go(func() { h.sendProbes(ctx) })
	return time.Since(h.since).Round(time.Second), true
}

// sendProbes sends one probe per probeEach until ctx ends, and one earlier for new calls. A probe
// does not wait for the one before, which may be on a dead connection.
func (h *health) sendProbes(ctx context.Context) {
	for {
		h.probes.Go(func() { h.sendProbe(ctx) })
		if sleepUnless(ctx, probeLeast, nil) != nil || sleepUnless(ctx, probeEach-probeLeast, h.wanted) != nil {
			return
		}
	}
}

// sendProbe sends one probe. A panic ends this probe alone.
func (h *health) sendProbe(ctx context.Context) {
	var err error
	defer func() {
		if err != nil {
			h.log.ErrorContext(ctx, "a probe of the origin failed", slog.String("event", "panic"), slog.String("err", err.Error()))
		}
	}()
	defer flight.Guard(&err)
	h.probe(ctx)
}

// close ends the probes.
func (h *health) close() {
	h.mu.Lock()
	h.closed = true
	h.clearLocked()
	h.mu.Unlock()
	h.probes.Wait()
}

// downError is the error of a call that began while the origin was down.
type downError struct{ silent time.Duration }

func (e downError) Error() string {
	return "no answer for " + e.silent.Round(time.Second).String() + "; the next probe follows within 1 s"
}

// wait returns when the next attempt of a call that began at start may be sent. While the
// origin is silent, few attempts are sent, and none while it is down. A call that began while
// it was down fails soon.
func (h *health) wait(ctx context.Context, start time.Time) error {
	for h.silent.Load() {
		pause, healed, err := h.turn(start)
		if pause == 0 || err != nil {
			return err
		}
		if err := sleepUnless(ctx, pause, healed); err != nil {
			return err
		}
	}
	return nil
}

// turn returns the pause before an attempt may be sent, which ends early with healed.
func (h *health) turn(start time.Time) (pause time.Duration, healed <-chan struct{}, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	switch {
	case h.healed == nil:
		return 0, nil, nil
	case h.down.IsZero() && h.tries < freeTries:
		h.tries++
		return 0, nil, nil
	case h.down.IsZero():
		if pause = h.nextGate.Sub(now); pause <= 0 {
			h.nextGate = now.Add(gateEach)
		}
		return max(0, pause), h.healed, nil
	case !start.After(h.down):
		return downAfter, h.healed, nil // any long time
	}
	if pause = start.Add(downWait).Sub(now); pause <= 0 {
		return 0, nil, downError{now.Sub(h.since)}
	}
	select {
	case h.wanted <- struct{}{}:
	default:
	}
	return pause, h.healed, nil
}

// IsSilent reports whether the server has lost attempts for 2 s or more, without any answer.
func (c *Client) IsSilent() bool { return c.health.isSilent() }

func (h *health) isSilent() bool {
	if !h.silent.Load() {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.healed != nil && time.Since(h.since) >= silentFor
}

// refuses reports whether a call that began at start gets no further attempt.
func (h *health) refuses(start time.Time) bool {
	if !h.silent.Load() {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.down.IsZero() && start.After(h.down) && time.Since(start) >= downWait
}

// recovered returns a channel that is closed by the next answer; nil: the origin is not silent.
func (h *health) recovered() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.healed
}

// sleepUnless waits until the pause has passed, early is closed or ctx ends. It returns the error of
// ctx.
func sleepUnless(ctx context.Context, pause time.Duration, early <-chan struct{}) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-early:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}
