package fetch

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/names"
)

// Limits bound the time of calls, all attempts and pauses included. A call that reaches its
// limit returns ErrUnavailable. The zero value sets no limit.
type Limits struct {
	// First bounds the time from the first call until the server has answered once. Calls in that
	// time share it. A call that begins a second after its end, or later, begins it again. 0: none.
	First time.Duration
	Read  time.Duration // of each call after that; 0: none

	// Waiting is called once, when a call other than a read of data has taken longer than
	// Notice. reason is that of the last failed attempt, or "no answer". nil: never.
	Waiting func(reason string)
	Notice  time.Duration // 0: 1 s
}

// A document may take documentStart plus its length at documentRate, if that is longer than
// Limits.Read. A read of data may exceed Limits.Read while the server as a whole delivers
// dataRate: parallel reads share a slow link.
const (
	documentStart = 10 * time.Second
	documentRate  = 1_000_000 / 8 // bytes per second
	dataRate      = documentRate / 2
)

// limits are the Limits of a Client and the state that its calls share.
type limits struct {
	Limits
	hasAnswered atomic.Bool
	bytes       atomic.Int64 // of data that arrived
	noticed     atomic.Bool

	mu    sync.Mutex
	began time.Time // of the period of Limits.First; guarded by mu
}

// firstPause is the time after a period of Limits.First without an answer in which calls fail at
// once. Without an end of that, a server that is down at first could never be used.
const firstPause = time.Second

func newLimits(l Limits) *limits {
	if l.Notice == 0 {
		l.Notice = time.Second
	}
	return &limits{Limits: l}
}

const never = time.Duration(math.MaxInt64)

// errLimit is the cause of the context of a call that has reached its limit.
var errLimit = errors.New("limit reached")

// callKey is the key of the call in its context.
type callKey struct{}

// A call is the context of one call of a Client. Its deadline may move.
type call struct {
	context.Context
	limits *limits
	data   bool // a read of data, not a document
	began  time.Time
	first  time.Time // start of its period of Limits.First
	cancel context.CancelCauseFunc
	failed atomic.Pointer[string] // reason of the last failed attempt; nil: none

	mu     sync.Mutex
	timer  *time.Timer   // guarded by mu; nil: the call has ended
	start  time.Time     // of the period; guarded by mu
	period time.Duration // guarded by mu
	bytes  int64         // limits.bytes at start; guarded by mu
}

// callStart returns the start of the call of ctx, or else the current time.
func callStart(ctx context.Context) time.Time {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c.began
	}
	return time.Now()
}

// begin returns the context of a new call.
func (l *limits) begin(ctx context.Context, data bool) *call {
	now := time.Now()
	c := &call{limits: l, data: data, began: now, period: l.Read}
	c.Context, c.cancel = context.WithCancelCause(ctx)
	l.mu.Lock()
	if now.Sub(l.began) >= l.First+firstPause { // also the first call
		l.began = now
	}
	c.first = l.began
	l.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.startLocked(now)
	wait, limited := c.waitLocked(now)
	if !limited {
		wait = never // a timer of 0 s would call check at once
	}
	if c.timer = time.AfterFunc(wait, c.check); !limited {
		c.timer.Stop()
	}
	return c
}

// Value implements context.Context.
func (c *call) Value(key any) any {
	if key == (callKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// Deadline implements context.Context. It returns the current limit.
func (c *call) Deadline() (time.Time, bool) {
	c.mu.Lock()
	end, limited := c.endLocked()
	c.mu.Unlock()
	if parent, ok := c.Context.Deadline(); ok && (!limited || parent.Before(end)) {
		return parent, true
	}
	return end, limited
}

// endLocked returns the time at which the call reaches its limit.
func (c *call) endLocked() (end time.Time, limited bool) {
	if c.limits.First > 0 && !c.limits.hasAnswered.Load() {
		return c.first.Add(c.limits.First), true
	}
	return c.start.Add(c.period), c.period > 0
}

func (c *call) startLocked(now time.Time) { c.start, c.bytes = now, c.limits.bytes.Load() }

// check ends the call if its limit is reached, and else sets the timer for the next check.
func (c *call) check() {
	if c.needsNotice() {
		c.limits.Waiting(c.reason())
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

// reason returns the reason of the last failed attempt.
func (c *call) reason() string {
	if failed := c.failed.Load(); failed != nil {
		return *failed
	}
	return "no answer"
}

// waitLocked returns the time until the next check; ok is false if none is needed.
func (c *call) waitLocked(now time.Time) (wait time.Duration, ok bool) {
	end, limited := c.endLocked()
	if c.limits.Waiting != nil && !c.limits.noticed.Load() {
		if notice := c.start.Add(c.limits.Notice); now.Before(notice) && (!limited || notice.Before(end)) {
			return notice.Sub(now), true
		}
	}
	return max(0, end.Sub(now)), limited
}

// flowsLocked reports whether the server as a whole delivers data.
func (c *call) flowsLocked(now time.Time) bool {
	received := c.limits.bytes.Load() - c.bytes
	return c.data && c.limits.hasAnswered.Load() && float64(received) >= dataRate*now.Sub(c.start).Seconds()
}

// needsNotice reports whether to call Waiting now.
func (c *call) needsNotice() bool {
	c.mu.Lock()
	waits := c.timer != nil && time.Since(c.start) >= c.limits.Notice
	c.mu.Unlock()
	return waits && c.limits.Waiting != nil && (!c.data || !c.limits.hasAnswered.Load()) && !c.limits.noticed.Swap(true)
}

// end ends the call, and returns the error to report for err.
func (c *call) end(k names.Key, err error) error {
	c.mu.Lock()
	c.timer.Stop()
	c.timer = nil
	period := c.period
	c.mu.Unlock()
	c.cancel(nil)
	var limit limitError
	switch reached := errors.As(err, &limit); {
	case !reached:
		return err
	case c.limits.First > 0 && !c.limits.hasAnswered.Load():
		return fmt.Errorf("%q: %w: no answer within %v s%s", k, origin.ErrUnavailable, c.limits.First.Seconds(), limit.reason())
	case limit.last == nil:
		return fmt.Errorf("%q: %w: too slow, not complete within %v s", k, origin.ErrUnavailable, period.Seconds())
	}
	return fmt.Errorf("%q: %w: not complete within %v s%s", k, origin.ErrUnavailable, period.Seconds(), limit.reason())
}

// maxTimed is the longest document that moves a limit.
const maxTimed = 1 << 30

// extend moves the limit when an answer has begun. size is the length of a document; -1:
// unknown.
func (c *call) extend(size int64) {
	c.limits.hasAnswered.Store(true)
	if c.limits.Read > 0 {
		seconds := min(max(size, 0), maxTimed) / documentRate
		c.mu.Lock()
		c.period = max(c.limits.Read, documentStart+time.Duration(seconds)*time.Second)
		c.mu.Unlock()
	}
}
