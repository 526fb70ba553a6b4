package fetch

import (
	"testing"
	"testing/synctest"
	"time"
)

// A request ends within a period of silence, whenever its last byte arrived, and not much earlier.
func TestStallGuard(t *testing.T) {
	t.Parallel()
	const period, check = 10 * time.Second, 10 * time.Second / stallChecks
	for last := time.Duration(0); last < 2*period; last += 300 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			g := newStallGuard(t.Context(), period)
			defer g.stop()
			for at := time.Duration(0); at < last; at += 300 * time.Millisecond {
				time.Sleep(300 * time.Millisecond)
				g.received(int(leastRate * period.Seconds())) // so that it is not too slow
			}
			silent := time.Now()
			<-g.ctx.Done()
			if took := time.Since(silent); took > period || took < period-check {
				t.Errorf("last byte after %v: the request ended %v later", last, took)
			}
		})
	}
}
