package wrap_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"log/slog"
	"strings"
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
	"github.com/xetfs/xetfs/codec/names"
)

func TestRetryStore(t *testing.T) {
	origintest.TestStore(t, func(t *testing.T) origin.Store {
		s := origintest.Watch(readOnly{filled(t)})
		var calls atomic.Int64
		s.Before = func(context.Context, origintest.Call) error {
			if calls.Add(1)%3 == 2 {
				return origin.ErrUnavailable
			}
			return nil
		}
		return wrap.RetryStore(s, wrap.RetryPolicy{Base: time.Millisecond})
	})
}

// readOnly hides that a store can be written to.
type readOnly struct{ origin.Store }

func filled(t *testing.T) origin.Store {
	s := origintest.Memory()
	for k, value := range origintest.Samples(t) {
		if err := origintest.Replace(s, k, value); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// An O number is that of the catalogue of faults.
func TestRetry(t *testing.T) {
	unavailable := func(after time.Duration, tries int) error {
		return &origin.HintError{Err: origin.ErrUnavailable, After: after, Tries: tries}
	}
	tests := []struct {
		name     string
		err      error         // of each try
		good     int           // the try that is good; 0: none
		limit    time.Duration // of the reader; 0: none
		tries    int
		from, to time.Duration // how long it takes
		want     error
	}{
		{"at once", nil, 1, 0, 1, 0, 0, nil},
		{"O09 five failures", origin.ErrUnavailable, 6, 0, 6, 0, 6200 * time.Millisecond, nil},
		{"O09 always", origin.ErrUnavailable, 0, 0, 6, 0, 6200 * time.Millisecond, origin.ErrUnavailable},
		{"O01 not there", origin.ErrNotFound, 0, 0, 1, 0, 0, origin.ErrNotFound},
		{"damaged", codec.ErrCorrupt, 0, 0, 1, 0, 0, codec.ErrCorrupt},
		{"not allowed", iofs.ErrPermission, 0, 0, 1, 0, 0, iofs.ErrPermission},
		{"unchanged", origin.ErrUnchanged, 0, 0, 1, 0, 0, origin.ErrUnchanged},
		{"O06 no use in asking", unavailable(0, 1), 0, 0, 1, 0, 0, origin.ErrUnavailable},
		{"O11 once more", unavailable(0, 2), 0, 0, 2, 0, 200 * time.Millisecond, origin.ErrUnavailable},
		{"O08 after a second", unavailable(time.Second, 0), 2, 0, 2, time.Second, time.Second, nil},
		{"O08 after a day", unavailable(86_400*time.Second, 0), 2, 0, 2, 30 * time.Second, 30 * time.Second, nil},
		{"O08 after the reader has gone", unavailable(10*time.Second, 0), 2, 5 * time.Second, 1, 0, 0, origin.ErrUnavailable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := origintest.Watch(origintest.Memory())
				tries := 0
				s.Before = func(context.Context, origintest.Call) error {
					if tries++; tries == tt.good {
						return nil
					}
					return fmt.Errorf("try %d: %w", tries, tt.err)
				}
				ctx := t.Context()
				if tt.limit > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tt.limit)
					defer cancel()
				}
				if tt.err == nil {
					s.Before = func(context.Context, origintest.Call) error { tries++; return nil }
				}
				start := time.Now()
				_, err := wrap.RetryStore(s, wrap.RetryPolicy{}).Size(ctx, names.XorbKey(codec.Hash{}))
				if tt.good > 0 && errors.Is(err, origin.ErrNotFound) {
					err = nil // the store is empty: that is its answer
				}
				if !errors.Is(err, tt.want) || tries != tt.tries {
					t.Errorf("%d tries: %v, want %d: %v", tries, err, tt.tries, tt.want)
				}
				if took := time.Since(start); took < tt.from || took > tt.to {
					t.Errorf("it took %v, want %v to %v", took, tt.from, tt.to)
				}
			})
		})
	}
}

// A caller that gives up does not wait for the end of a pause.
func TestRetryLeaves(t *testing.T) {
	for _, cause := range []error{context.Canceled, context.DeadlineExceeded} {
		synctest.Test(t, func(t *testing.T) {
			s := origintest.Watch(origintest.Memory())
			s.Before = func(context.Context, origintest.Call) error {
				return &origin.HintError{Err: origin.ErrUnavailable, After: 20 * time.Second}
			}
			ctx, cancel := context.WithCancel(t.Context())
			if cause == context.DeadlineExceeded {
				ctx, cancel = context.WithTimeout(t.Context(), 30*time.Second)
			}
			defer cancel()
			time.AfterFunc(25*time.Second, func() {
				if cause == context.Canceled {
					cancel()
				}
			})
			start := time.Now()
			_, err := wrap.RetryStore(s, wrap.RetryPolicy{}).Size(ctx, names.XorbKey(codec.Hash{}))
			if cause == context.Canceled && (!errors.Is(err, cause) || time.Since(start) != 25*time.Second) {
				t.Errorf("cancelled: %v after %v", err, time.Since(start))
			}
			// A pause that would end behind the deadline is useless.
			if cause == context.DeadlineExceeded && (!errors.Is(err, origin.ErrUnavailable) || time.Since(start) != 20*time.Second) {
				t.Errorf("out of time: %v after %v", err, time.Since(start))
			}
		})
	}
}

