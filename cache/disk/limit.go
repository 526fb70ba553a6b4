package disk

import (
	"errors"
	"fmt"
	"time"
)

var (
	errTimeout = errors.New("the disk did not answer in time")
	errBacklog = fmt.Errorf("%w: too many readers wait for it", errTimeout) // nothing was started
)

// maxStuck is the largest number of readers that may hang in the kernel. Further callers wait
// for a free slot, at most for the limit.
const maxStuck = 64

// A limiter bounds the time that a reader waits for the disk.
type limiter struct {
	limit time.Duration
	slots chan struct{}
}

func (l *limiter) init(limit time.Duration) {
	l.limit, l.slots = limit, make(chan struct{}, maxStuck)
}

// do returns the result of f, or errTimeout if f has not returned in time. f then continues and
// owns everything that it uses. The error errBacklog is an errTimeout of a call that was not
// started.
func (l *limiter) do(f func() error) error {
	timer := time.NewTimer(l.limit)
	defer timer.Stop()
	select {
	case l.slots <- struct{}{}:
	case <-timer.C:
		return errBacklog
	}
	done := make(chan error, 1)
	go func() {
		done <- f()
		<-l.slots
	}()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return errTimeout
	}
}

// maxAhead is the largest number of calls of WillRead that use the disk. Further ones have no effect.
const maxAhead = 16

// A background runs calls that no caller waits for, each in a goroutine with a slot.
type background chan struct{}

// try runs f, unless all slots are taken.
func (b background) try(f func()) {
	select {
	case b <- struct{}{}:
		go func() {
			f()
			<-b
		}()
	default:
	}
}

// close takes all slots, as calls end. No other call runs afterwards.
func (b background) close(limit time.Duration) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for range cap(b) {
		select {
		case b <- struct{}{}:
		case <-timer.C:
			return errTimeout
		}
	}
	return nil
}

// within waits until done is closed. The error says that it took longer than limit.
func within(limit time.Duration, done <-chan struct{}) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-timer.C:
		return errTimeout
	}
}
