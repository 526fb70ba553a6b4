package flight

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Group[string, int]
		var calls atomic.Int64
		fn := func(context.Context) (int, error) {
			calls.Add(1)
			time.Sleep(time.Second)
			return 42, nil
		}
		var callers sync.WaitGroup
		for range 100 {
			callers.Go(func() {
				if v, err := g.Do(t.Context(), "key", fn); v != 42 || err != nil {
					t.Errorf("Do = %d, %v", v, err)
				}
			})
		}
		callers.Wait()
		if n := calls.Load(); n != 1 {
			t.Errorf("%d calls for 100 callers, want 1", n)
		}
		g.Do(t.Context(), "key", fn)
		if n := calls.Load(); n != 2 {
			t.Errorf("%d calls, want 2: a result is not stored", n)
		}
	})
}

// One caller gives up, the other two stay.
func TestOneCallerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Group[int, string]
		fn := func(ctx context.Context) (string, error) {
			time.Sleep(time.Minute)
			return "there", ctx.Err()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var callers sync.WaitGroup
		callers.Go(func() {
			start := time.Now()
			if _, err := g.Do(ctx, 1, fn); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
				t.Errorf("the caller that gives up has %v after %v", err, time.Since(start))
			}
		})
		for range 2 {
			callers.Go(func() {
				if v, err := g.Do(t.Context(), 1, fn); v != "there" || err != nil {
					t.Errorf("a caller that stays has %q, %v", v, err)
				}
			})
		}
		callers.Wait()
	})
}

// All callers give up: the call is canceled, and the next caller starts a new one.
func TestAllCallersLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Group[int, string]
		var canceled time.Time
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		g.Do(ctx, 1, func(ctx context.Context) (string, error) {
			<-ctx.Done()
			canceled = time.Now()
			time.Sleep(time.Hour) // it ends late
			return "", ctx.Err()
		})
		synctest.Wait()
		if canceled.IsZero() {
			t.Error("the call continues without callers")
		}
		if v, err := g.Do(t.Context(), 1, func(context.Context) (string, error) { return "new", nil }); v != "new" || err != nil {
			t.Errorf("Do = %q, %v", v, err)
		}
		start := time.Now()
		if g.Wait(); time.Since(start) != time.Hour {
			t.Errorf("Wait returned after %v, want an hour", time.Since(start))
		}
	})
}

func TestPanic(t *testing.T) {
	var g Group[int, string]
	_, err := g.Do(t.Context(), 1, func(context.Context) (string, error) { panic("oh") })
	if err == nil || err.Error() != "panic: oh" {
		t.Errorf("Do = %v, want the panic as an error", err)
	}
	if len(g.calls) != 0 {
		t.Errorf("%d calls are left", len(g.calls))
	}
}

func TestCanceledBefore(t *testing.T) {
	var g Group[int, string]
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := g.Do(ctx, 1, func(context.Context) (string, error) {
		t.Error("a canceled caller started a call")
		return "", nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Do = %v, want %v", err, context.Canceled)
	}
}

// A caller after Forget does not wait for the call before it, and no result is lost.
func TestForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Group[string, int]
		var calls atomic.Int64
		fn := func(context.Context) (int, error) {
			n := calls.Add(1)
			time.Sleep(time.Second)
			return int(n), nil
		}
		var callers sync.WaitGroup
		for want := 1; want <= 2; want++ {
			for range 3 {
				callers.Go(func() {
					if v, err := g.Do(t.Context(), "key", fn); v != want || err != nil {
						t.Errorf("Do = %d, %v, want %d", v, err, want)
					}
				})
			}
			time.Sleep(time.Millisecond)
			g.Forget("key")
		}
		callers.Wait()
	})
}

// A detached call continues without callers, and a later caller gets its result.
func TestDetached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := Group[int, string]{Detached: func(key int) bool { return key == 1 }}
		for key, want := range map[int]string{1: "first", 2: "second"} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := g.Do(ctx, key, func(ctx context.Context) (string, error) {
				select {
				case <-time.After(time.Minute):
					return "first", nil
				case <-ctx.Done():
					return "", ctx.Err()
				}
			})
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Do = %v, want %v", err, context.DeadlineExceeded)
			}
			v, err := g.Do(t.Context(), key, func(context.Context) (string, error) { return "second", nil })
			if v != want || err != nil {
				t.Errorf("key %d: Do = %q, %v, want %q", key, v, err, want)
			}
		}
	})
}
