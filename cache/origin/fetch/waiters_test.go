package fetch

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/xetfs/xetfs/cache/origin"
)

// admitted returns the order in which callers with some contexts are admitted, one at a time.
func admitted(t *testing.T, contexts ...context.Context) (order []int) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(1)
		if err := l.acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for i, ctx := range contexts {
			all.Go(func() {
				if err := l.acquire(ctx); err != nil {
					t.Error(err)
				}
				order = append(order, i)
				l.release(1)
			})
			synctest.Wait() // the callers arrive in order
		}
		l.release(1)
		all.Wait()
	})
	return order
}

// Readahead waits behind the requests of readers, until a reader awaits it.
func TestReadaheadYields(t *testing.T) {
	var isAwaited atomic.Bool
	reader := context.Background()
	readahead := origin.WithReadahead(reader, func() bool { return false })
	joined := origin.WithReadahead(reader, isAwaited.Load)
	isAwaited.Store(true)
	tests := []struct {
		name    string
		callers []context.Context
		want    []int
	}{
		{"readers", []context.Context{reader, reader, reader}, []int{0, 1, 2}},
		{"readahead", []context.Context{readahead, readahead}, []int{0, 1}},
		{"both", []context.Context{readahead, readahead, reader, readahead, reader}, []int{2, 4, 0, 1, 3}},
		{"a reader has joined", []context.Context{readahead, joined, reader}, []int{1, 2, 0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := admitted(t, tt.callers...); !slices.Equal(got, tt.want) {
				t.Errorf("admitted in the order %v, want %v", got, tt.want)
			}
		})
	}
	many := slices.Repeat([]context.Context{reader}, 2*maxPassed)
	if got := admitted(t, append([]context.Context{readahead}, many...)...); slices.Index(got, 0) != maxPassed {
		t.Errorf("readahead is admitted after %d readers, want %d", slices.Index(got, 0), maxPassed)
	}
}

// Readahead that only waited for earlier readahead still waits behind a reader.
func TestReadaheadWithoutReaders(t *testing.T) {
	reader := context.Background()
	readahead := origin.WithReadahead(reader, func() bool { return false })
	l := &limiter{}
	for range 3 * maxPassed {
		l.waiting = append(l.waiting, &waiter{ctx: readahead})
	}
	for range 2 * maxPassed {
		i := l.nextLocked()
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
	l.waiting = append(l.waiting, &waiter{ctx: reader})
	if i := l.nextLocked(); i != len(l.waiting)-1 {
		t.Errorf("caller %d of %d is admitted, want the last one", i, len(l.waiting))
	}
}
