package fetch

import (
	"slices"
	"sync"
	"time"
)

const (
	latencySamples = 128
	minSamples     = 20 // before the first rival
	leastDelay     = 50 * time.Millisecond
	hedgeCost      = 20 // requests per rival: at most 5 % more requests
	maxHedges      = 5  // at once, after a time without rivals
)

// hedges decides when a request may get a rival: after twice the 95th percentile of the time to
// the headers. At most 5 % of the requests get one.
type hedges struct {
	mu     sync.Mutex
	ring   [latencySamples]time.Duration // guarded by mu
	count  int                           // of all samples; guarded by mu
	p95    time.Duration                 // guarded by mu
	credit int                           // in requests; guarded by mu
}

// add counts a request whose headers arrived after d.
func (h *hedges) add(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ring[h.count%latencySamples] = d
	h.count++
	h.credit = min(h.credit+1, maxHedges*hedgeCost)
	if h.count%minSamples == 0 {
		sorted := h.ring
		n := min(h.count, latencySamples)
		slices.Sort(sorted[:n])
		h.p95 = sorted[n*95/100]
	}
}

// delay returns the time after which a request gets a rival; 0: never.
func (h *hedges) delay() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.count < minSamples {
		return 0
	}
	return max(2*h.p95, leastDelay)
}

// take takes one rival from the budget, and reports false if it is used up.
func (h *hedges) take() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.credit < hedgeCost {
		return false
	}
	h.credit -= hedgeCost
	return true
}
