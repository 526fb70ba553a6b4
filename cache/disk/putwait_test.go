package disk

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestPutRunWait checks that a waiting put leaves room to others. It ends with room, with a
// suspended disk, or with ctx. An accepted run is released once, a refused one never.
func TestPutRunWait(t *testing.T) {
	tests := []struct {
		name string
		end  func(t *testing.T, b *fixture, release, cancel func())
		want error
	}{
		{"room", func(_ *testing.T, _ *fixture, release, _ func()) { release() }, nil},
		{"cancelled", func(_ *testing.T, _ *fixture, _, cancel func()) { cancel() }, context.Canceled},
		{"suspended", func(_ *testing.T, b *fixture, _, _ func()) {
			for range maxFailures {
				b.failed("reading", errTimeout)
			}
		}, ErrSuspended},
		{"closed", func(t *testing.T, b *fixture, _, _ func()) {
			if err := b.Close(); !errors.Is(err, errTimeout) {
				t.Errorf("Close = %v, want %v", err, errTimeout)
			}
		}, ErrClosed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const lenders = 5
				size := int64(len(packedOf(0, chunks(0, 20), chunkSize)))
				d := newSimDisk()
				b := open(t, d, func(o *Options) { o.QueueBytes = 3 * size })
				release := d.hang(t)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var ended, freed atomic.Int64
				for n := range 1 + lenders {
					go func() {
						defer ended.Add(1)
						err := b.PutRunWait(ctx, hashOf(n), runOf(t, 0, chunks(0, 20), chunkSize), func() { freed.Add(1) })
						if n > 0 && !errors.Is(err, tt.want) || n == 0 && err != nil {
							t.Errorf("run %d: %v, want %v", n, err, tt.want)
						}
						if n > 0 && err != nil && ctx.Err() != nil && !errors.Is(err, ErrBusy) {
							t.Errorf("run %d: %v, want %v, too", n, err, ErrBusy)
						}
					}()
					synctest.Wait()
				}
				if n := ended.Load(); n != 1 {
					t.Fatalf("%d runs are taken, want the one that the queue has room for", n)
				}
				if err := b.PutPage(hashOf(9), pageOf(9)); err != nil {
					t.Errorf("who does not wait finds no room: %v", err)
				}
				tt.end(t, b, release, cancel)
				synctest.Wait()
				if n := ended.Load(); n != 1+lenders {
					t.Errorf("%d runs are taken or refused, want all of %d", n, 1+lenders)
				}
				release()
				synctest.Wait()
				want := int64(1)
				if tt.want == nil {
					want += lenders
				}
				if n := freed.Load(); n != want {
					t.Errorf("%d runs are given back, want %d", n, want)
				}
			})
		})
	}
}

// TestFlushEnds checks that Flush ends with its ctx.
func TestFlushEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newSimDisk()
		b := open(t, d)
		d.hang(t)
		if err := b.putRun(hashOf(1), runOf(t, 1, chunks(0, 3), chunkSize)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := b.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Flush = %v, want %v", err, context.DeadlineExceeded)
		}
	})
}

// TestPagesHaveRoom checks that a queue full of chunks takes pages, up to a bound.
func TestPagesHaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newSimDisk()
		b := open(t, d, func(o *Options) { o.QueueBytes = 64 << 10 })
		release := d.hang(t)
		var err error
		for n := 0; err == nil; n++ {
			err = b.PutRunNoCopy(hashOf(n), runOf(t, 0, chunks(0, 20), chunkSize), func() {})
		}
		if !errors.Is(err, ErrBusy) {
			t.Fatalf("a full queue: %v, want %v", err, ErrBusy)
		}
		pages := 0
		for err = nil; err == nil; pages++ {
			err = b.PutPage(hashOf(1000+pages), make([]byte, 16<<10))
		}
		if n := pages - 1; !errors.Is(err, ErrBusy) || n < 254 || n > 262 {
			t.Errorf("%d pages have room, then %v", n, err)
		}
		release()
	})
}
