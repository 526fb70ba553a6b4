package fetch_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xetfs/xetfs/cache/origin/faulty"
	"github.com/xetfs/xetfs/cache/origin/fetch"
)

// A gauge counts the requests at once.
type gauge struct{ now, most atomic.Int64 }

func (g *gauge) enter() int64 {
	n := g.now.Add(1)
	for was := g.most.Load(); n > was && !g.most.CompareAndSwap(was, n); was = g.most.Load() {
	}
	return n
}

// readAll lets readers read parts of n bytes for some time, and returns the number of parts.
func readAll(t *testing.T, c *fetch.Client, readers, n int, limit time.Duration) int64 {
	t.Helper()
	var parts atomic.Int64
	var all sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for range readers {
		all.Go(func() {
			for p := make([]byte, n); ; parts.Add(1) {
				if err := c.ReadAt(ctx, object, p, 0, ignore); ctx.Err() != nil {
					return
				} else if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	return parts.Load()
}

// O08: a bucket answers SlowDown above 16 requests at once. Readers see no error, and get at
// least 80 % of the rate of 16 requests.
func TestO08_SlowDown(t *testing.T) {
	const most, each, limit = 16, 100 * time.Millisecond, time.Minute
	for _, code := range []int{http.StatusServiceUnavailable, http.StatusTooManyRequests} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var g gauge
				content := make([]byte, 1000)
				c := through(t, func(w http.ResponseWriter, r *http.Request) {
					defer g.now.Add(-1)
					if g.enter() > most {
						w.WriteHeader(code)
						return
					}
					wait(r, each)
					http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
				}, fetch.Options{Limits: fetch.Limits{Read: time.Minute}})
				parts := readAll(t, c, 64, 100, limit)
				if full := int64(most * (limit / each)); parts < full*8/10 {
					t.Errorf("%d parts, want 80 %% of %d", parts, full)
				}
			})
		})
	}
}

// The number of connections grows while more of them bring more bytes.
func TestConcurrency(t *testing.T) {
	tests := []struct {
		name            string
		total, each     int64 // bytes per second of all connections and of one; 0: no limit
		least, most     int64 // connections at once, with some that end
		percentOfMedium int64 // the least rate
	}{
		{"each connection has a limit", 0, 1 << 20, 64, 72, 90},
		{"all connections share a link", 8 << 20, 0, 1, 48, 90},
		{"the link has room for 48", 48 << 20, 1 << 20, 44, 72, 80},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var g gauge
				content := make([]byte, 1<<20)
				h := faulty.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
				}), faulty.Options{Delay: 25 * time.Millisecond, Bandwidth: tt.total, Each: tt.each})
				c := through(t, func(w http.ResponseWriter, r *http.Request) {
					defer g.now.Add(-1)
					g.enter()
					h.ServeHTTP(w, r)
				}, fetch.Options{})
				parts := readAll(t, c, 100, 256<<10, 30*time.Second)
				if n := g.most.Load(); n < tt.least || n > tt.most {
					t.Errorf("%d connections, want %d to %d", n, tt.least, tt.most)
				}
				medium := tt.total
				if medium == 0 || tt.each > 0 && 64*tt.each < medium {
					medium = 64 * tt.each
				}
				if got, want := parts*(256<<10), 30*medium*tt.percentOfMedium/100; got < want {
					t.Errorf("%d bytes in 30 s, want %d", got, want)
				}
			})
		})
	}
}