// A store that does not answer is logged in one line for many callers.
func TestRetryTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := origintest.Watch(origintest.Memory())
		s.Before = func(context.Context, origintest.Call) error { return origin.ErrUnavailable }
		r := wrap.RetryStore(s, wrap.RetryPolicy{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		var askers sync.WaitGroup
		for range 1000 {
			askers.Go(func() { r.Size(t.Context(), "tdata") })
		}
		askers.Wait()
		if n := strings.Count(log.String(), "event=origin_retry"); n != 1 {
			t.Errorf("%d lines, want 1:\n%.500s", n, log.String())
		}
	})
}

// A streamed read continues at the byte where it was cut off.
func TestRetryContinues(t *testing.T) {
	value := origintest.Text(1, 1000)
	s := &cutting{value: value}
	p := make([]byte, 900)
	told := 0
	r := wrap.RetryStore(s, wrap.RetryPolicy{Base: time.Millisecond}).(origin.ProgressReader)
	err := r.ReadAtProgress(t.Context(), "k", p, 50, func(n int) {
		if n <= told {
			t.Errorf("told %d after %d", n, told)
		}
		told = n
	})
	if err != nil || !bytes.Equal(p, value[50:950]) {
		t.Errorf("ReadAtProgress: %v", err)
	}
	if s.bytes != 900 || s.calls != 4 {
		t.Errorf("%d bytes in %d calls, want each once", s.bytes, s.calls)
	}
}

// A cutting store gives 250 bytes at a time.
type cutting struct {
	origin.Store
	value        []byte
	calls, bytes int
}

func (s *cutting) ReadAtProgress(_ context.Context, _ names.Key, p []byte, off int64, came func(int)) error {
	s.calls++
	n := copy(p[:min(250, len(p))], s.value[off:])
	s.bytes += n
	if n == len(p) {
		return nil
	}
	came(n)
	return origin.ErrUnavailable
}

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
		var askers sync.WaitGroup
		start := time.Now()
		for range 30 {
			askers.Go(func() {
				if _, err := src.Chunks(t.Context(), b.Xorbs[0].Hash(), one, origin.ReadOptions{}); err != nil {
					t.Error(err)
				}
			})
		}
		askers.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			time.Sleep(time.Millisecond) // behind the others
			if _, err := src.Chunks(ctx, b.Xorbs[0].Hash(), one, origin.ReadOptions{}); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Chunks of who leaves = %v", err)
			}
		})
		askers.Go(func() { // opening a file passes by
			time.Sleep(time.Millisecond)
			before := time.Now()
			if _, err := src.FileInfo(t.Context(), f.ID()); err != nil {
				t.Error(err)
			}
			if took := time.Since(before); took > 7*time.Second { // its own requests
				t.Errorf("FileInfo waited %v", took)
			}
		})
		askers.Wait()
		if took := time.Since(start); took < 15*time.Second {
			t.Errorf("30 requests, 2 at a time, took %v", took)
		}
		if n := most.Load(); n > 2+3 { // FileInfo asks for pieces of a shard, beside
			t.Errorf("%d at a time", n)
		}
	})
}

// An answer that breaks off again and again is asked for as long as it comes forward.
func TestRetryOfPieces(t *testing.T) {
	for _, tt := range []struct {
		name string
		each int // bytes of an answer
		want error
	}{
		{"far", 256 << 10, nil},
		{"hardly", 1000, origin.ErrUnavailable},
		{"not at all", 0, origin.ErrUnavailable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, k := origintest.Memory(), names.XorbKey(codec.Hash{1})
				content := origintest.Random(1, 5<<20)
				if err := origintest.Replace(m, k, content); err != nil {
					t.Fatal(err)
				}
				got := make([]byte, len(content))
				err := wrap.RetryStore(breaking{m, tt.each}, wrap.RetryPolicy{}).ReadAt(t.Context(), k, got, 0)
				if !errors.Is(err, tt.want) || err == nil && !bytes.Equal(got, content) {
					t.Errorf("ReadAt: %v, want %v", err, tt.want)
				}
			})
		})
	}
}

// breaking breaks every answer off.
type breaking struct {
	origin.Store
	each int
}

func (s breaking) ReadAtProgress(ctx context.Context, k names.Key, p []byte, off int64, came func(int)) error {
	if len(p) <= s.each {
		return s.ReadAt(ctx, k, p, off)
	}
	if err := s.ReadAt(ctx, k, p[:s.each], off); err != nil {
		return err
	}
	came(s.each)
	return fmt.Errorf("it broke: %w", origin.ErrUnavailable)
}
