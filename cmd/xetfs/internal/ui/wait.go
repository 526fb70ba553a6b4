package ui

import (
	"context"
	"errors"
	"time"
)

// UntilCanceled does something, and waits only a while for it once ctx has ended: a
// read that the kernel does not answer, of a dead network file system, must not hold up
// somebody who gives up.
func UntilCanceled(ctx context.Context, do func() error) error {
	var err error // final once ended is closed
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err = do()
	}()
	select {
	case <-ended:
		return err
	case <-ctx.Done():
	}
	select {
	case <-ended:
		if err == nil {
			return nil // it was done, just before
		}
	case <-time.After(lastWait):
	}
	return ctx.Err()
}

// lastWait is how long an interrupted command waits for what it is doing.
const lastWait = 5 * time.Second

// CanceledContext returns a context that has ended: nothing more is to be stored.
func CanceledContext() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// IsCanceled says that an error comes from the user who gave up, not from the data.
func IsCanceled(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded))
}
