package origintest

import (
	"context"
	"sync/atomic"
	"time"
)

// A Clock moves only by Pass and Sleep. It is safe for concurrent use.
type Clock struct{ at atomic.Int64 } // nanoseconds since 1970

// NewClock returns a Clock at the second 1,700,000,000.
func NewClock() *Clock {
	c := &Clock{}
	c.at.Store(time.Unix(1_700_000_000, 0).UnixNano())
	return c
}

// Now returns the time.
func (c *Clock) Now() time.Time { return time.Unix(0, c.at.Load()) }

// Pass moves the clock.
func (c *Clock) Pass(d time.Duration) { c.at.Add(int64(d)) }

// Sleep moves the clock, and returns the error of ctx.
func (c *Clock) Sleep(ctx context.Context, d time.Duration) error {
	c.Pass(d)
	return ctx.Err()
}
