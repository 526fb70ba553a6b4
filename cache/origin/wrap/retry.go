package wrap

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/xetfs/xetfs/cache/logdedup"
	"github.com/xetfs/xetfs/cache/origin"
)

// A RetryPolicy sets the number of tries of a call without an answer, and the pauses between
// them. The zero value is right.
type RetryPolicy struct {
	Attempts int           // in all; 0: 6
	Base     time.Duration // the first pause is random, up to this; doubled each time; 0: 200 ms
	Most     time.Duration // maximum of pauses without a hint; 0: 10 s
	Logger   *slog.Logger  // nil: no log
	Limits   Limits        // of the calls of RetryStore
}

// maxRetryAfter is the longest pause that a server may ask for.
const maxRetryAfter = 30 * time.Second

func (p RetryPolicy) withDefaults() RetryPolicy {
	if p.Attempts == 0 {
		p.Attempts = 6
	}
	if p.Base == 0 {
		p.Base = 200 * time.Millisecond
	}
	if p.Most == 0 {
		p.Most = 10 * time.Second
	}
	if p.Logger == nil {
		p.Logger = slog.New(slog.DiscardHandler)
	}
	return p
}

// A retrier carries out a policy.
type retrier struct {
	RetryPolicy // its Logger limits repeated lines
}

func newRetrier(p RetryPolicy) *retrier {
	r := &retrier{p.withDefaults()}
	r.Logger = slog.New(logdedup.New(r.Logger.Handler(), logdedup.Options{Count: "times"}))
	return r
}

// do asks until there is an answer or no use in asking.
func (r *retrier) do(ctx context.Context, what string, ask func() error) error {
	return r.doPartly(ctx, what, func() (bool, error) { return false, ask() })
}

// doPartly is do for an answer that comes in pieces. One that came far before it ended says
// that it is worth going on, and is not counted.
func (r *retrier) doPartly(ctx context.Context, what string, ask func() (far bool, err error)) error {
	for try := 1; ; try++ {
		far, err := ask()
		if far {
			try = 1
		}
		if err == nil || !errors.Is(err, origin.ErrUnavailable) {
			return err
		}
		if ended := ctx.Err(); ended != nil {
			return ended
		}
		pause, again := r.pause(ctx, err, try)
		if !again {
			return gaveUp(err, try)
		}
		r.tell(ctx, what, try, err)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w: %v", ctx.Err(), err) //nolint:errorlint // which of the two it is decides
		}
	}
}

// gaveUp adds how often it was tried.
func gaveUp(err error, tries int) error {
	if tries == 1 {
		return err
	}
	return fmt.Errorf("%w, %d times", err, tries)
}

// pause returns the wait after the try-th failure. again is false if the tries are used up, or
// if the deadline is before the end of the wait.
func (r *retrier) pause(ctx context.Context, err error, try int) (pause time.Duration, again bool) {
	var hint origin.HintError
	if h := (*origin.HintError)(nil); errors.As(err, &h) {
		hint = *h
	}
	most := r.Attempts
	if hint.Tries > 0 {
		most = min(most, hint.Tries)
	}
	if try >= most {
		return 0, false
	}
	ceiling := min(r.Base<<min(try-1, 20), r.Most)
	pause = max(rand.N(ceiling), min(hint.After, maxRetryAfter))
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= pause {
		return 0, false
	}
	return pause, true
}

// tell says that something is tried again.
func (r *retrier) tell(ctx context.Context, what string, try int, err error) {
	r.Logger.LogAttrs(ctx, slog.LevelWarn, "the origin does not answer, trying again", slog.String("event", "origin_retry"),
		slog.String("what", what), slog.Int("attempt", try), slog.String("err", err.Error()))
}
