package fetch_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/fetch"
)

const roundTrip = 25 * time.Millisecond

// slowHeaders answers request i after delay(i).
func slowHeaders(requests *atomic.Int64, delay func(i int64) time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if wait(r, delay(requests.Add(1))); r.Context().Err() == nil {
			http.ServeContent(w, r, "", time.Time{}, strings.NewReader("value"))
		}
	}
}

// O19: one of n answers is late. A rival on another connection is faster, for at most 5 % more
// requests.
func TestO19_Hedge(t *testing.T) {
	const reads = 2000
	for _, tt := range []struct {
		late    time.Duration
		each    int64 // late requests
		rivals  bool
		percent int // of the reads end within 5 round trips
	}{
		{2 * time.Second, 50, true, 99},
		{20 * time.Second, 100, true, 99},
		{2 * time.Second, 5, false, 79},   // the usual delay is not late
		{2*roundTrip - 1, 50, false, 100}, // too early for a rival
	} {
		t.Run(fmt.Sprintf("%v of one in %d", tt.late, tt.each), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var requests atomic.Int64
				c := through(t, slowHeaders(&requests, func(i int64) time.Duration {
					if i%tt.each == 0 {
						return tt.late
					}
					return roundTrip
				}), fetch.Options{Stall: time.Minute})
				for range 100 { // learn the usual delay
					get(t.Context(), c)
				}
				before := requests.Load()
				durations := make([]time.Duration, reads)
				for i := range durations {
					took, err := get(t.Context(), c)
					if durations[i] = took; err != nil {
						t.Fatal(err)
					}
				}
				rivals := requests.Load() - before - reads
				if rivals > reads/20 || (rivals > 0) != tt.rivals {
					t.Errorf("%d rivals for %d reads", rivals, reads)
				}
				slices.Sort(durations)
				if d := durations[reads*tt.percent/100-1]; d > 5*roundTrip {
					t.Errorf("%d %% of the reads end within %v", tt.percent, d)
				}
			})
		})
	}
}

// A rival of a request that fails may succeed, and a failed rival changes nothing.
func TestHedgeFailures(t *testing.T) {
	for _, tt := range []struct {
		name          string
		first, second http.HandlerFunc
		want          error
	}{
		{"the first is lost", late(reset), late(status(200)), nil},
		{"the rival is lost", late(status(200)), reset, nil},
		{"both are lost", late(reset), reset, origin.ErrUnavailable},
		{"the rival has an error status", silent, status(404), origin.ErrNotFound},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var requests, ended atomic.Int64
				c := through(t, func(w http.ResponseWriter, r *http.Request) {
					defer ended.Add(1)
					switch requests.Add(1) {
					case 101:
						tt.first(w, r)
					case 102:
						tt.second(w, r)
					}
				}, fetch.Options{Attempts: 1})
				for range 100 {
					c.Get(t.Context(), object, 100)
				}
				_, _, err := c.Get(t.Context(), object, 100)
				if !errors.Is(err, tt.want) || requests.Load() != 102 {
					t.Errorf("Get = %v after %d requests", err, requests.Load())
				}
				synctest.Wait()
				if n := requests.Load() - ended.Load(); n != 0 {
					t.Errorf("%d requests have not ended", n)
				}
			})
		})
	}
}

// late answers after a rival has begun.
func late(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		wait(r, time.Second)
		h(w, r)
	}
}

// Requests of other packages, for example conditional writes, have no rival.
func TestHedgeNeverWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var requests atomic.Int64
		c := through(t, slowHeaders(&requests, func(i int64) time.Duration {
			if i > 100 {
				return 9 * time.Second
			}
			return roundTrip
		}), fetch.Options{})
		for range 100 {
			get(t.Context(), c)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, address, strings.NewReader("value"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.Transport().RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if n := requests.Load(); n != 101 {
			t.Errorf("%d requests, want 101", n)
		}
	})
}
