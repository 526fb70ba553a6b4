package fetch_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/fetch"
)

var testLimits = fetch.Limits{First: 30 * time.Second, Read: time.Minute}

// dripping is an answer of a length that arrives at a rate just above silence.
func dripping(length string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if length != "" {
			w.Header().Set("Content-Length", length)
		}
		w.WriteHeader(http.StatusOK)
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 1100)); err != nil {
				return
			}
			wait(r, time.Second)
		}
	}
}

// wait pauses an answer until the request ends.
func wait(r *http.Request, pause time.Duration) {
	select {
	case <-time.After(pause):
	case <-r.Context().Done():
	}
}

// O34: a server that does not answer, or not to the end, ends each call within its limit.
func TestO34_Limits(t *testing.T) {
	tests := []struct {
		name     string
		answered bool // before
		answer   http.HandlerFunc
		from, to time.Duration
	}{
		{"no answer", false, silent, 30 * time.Second, 30 * time.Second},
		{"no answer any more", true, silent, time.Minute, time.Minute},
		{"a document that drips, of unknown length", false, dripping(""), time.Minute, time.Minute},
		{"a short document that drips", true, dripping("100000"), time.Minute, time.Minute},
		{"a long document", true, dripping("100000000"), 810 * time.Second, 810 * time.Second},
		{"Retry-After of three years", false, status(503, "Retry-After", "99999999"), 0, 0},
		{"Retry-After of three years, later", true, status(503, "Retry-After", "99999999"), 0, time.Minute},
		{"Retry-After of ten seconds", false, status(503, "Retry-After", "10"), 0, 30 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				answer := status(200)
				c := through(t, func(w http.ResponseWriter, r *http.Request) { answer(w, r) }, fetch.Options{Limits: testLimits})
				if tt.answered {
					if _, _, err := c.Get(t.Context(), object, 100); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Hour)
				}
				answer = tt.answer
				start := time.Now()
				_, _, err := c.Get(t.Context(), object, 1<<30)
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
		c := through(t, silent, fetch.Options{Limits: testLimits})
		start := time.Now()
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			if _, _, err := c.Get(ctx, object, 100); err == nil {
				t.Error("Get succeeds without an answer")
			}
			cancel()
		}
		if took := time.Since(start); took != 30*time.Second {
			t.Errorf("the calls took %v", took)
		}
	})
}

// O34: a server that is down at first is used when it is up, also after the limit of the first calls.
func TestO34_UpAfterFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := status(503)
		c := through(t, func(w http.ResponseWriter, r *http.Request) { answer(w, r) }, fetch.Options{Limits: testLimits})
		if _, _, err := c.Get(t.Context(), object, 100); !errors.Is(err, origin.ErrUnavailable) {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		answer = status(200)
		if _, _, err := c.Get(t.Context(), object, 100); err != nil {
			t.Error(err)
		}
	})
}

// O34: the end of the caller's context is no error of the server.
func TestO34_CallerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := through(t, silent, fetch.Options{Limits: testLimits})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, err := c.Get(ctx, object, 100); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, origin.ErrUnavailable) {
			t.Errorf("Get = %v", err)
		}
	})
}

// O34: a read of data ends at its limit unless the server as a whole delivers 0.5 Mbit/s. N07:
// no read is cut off while bytes arrive.
func TestO34_Data(t *testing.T) {
	for rate, ends := range map[int]bool{2 << 10: true, 125_000: false} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := through(t, func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Range", fmt.Sprintf("bytes 0-%d/%d", 64<<20-1, 64<<20))
					w.WriteHeader(http.StatusPartialContent)
					for n := 0; n < 64<<20; n += rate {
						if _, err := w.Write(make([]byte, min(rate, 64<<20-n))); err != nil {
							return
						}
						wait(r, time.Second)
					}
				}, fetch.Options{Limits: testLimits})
				start := time.Now()
				err := c.ReadAt(t.Context(), object, make([]byte, 64<<20), 0, ignore)
				if ends != errors.Is(err, origin.ErrUnavailable) || ends && time.Since(start) != time.Minute || !ends && err != nil {
					t.Errorf("%d bytes per second: %v after %v", rate, err, time.Since(start))
				}
			})
		})
	}
}

// Waiting is called once, when the first answer is late, and not for an answer in time.
func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		limits := testLimits
		limits.Waiting = func(string) { calls.Add(1) }
		delay := time.Second / 2
		c := through(t, func(_ http.ResponseWriter, r *http.Request) { wait(r, delay) }, fetch.Options{Limits: limits})
		for i, want := range []int64{0, 1, 1} {
			if i == 1 {
				delay = 2 * time.Second
			}
			if _, _, err := c.Get(t.Context(), object, 100); err != nil || calls.Load() != want {
				t.Errorf("call %d: %v, Waiting was called %d times, want %d", i, err, calls.Load(), want)
			}
		}
	})
}

// Without limits a server may take any time between bytes.
func TestNoLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := through(t, func(_ http.ResponseWriter, r *http.Request) { wait(r, 24*time.Hour) }, fetch.Options{Stall: 25 * time.Hour})
		if _, _, err := c.Get(t.Context(), object, 100); err != nil {
			t.Errorf("Get = %v", err)
		}
	})
}

// N03: a body that stalls after a good start ends little more than a stall limit later, and is
// continued.
func TestStallInBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		value := bytes.Repeat([]byte("value"), 200_000)
		var requests atomic.Int64
		c := through(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"1"`)
			if requests.Add(1) > 1 {
				http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(value))
				return
			}
			w.Header().Set("Content-Length", strconv.Itoa(len(value)))
			w.Header().Set("Content-Range", fmt.Sprintf("bytes 0-%d/%[2]d", len(value)-1, len(value)))
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write(value[:300_000])
			_ = http.NewResponseController(w).Flush()
			silent(w, r)
		}, fetch.Options{})
		got, start := make([]byte, len(value)), time.Now()
		if err := c.ReadAt(t.Context(), object, got, 0, func(int) {}); err != nil || !bytes.Equal(got, value) {
			t.Fatal(err)
		}
		if took := time.Since(start); took > 13*time.Second || requests.Load() != 2 {
			t.Errorf("%d requests in %v, want 2 in 13 s", requests.Load(), took)
		}
	})
}
