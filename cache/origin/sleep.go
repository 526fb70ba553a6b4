package origin

import (
	"context"
	"time"
)

// Sleep returns after d, or with the error of ctx when it ends.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// RefusalPause returns the pause after a server has refused a token, by the one before. Pauses double from
// 1 s to 64 s.
func RefusalPause(before time.Duration) time.Duration {
	return min(max(2*before, time.Second), 64*time.Second)
}
