package flight

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Callers wait for the first end of a turn, and return its error.
func TestTurn(t *testing.T) {
	failed := errors.New("failed")
	for _, want := range []error{nil, failed} {
		synctest.Test(t, func(t *testing.T) {
			var turn Turn
			end, err := turn.Begin(t.Context())
			if end == nil || err != nil {
				t.Fatalf("no turn, %v", err)
			}
			var waiting atomic.Int64
			for range 10 {
				waiting.Add(1)
				go func() {
					if end, err := turn.Begin(t.Context()); end != nil || !errors.Is(err, want) {
						t.Errorf("another turn %t, error %v, want %v", end != nil, err, want)
					}
					waiting.Add(-1)
				}()
			}
			limited, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if end, err := turn.Begin(limited); end != nil || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("another turn %t, error %v", end != nil, err)
			}
			if n := waiting.Load(); n != 10 {
				t.Errorf("%d callers wait, want 10", n)
			}
			end(want)
			synctest.Wait()
			if n := waiting.Load(); n != 0 {
				t.Errorf("%d callers wait after the end", n)
			}
			next, _ := turn.Begin(t.Context())
			if end(failed); next == nil {
				t.Fatal("no next turn")
			}
			next(nil)
		})
	}
}
