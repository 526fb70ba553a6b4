package wrap

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/names"
)

// Limits bound how long the calls of a remote Store may take, all attempts and pauses
// included. A call that reaches its limit returns ErrUnavailable. The zero value sets no limit.
type Limits struct {
	First time.Duration // from the first call until the store has answered once; 0: none
	Read  time.Duration // of each call after that; 0: none

	// Waiting is called once, when a call other than a read of data has taken longer than
	// Notice. nil: never.
	Waiting func()
	Notice  time.Duration // 0: 1 s
}

// A document may take documentStart plus its length at documentRate, if that is longer than
// Limits.Read. A read of data may exceed Limits.Read while the store as a whole delivers
// dataRate: parallel reads share a slow link.
const (
	documentStart = 10 * time.Second
	documentRate  = 1_000_000 / 8 // bytes per second
	dataRate      = documentRate / 2
)

// limits are the Limits of one store and what its calls have in common.
type limits struct {
	Limits
	answered atomic.Bool
	bytes    atomic.Int64 // of data that came
	noticed  atomic.Bool

	mu    sync.Mutex
	began time.Time // first call; guarded by mu
}

func newLimits(l Limits) *limits {
	if l.Notice == 0 {
		l.Notice = time.Second
	}
	return &limits{Limits: l}
}

// errLimit is the cause of the context of a call that has reached its limit.
var errLimit = errors.New("limit reached")

// A limitedCall is the context of one call of a store. Its deadline may move.
type limitedCall struct {
	context.Context
	limits *limits
	data   bool // a read of data, not a document
	cancel context.CancelCauseFunc

	mu    sync.Mutex
	timer *time.Timer // guarded by mu; nil: stopped
	start time.Time   // guarded by mu
	each  time.Duration
	bytes int64 // limits.bytes at start; guarded by mu
}

// begin returns the context of a new call.
func (l *limits) begin(ctx context.Context, data bool) *limitedCall {
	c := &limitedCall{limits: l, data: data, each: l.Read}
	c.Context, c.cancel = context.WithCancelCause(origin.WithAnswer(ctx, c.answered))
	l.mu.Lock()
	if l.began.IsZero() {
		l.began = time.Now()
	}
	l.mu.Unlock()
	c.resume()
	return c
}

// Deadline implements context.Context. It returns the limit as it is now.
func (c *limitedCall) Deadline() (time.Time, bool) {
	c.mu.Lock()
	end, limited := c.endLocked()
	c.mu.Unlock()
	if parent, ok := c.Context.Deadline(); ok && (!limited || parent.Before(end)) {
		return parent, true
	}
	return end, limited
}

// endLocked returns when the call reaches its limit.
func (c *limitedCall) endLocked() (end time.Time, limited bool) {
	if c.limits.First > 0 && !c.limits.answered.Load() {
		c.limits.mu.Lock()
		defer c.limits.mu.Unlock()
		return c.limits.began.Add(c.limits.First), true
	}
	return c.start.Add(c.each), c.each > 0
}

// resume starts the time of the call, at first and after a pause.
func (c *limitedCall) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.startLocked(time.Now())
	if wait, ok := c.waitLocked(c.start); ok {
		c.timer = time.AfterFunc(wait, c.look)
	}
}

func (c *limitedCall) startLocked(now time.Time) { c.start, c.bytes = now, c.limits.bytes.Load() }

// pause stops the time while the caller works with a result.
func (c *limitedCall) pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
	}
	c.timer = nil
}

// look ends the call if its limit is reached, and else sets the timer for the next look.
func (c *limitedCall) look() {
	if c.notice() {
		c.limits.Waiting()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer == nil {
		return
	}
	now := time.Now()
	end, limited := c.endLocked()
	if limited && !now.Before(end) {
		if !c.flowsLocked(now) {
			c.cancel(errLimit)
			return
		}
		c.startLocked(now)
	}
	if wait, ok := c.waitLocked(now); ok {
		c.timer.Reset(wait)
	}
}

// waitLocked returns the time until the next look; ok is false if none is needed.
func (c *limitedCall) waitLocked(now time.Time) (wait time.Duration, ok bool) {
	end, limited := c.endLocked()
	if c.limits.Waiting != nil && !c.limits.noticed.Load() {
		if notice := c.start.Add(c.limits.Notice); now.Before(notice) && (!limited || notice.Before(end)) {
			return notice.Sub(now), true
		}
	}
	return max(0, end.Sub(now)), limited
}

// flowsLocked reports whether the store as a whole delivers data.
func (c *limitedCall) flowsLocked(now time.Time) bool {
	came := c.limits.bytes.Load() - c.bytes
	return c.data && c.limits.answered.Load() && float64(came) >= dataRate*now.Sub(c.start).Seconds()
}

// notice reports whether Waiting is to be called now.
func (c *limitedCall) notice() bool {
	c.mu.Lock()
	waits := c.timer != nil && time.Since(c.start) >= c.limits.Notice
	c.mu.Unlock()
	return waits && c.limits.Waiting != nil && (!c.data || !c.limits.answered.Load()) && !c.limits.noticed.Swap(true)
}

// end ends the call, and returns the error to report for err.
func (c *limitedCall) end(what string, err error) error {
	c.pause()
	reached := context.Cause(c.Context) == errLimit //nolint:errorlint // a cause is not wrapped
	c.cancel(nil)
	if err == nil || !reached {
		return err
	}
	if !c.limits.answered.Load() {
		return fmt.Errorf("%q: %w: no answer within %v s", what, origin.ErrUnavailable, c.limits.First.Seconds())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Errorf("%q: %w: too slow, not complete within %v s", what, origin.ErrUnavailable, c.each.Seconds())
}

// maxTimed is the longest document that moves a limit.
const maxTimed = 1 << 30

// answered moves the limit once an answer has begun. size is the length of a document; -1:
// unknown.
func (c *limitedCall) answered(size int64) {
	c.limits.answered.Store(true)
	if c.limits.Read > 0 {
		seconds := min(max(size, 0), maxTimed) / documentRate
		c.mu.Lock()
		c.each = max(c.limits.Read, documentStart+time.Duration(seconds)*time.Second)
		c.mu.Unlock()
	}
}

// call asks, repeatedly if need be, within the limits of the store.
func (s retryingStore) call(ctx context.Context, k names.Key, ask func(context.Context) error) error {
	c := s.limits.begin(ctx, false)
	return c.end(string(k), s.r.do(c, string(k), func() error { return ask(c) }))
}
