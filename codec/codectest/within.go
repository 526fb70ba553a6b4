package codectest

import "time"

// Within fails the test if do has not returned in time. A call that hangs is abandoned. Only a
// failing test waits for the limit.
func Within(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, limit time.Duration, what string, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		t.Fatalf("%s: not done within %v", what, limit)
	}
}
