package main

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/pack"
)

// Whatever waits for its shard, everything comes out in order and complete, and what
// waits is bounded.
func TestAssembly(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		packed := rapid.SliceOfN(rapid.SliceOfN(rapid.Bool(), 1, 4), 1, 60).Draw(rt, "packed")
		large := rapid.Int64Range(1, maxPending).Draw(rt, "memory of a batch")
		every := rapid.IntRange(1, 100).Draw(rt, "files in a shard")
		slow := rapid.Bool().Draw(rt, "slow reader")
		synctest.Test(t, func(t *testing.T) {
			a := newAssembly(true)
			go pushAll(t, a, packed, large, every)
			want := 0
			for {
				if slow {
					time.Sleep(time.Second)
				}
				a.mu.Lock()
				if a.memory > maxPending+large && len(a.pending) > 1 {
					t.Errorf("%d bytes wait", a.memory)
				}
				a.mu.Unlock()
				b, ended := a.next()
				if ended {
					break
				}
				if b == nil {
					<-a.ready
					continue
				}
				for i, f := range b.found {
					if f.entry.Path != fmt.Sprint(want, i) || packed[want][i] != (f.entry.SHA256 != nil) || packed[want][i] == f.entry.ID.Shard.IsZero() {
						t.Errorf("entry %d of batch %d: %+v", i, want, f.entry)
					}
				}
				want++
			}
			if want != len(packed) {
				t.Errorf("%d of %d batches", want, len(packed))
			}
		})
	})
}

// pushAll pushes batches; those of their files that are packed get their shard when
// there are every of them.
func pushAll(t *testing.T, a *assembly, packed [][]bool, large int64, every int) {
	var waiting int
	flush := func(context.Context) error {
		for ; waiting > 0; waiting-- {
			a.done(pack.File{ID: codec.FileID{Shard: codec.Hash{1}}, SHA256: [32]byte{1}})
		}
		return nil
	}
	for n, files := range packed {
		b := newFoundBatch()
		b.memory = large
		for i := range files {
			b.found = append(b.found, found{})
			b.found[i].entry.Path = fmt.Sprint(n, i)
		}
		for i := range files {
			a.expect(b, &b.found[i])
			if !files[i] {
				a.forget(b)
				continue
			}
			if waiting++; waiting == every {
				_ = flush(t.Context())
			}
		}
		if err := a.push(t.Context(), b, flush); err != nil {
			t.Error(err)
		}
	}
	_ = flush(t.Context())
	a.end()
}

// Who waits for room leaves when the context ends.
func TestAssemblyCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAssembly(false)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for range 2 {
			b := newFoundBatch()
			b.memory = maxPending
			if err := a.push(ctx, b, nil); (err != nil) != (len(a.pending) > 1) {
				t.Errorf("push = %v", err)
			}
		}
	})
}

// Many ask about the same shards, and each is looked up once.
func TestReusable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var finds atomic.Int64
		r := newReusable(func(_ context.Context, h codec.Hash) (bool, error) {
			finds.Add(1)
			return h[0]%2 == 0, nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan bool)
		for i := range 100 {
			go func() {
				h := codec.Hash{byte(i % 10)}
				done <- r.has(ctx, h) == (i%2 == 0)
			}()
		}
		var answers []bool
		for len(answers) < 100 {
			select {
			case ok := <-done:
				answers = append(answers, ok)
			case ask := <-r.asks:
				if err := r.answer(ctx, ask); err != nil {
					t.Error(err)
				}
			}
		}
		if slices.Contains(answers, false) || finds.Load() != 10 {
			t.Errorf("%d look-ups, answers %v", finds.Load(), answers)
		}
		time.AfterFunc(time.Second, cancel)
		if r.has(ctx, codec.Hash{200}) {
			t.Error("nobody answered, and it was yes")
		}
	})
}
