package wrap_test

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/wrap"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
)

// A slowStore answers as a test says.
type slowStore struct {
	origin.Store
	get    func(ctx context.Context) error
	stream func(ctx context.Context, p []byte, came func(n int)) error
}

func (s slowStore) Get(ctx context.Context, _ names.Key, _ origin.Tag) ([]byte, origin.Tag, error) {
	return nil, "", s.get(ctx)
}

func (s slowStore) ReadAtProgress(ctx context.Context, _ names.Key, p []byte, _ int64, came func(n int)) error {
	return s.stream(ctx, p, came)
}

func (s slowStore) List(ctx context.Context, _ string, _ names.Key) iter.Seq2[origin.Item, error] {
	return func(yield func(origin.Item, error) bool) {
		for range 3 {
			if err := s.get(ctx); !yield(origin.Item{}, err) || err != nil {
				return
			}
		}
	}
}

// silent waits for an answer that does not come.
func silent(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// dripping begins an answer of a size that never ends.
func dripping(size int64) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		origin.Answered(ctx, size)
		return silent(ctx)
	}
}

func busy(after time.Duration) func(ctx context.Context) error {
	return func(context.Context) error { return &origin.HintError{Err: origin.ErrUnavailable, After: after} }
}

var testLimits = wrap.Limits{First: 30 * time.Second, Read: time.Minute}

// O34: a remote store that does not answer, or not to the end, ends each call within its limit.
func TestO34_Limits(t *testing.T) {
	tests := []struct {
		name     string
		answered bool // before
		get      func(ctx context.Context) error
		from, to time.Duration
	}{
		{"no answer", false, silent, 30 * time.Second, 30 * time.Second},
		{"no answer any more", true, silent, time.Minute, time.Minute},
		{"a document that drips, of unknown length", false, dripping(-1), time.Minute, time.Minute},
		{"a short document that drips", true, dripping(1000), time.Minute, time.Minute},
		{"a long document", true, dripping(100_000_000), 810 * time.Second, 810 * time.Second},
		{"a length that makes no sense", true, dripping(1 << 62), time.Minute, 3 * time.Hour},
		{"Retry-After of three years", false, busy(99_999_999 * time.Second), 0, 0},
		{"Retry-After of three years, later", true, busy(99_999_999 * time.Second), 0, time.Minute},
		{"Retry-After of ten seconds", false, busy(10 * time.Second), 0, 30 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &slowStore{}
				store := wrap.RetryStore(s, wrap.RetryPolicy{Limits: testLimits})
				if tt.answered {
					s.get = func(ctx context.Context) error { origin.Answered(ctx, 0); return nil }
					if _, _, err := store.Get(t.Context(), "k", ""); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Hour)
				}
				s.get = tt.get
				start := time.Now()
				_, _, err := store.Get(t.Context(), "k", "")
				if took := time.Since(start); !errors.Is(err, origin.ErrUnavailable) || took < tt.from || took > tt.to {
					t.Errorf("Get = %v after %v, want %v to %v", err, took, tt.from, tt.to)
				}
			})
		})
	}
}

// O34: all calls before the first answer have one limit together.
func TestO34_FirstIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := wrap.RetryStore(slowStore{get: silent}, wrap.RetryPolicy{Limits: testLimits})
		start := time.Now()
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			if _, _, err := store.Get(ctx, "k", ""); err == nil {
				t.Error("an answer from nowhere")
			}
			cancel()
		}
		if took := time.Since(start); took != 30*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// O34: the caller's own end is no error of the store.
func TestO34_CallerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := wrap.RetryStore(slowStore{get: silent}, wrap.RetryPolicy{Limits: testLimits})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, err := store.Get(ctx, "k", ""); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, origin.ErrUnavailable) {
			t.Errorf("Get = %v", err)
		}
	})
}

// O34: a read of data ends at its limit unless the store as a whole delivers 0.5 Mbit/s. N07:
// no read is cut off while bytes arrive.
func TestO34_Data(t *testing.T) {
	for rate, ends := range map[int]bool{1 << 10: true, 125_000: false} {
		synctest.Test(t, func(t *testing.T) {
			store := wrap.RetryStore(slowStore{stream: func(ctx context.Context, p []byte, came func(int)) error {
				origin.Answered(ctx, -1)
				for n := 0; n < len(p); n += rate {
					came(n)
					select {
					case <-time.After(time.Second):
					case <-ctx.Done():
						return ctx.Err()
					}
				}
				return nil
			}}, wrap.RetryPolicy{Limits: testLimits})
			start := time.Now()
			err := store.ReadAt(t.Context(), names.XorbKey(codec.Hash{}), make([]byte, 64<<20), 0)
			if ends != errors.Is(err, origin.ErrUnavailable) || ends && time.Since(start) != time.Minute || !ends && err != nil {
				t.Errorf("%d bytes per second: %v after %v", rate, err, time.Since(start))
			}
		})
	}
}

// O34: a listing ends within the limit, which the time of the caller does not use up.
func TestO34_Listing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		store := wrap.RetryStore(slowStore{get: func(ctx context.Context) error {
			if calls++; calls == 3 {
				return silent(ctx)
			}
			origin.Answered(ctx, 0)
			return nil
		}}, wrap.RetryPolicy{Limits: testLimits})
		items := 0
		var last error
		for _, err := range store.List(t.Context(), "", "") {
			if last = err; err == nil {
				items++
				time.Sleep(time.Hour)
			}
		}
		if items != 2 || !errors.Is(last, origin.ErrUnavailable) {
			t.Errorf("%d items, %v", items, last)
		}
	})
}

// Waiting is called once, when the first answer is late, and not for what comes in time.
func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told atomic.Int64
		limits := testLimits
		limits.Waiting = func() { told.Add(1) }
		delay := time.Second / 2
		store := wrap.RetryStore(slowStore{get: func(ctx context.Context) error {
			time.Sleep(delay)
			origin.Answered(ctx, 0)
			return nil
		}}, wrap.RetryPolicy{Limits: limits})
		for i, want := range []int64{0, 1, 1} {
			if i == 1 {
				delay = 2 * time.Second
			}
			if _, _, err := store.Get(t.Context(), "k", ""); err != nil || told.Load() != want {
				t.Errorf("call %d: %v, told %d times, want %d", i, err, told.Load(), want)
			}
		}
	})
}

// Without limits a store may take as long as it likes.
func TestNoLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := wrap.RetryStore(slowStore{stream: func(_ context.Context, p []byte, _ func(int)) error {
			time.Sleep(24 * time.Hour)
			copy(p, "abc")
			return nil
		}}, wrap.RetryPolicy{})
		p := make([]byte, 3)
		if err := store.ReadAt(t.Context(), "k", p, 0); err != nil || !bytes.Equal(p, []byte("abc")) {
			t.Errorf("ReadAt = %q, %v", p, err)
		}
	})
}
