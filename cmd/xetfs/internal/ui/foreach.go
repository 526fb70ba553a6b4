package ui

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// ForEach calls do for each of items, in their order, by so many goroutines at a time, and
// returns when all are done. After the end of ctx it begins with no more of them.
func ForEach[T any](ctx context.Context, count int, items []T, do func(context.Context, T)) {
	var group errgroup.Group
	group.SetLimit(count)
	for _, item := range items {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error {
			do(ctx, item)
			return nil
		})
	}
	_ = group.Wait() // none has an error
}
