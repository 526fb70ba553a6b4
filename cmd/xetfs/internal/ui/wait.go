package ui

import (
	"context"
	"errors"
	"time"
)

// UntilCanceled calls do and returns its error. After the end of ctx it waits at most
// lastWait for do. The kernel may never answer a read of a dead network file system.
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

// lastWait is the limit for the work that an interrupted command waits for.
const lastWait = 5 * time.Second

// CanceledContext returns a context that has ended, for a Close that must store nothing more.
func CanceledContext() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// IsCanceled reports whether err follows from the end of ctx and not from the data.
func IsCanceled(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded))
}
