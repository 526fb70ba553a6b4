package ui

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// ForEach calls do for each of items, in order, with count goroutines, and returns when all
// calls have returned. After the end of ctx it starts no further call.
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
