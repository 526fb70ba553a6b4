package fetch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/names"
)

const (
	maxPause     = 10 * time.Second // after an answer without a hint
	maxLostPause = time.Second      // after a lost connection: health.wait bounds the rate
)

// MaxRetryAfter is the longest pause that a server may request.
const MaxRetryAfter = 30 * time.Second

// farStep is the number of bytes after which the next attempt is like a first one.
const farStep = 256 << 10

// A lostError is an attempt without a complete answer: refused, reset, silent or interrupted.
// Only the deadline of the call bounds the number of such attempts, and uselessLimit.
type lostError struct {
	error
	inBody bool // the body ended early
}

// uselessLimit is how long all answers of a server may end early without real progress. The server
// answers, so it will hardly recover as a link does.
const uselessLimit = 15 * time.Second

// Unwrap returns the error of the attempt.
func (e lostError) Unwrap() error { return e.error }

// Retry repeats fn, within the limits of one call, while it returns ErrUnavailable. It is for
// requests through Transport: all other methods of a Client retry.
func (c *Client) Retry(ctx context.Context, k names.Key, fn func(context.Context) error) error {
	return c.retry(ctx, k, false, func(ctx context.Context) (int, error) { return 0, fn(ctx) })
}

// retry is Retry. attempt returns the number of bytes that it added. data marks a read of data,
// which continues while bytes arrive.
func (c *Client) retry(ctx context.Context, k names.Key, data bool, attempt func(context.Context) (int, error)) error {
	call := c.limits.begin(ctx, data)
	return call.end(k, c.repeat(call, k, attempt))
}

func (c *Client) repeat(ctx context.Context, k names.Key, attempt func(context.Context) (int, error)) error {
	var f failures
	var last error
	for {
		n, err := attempt(ctx)
		switch isTemporary := errors.Is(err, origin.ErrUnavailable); {
		case err == nil:
			c.o.Counters.succeeded()
			return nil
		case ctx.Err() != nil && (isTemporary || errors.Is(err, ctx.Err())):
			return ended(ctx, last)
		case !isTemporary:
			return err
		}
		last = err
		noteFailure(ctx, err)
		c.o.Counters.failed(reasonOf(err))
		f.add(ctx, n, err)
		pause, again := c.pause(ctx, err, f)
		if !again || f.isUseless() || c.health.refuses(callStart(ctx)) {
			return gaveUp(err, f)
		}
		c.o.Counters.retries.Add(1)
		c.logRetry(ctx, k, f, err)
		if sleepUnless(ctx, pause, c.health.recovered()) != nil {
			return ended(ctx, err)
		}
	}
}

// failures counts the failed attempts of a call.
type failures struct {
	all     int
	answers int  // that the maximum counts
	inRow   int  // without progress; the pauses grow with it
	lost    bool // the last attempt is not counted in answers

	useless time.Time // of the first of consecutive answers that ended early, without progress; zero: none
}

// isUseless reports whether the answers of a server have ended early for too long.
func (f *failures) isUseless() bool {
	return !f.useless.IsZero() && time.Since(f.useless) >= uselessLimit
}

// add counts an attempt that added n bytes. A lost connection does not count as an answer if
// the call has a deadline.
func (f *failures) add(ctx context.Context, n int, err error) {
	if n >= farStep {
		f.answers = 0
	}
	if n >= leastStep || errors.Is(err, errHealed) {
		f.inRow = 0
	}
	f.all++
	f.inRow++
	var lost lostError
	switch isLost := errors.As(err, &lost); {
	case !isLost || !lost.inBody || n >= leastStep:
		f.useless = time.Time{}
	case f.useless.IsZero():
		f.useless = time.Now()
	}
	_, limited := ctx.Deadline()
	if f.lost = limited && errors.As(err, new(lostError)); !f.lost {
		f.answers++
	}
}

// pause returns the wait before the next attempt. again is false if the attempts are used up,
// or if the server requests a pause that ends after the deadline.
func (c *Client) pause(ctx context.Context, err error, f failures) (pause time.Duration, again bool) {
	var hint origin.HintError
	if h := (*origin.HintError)(nil); errors.As(err, &h) {
		hint = *h
	}
	most := c.o.Attempts
	if hint.Tries > 0 {
		most = min(most, hint.Tries)
	}
	if !f.lost && f.answers >= most {
		return 0, false
	}
	longest := maxPause
	if f.lost {
		longest = maxLostPause
	}
	pause = max(rand.N(min(c.o.Pause<<min(f.inRow-1, 20), longest)), min(hint.After, MaxRetryAfter))
	end, limited := ctx.Deadline()
	return pause, !limited || f.lost || time.Until(end) > pause
}

// A limitError is the end of a call at its limit.
type limitError struct{ last error } // of the attempts before; nil: none

func (e limitError) Error() string { return errLimit.Error() }

// reason returns the text of the last attempt without key and kind.
func (e limitError) reason() string {
	if e.last == nil {
		return ""
	}
	return ": " + reasonOf(e.last)
}

// reasonOf returns the text of an error of an attempt without key and kind.
func reasonOf(err error) string {
	_, reason, _ := strings.Cut(err.Error(), origin.ErrUnavailable.Error()+": ")
	return reason
}

// noteFailure notes the reason of a failed attempt for Limits.Waiting.
func noteFailure(ctx context.Context, err error) {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		reason := reasonOf(err)
		c.failed.Store(&reason)
	}
}

// ended is the error of a call whose context has ended after some failed attempts.
func ended(ctx context.Context, last error) error {
	switch {
	case context.Cause(ctx) == errLimit: //nolint:errorlint // a cause is not wrapped
		return limitError{last}
	case last == nil:
		return ctx.Err()
	}
	return fmt.Errorf("%w: %v", ctx.Err(), last) //nolint:errorlint // the kind is that of the context
}

// gaveUp adds the number of attempts to the error of the last one.
func gaveUp(err error, f failures) error {
	if f.all == 1 {
		return err
	}
	return fmt.Errorf("%w, %d times", err, f.all)
}

// logRetry logs a failed attempt.
func (c *Client) logRetry(ctx context.Context, k names.Key, f failures, err error) {
	c.o.Logger.LogAttrs(ctx, slog.LevelWarn, "the origin does not answer, trying again", slog.String("event", "origin_retry"),
		slog.String("what", string(k)), slog.Int("attempt", f.all), slog.String("err", err.Error()))
}
