package origin

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestFlightShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f flight[string, int]
		var asked atomic.Int64
		ask := func(context.Context) (int, error) {
			asked.Add(1)
			time.Sleep(time.Second)
			return 42, nil
		}
		var askers sync.WaitGroup
		for range 100 {
			askers.Go(func() {
				if v, err := f.do(t.Context(), "key", ask); v != 42 || err != nil {
					t.Errorf("do = %d, %v", v, err)
				}
			})
		}
		askers.Wait()
		if n := asked.Load(); n != 1 {
			t.Errorf("asked %d times for 100, want 1", n)
		}
		f.do(t.Context(), "key", ask)
		if n := asked.Load(); n != 2 {
			t.Errorf("asked %d times, want 2: an answer is not kept", n)
		}
	})
}

// One asker gives up, the other two stay.
func TestFlightOneLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f flight[int, string]
		ask := func(ctx context.Context) (string, error) {
			time.Sleep(time.Minute)
			return "there", ctx.Err()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var askers sync.WaitGroup
		askers.Go(func() {
			start := time.Now()
			if _, err := f.do(ctx, 1, ask); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
				t.Errorf("the one who gives up has %v after %v", err, time.Since(start))
			}
		})
		for range 2 {
			askers.Go(func() {
				if v, err := f.do(t.Context(), 1, ask); v != "there" || err != nil {
					t.Errorf("one who stays has %q, %v", v, err)
				}
			})
		}
		askers.Wait()
	})
}

// All askers give up: the question is cancelled, and who comes then asks anew.
func TestFlightAllLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f flight[int, string]
		var cancelled time.Time
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		f.do(ctx, 1, func(ctx context.Context) (string, error) {
			<-ctx.Done()
			cancelled = time.Now()
			time.Sleep(time.Hour) // slow to notice
			return "", ctx.Err()
		})
		synctest.Wait()
		if cancelled.IsZero() {
			t.Error("the question goes on although nobody waits")
		}
		if v, err := f.do(t.Context(), 1, func(context.Context) (string, error) { return "new", nil }); v != "new" || err != nil {
			t.Errorf("do = %q, %v", v, err)
		}
		time.Sleep(2 * time.Hour) // until the deaf one has gone
	})
}

func TestFlightPanics(t *testing.T) {
	var f flight[int, string]
	_, err := f.do(t.Context(), 1, func(context.Context) (string, error) { panic("oh") })
	if err == nil || err.Error() != "panic: oh" {
		t.Errorf("do = %v, want the panic as an error", err)
	}
	if len(f.calls) != 0 {
		t.Errorf("%d calls are left", len(f.calls))
	}
}

func TestFlightCancelledBefore(t *testing.T) {
	var f flight[int, string]
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := f.do(ctx, 1, func(context.Context) (string, error) {
		t.Error("asked for one who has gone")
		return "", nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("do = %v, want %v", err, context.Canceled)
	}
}

func TestDropAny(t *testing.T) {
	m := map[int]bool{}
	for i := range 10 {
		m[i] = true
		if dropAny(m, 4); len(m) != min(i+1, 4) {
			t.Errorf("after %d: %d entries", i+1, len(m))
		}
	}
}

// Who comes after part does not wait for what was asked before, and neither answer gets
// lost.
func TestFlightPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f flight[string, int]
		var asked atomic.Int64
		ask := func(context.Context) (int, error) {
			n := asked.Add(1)
			time.Sleep(time.Second)
			return int(n), nil
		}
		var askers sync.WaitGroup
		for want := 1; want <= 2; want++ {
			for range 3 {
				askers.Go(func() {
					if v, err := f.do(t.Context(), "key", ask); v != want || err != nil {
						t.Errorf("do = %d, %v, want %d", v, err, want)
					}
				})
			}
			time.Sleep(time.Millisecond)
			f.part("key")
		}
		askers.Wait()
	})
}
