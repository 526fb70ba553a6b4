package ingest

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/pack"
)

// Batches are returned in order and complete, and their memory is bounded.
func TestReorder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		packed := rapid.SliceOfN(rapid.SliceOfN(rapid.Bool(), 1, 4), 1, 60).Draw(rt, "packed")
		large := rapid.Int64Range(1, maxPending).Draw(rt, "memory of a batch")
		every := rapid.IntRange(1, 100).Draw(rt, "files in a shard")
		slow := rapid.Bool().Draw(rt, "slow reader")
		synctest.Test(t, func(t *testing.T) {
			a := newReorderBuffer(true)
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
				for i, f := range b.entries {
					if f.Path != fmt.Sprint(want, i) || packed[want][i] != (f.SHA256 != nil) || packed[want][i] == f.ID.Shard.IsZero() {
						t.Errorf("entry %d of batch %d: %+v", i, want, f.Entry)
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

// pushAll pushes batches. Packed files get their shard when their number reaches every.
func pushAll(t *testing.T, a *reorderBuffer, packed [][]bool, large int64, every int) {
	var waiting int
	flush := func(context.Context) error {
		for ; waiting > 0; waiting-- {
			a.done(pack.File{ID: codec.FileID{Shard: codec.Hash{1}}, SHA256: [32]byte{1}})
		}
		return nil
	}
	for n, files := range packed {
		b := newBatch()
		b.memory = large
		for i := range files {
			b.entries = append(b.entries, Entry{})
			b.entries[i].Path = fmt.Sprint(n, i)
		}
		for i := range files {
			a.expect(b, &b.entries[i])
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

// A push that waits for room returns when the context ends.
func TestReorderCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newReorderBuffer(false)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for range 2 {
			b := newBatch()
			b.memory = maxPending
			if err := a.push(ctx, b, nil); (err != nil) != (len(a.pending) > 1) {
				t.Errorf("push = %v", err)
			}
		}
	})
}
