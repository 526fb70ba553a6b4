package wrap_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/cache/origin/wrap"
	"github.com/xetfs/xetfs/codec"
)

// Up to the limit, callers read chunks at once. The others wait or give up.
func TestLimit(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{})
	f := b.Add(origintest.Text(1, 9000), 1000)
	store := b.Store()
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int64
		slow := origintest.Watch(store)
		slow.Before = func(ctx context.Context, c origintest.Call) error {
			if c.Op != "ReadAt" {
				return nil
			}
			n := now.Add(1)
			defer now.Add(-1)
			for was := most.Load(); n > was && !most.CompareAndSwap(was, n); was = most.Load() {
			}
			select {
			case <-time.After(time.Second):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		src := wrap.Limit(objects.New(slow, objects.Options{}), 2)
		if _, err := src.Hashed(t.Context(), b.Xorbs[0].Hash(), codec.ChunkRange{End: 1}); err != nil {
			t.Fatal(err)
		}
		most.Store(0)
		var callers sync.WaitGroup
		start := time.Now()
		for range 30 {
			callers.Go(func() {
				if _, err := src.Chunks(t.Context(), b.Xorbs[0].Hash(), one, origin.ReadOptions{}); err != nil {
					t.Error(err)
				}
			})
		}
		callers.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			time.Sleep(time.Millisecond) // behind the others
			if _, err := src.Chunks(ctx, b.Xorbs[0].Hash(), one, origin.ReadOptions{}); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Chunks of a caller that leaves = %v", err)
			}
		})
		callers.Go(func() { // opening a file passes by
			time.Sleep(time.Millisecond)
			before := time.Now()
			if _, err := src.FileInfo(t.Context(), f.ID()); err != nil {
				t.Error(err)
			}
			if took := time.Since(before); took > 7*time.Second { // its own requests
				t.Errorf("FileInfo waited %v", took)
			}
		})
		callers.Wait()
		if took := time.Since(start); took < 15*time.Second {
			t.Errorf("30 requests, 2 at a time, took %v", took)
		}
		if n := most.Load(); n > 2+3 { // FileInfo also reads pieces of a shard
			t.Errorf("%d at a time", n)
		}
	})
}
