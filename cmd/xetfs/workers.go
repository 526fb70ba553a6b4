package main

import (
	"context"
	"sync"
)

// byMany calls do for each of items, in their order, by so many goroutines at a time, and
// returns when all are done. After the end of ctx it begins with no more of them.
func byMany[T any](ctx context.Context, count int, items []T, do func(context.Context, T)) {
	work := make(chan T)
	var workers sync.WaitGroup
	for range count {
		workers.Go(func() {
			for item := range work {
				do(ctx, item)
			}
		})
	}
	for _, item := range items {
		if ctx.Err() != nil {
			break
		}
		work <- item
	}
	close(work)
	workers.Wait()
}
