package codectest

import "time"

// Patience is the time after which an operation counts as hung. It is many times the usual time,
// because other processes may slow down a test.
const Patience = 5 * time.Minute

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
