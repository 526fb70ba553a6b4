package fetch_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/fetch"
)

// An outage is a server that stops answering while fault is set. It counts the requests
// meanwhile.
type outage struct {
	fault    atomic.Pointer[http.HandlerFunc]
	requests atomic.Int64
}

// begin ends all answers: fault is reset or silent.
func (o *outage) begin(fault http.HandlerFunc) { o.fault.Store(&fault) }

// end makes the server answer again. Requests from before stay without an answer.
func (o *outage) end() { o.fault.Store(nil) }

func (o *outage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if fault := o.fault.Load(); fault != nil {
		o.requests.Add(1)
		(*fault)(w, r)
		return
	}
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader("value"))
}

// An eventLog is a log that any goroutine may write to.
type eventLog struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

// Write implements io.Writer.
func (l *eventLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *eventLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// client returns a client of the server, and the log of its events.
func (o *outage) client(t *testing.T) (*fetch.Client, *eventLog) {
	t.Helper()
	log := new(eventLog)
	return through(t, o.ServeHTTP, fetch.Options{
		Limits: fetch.Limits{First: 30 * time.Second, Read: time.Minute},
		Logger: slog.New(slog.NewTextHandler(log, nil)),
	}), log
}

// get reads the object, and returns the duration.
func get(ctx context.Context, c *fetch.Client) (time.Duration, error) {
	start := time.Now()
	b, _, err := c.Get(ctx, object, 100)
	if err == nil && string(b) != "value" {
		err = fmt.Errorf("the value is %q", b)
	}
	return time.Since(start), err
}

// wantEvents compares the number of lines of an event.
func wantEvents(t *testing.T, log *eventLog, event string, want int) {
	t.Helper()
	if n := strings.Count(log.String(), "event="+event+" "); n != want {
		t.Errorf("%d lines of %s, want %d:\n%s", n, event, want, log)
	}
}

var outages = map[string]http.HandlerFunc{"refused": reset, "silent": silent}

// O27: an origin is down for 55 s under 1,000 readers. Few requests are sent, waiting reads end
// with bytes or at their deadline, and new reads fail within 1 s.
func TestO27_Down(t *testing.T) {
	for name, fault := range outages {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var o outage
				c, log := o.client(t)
				if _, err := get(t.Context(), c); err != nil {
					t.Fatal(err)
				}
				o.begin(fault)
				var readers sync.WaitGroup
				var failed atomic.Int64
				for range 1000 {
					readers.Go(func() {
						for begin := time.Now(); time.Since(begin) < 70*time.Second; {
							if took, err := get(t.Context(), c); took > 61*time.Second {
								t.Errorf("a read took %v: %v", took, err)
							} else if err != nil {
								failed.Add(1)
								time.Sleep(5 * time.Second)
							} else {
								return
							}
						}
						t.Error("a reader never got its bytes")
					})
				}
				time.Sleep(50 * time.Second)
				if took, err := get(t.Context(), c); took > time.Second || !errors.Is(err, origin.ErrUnavailable) {
					t.Errorf("new read = %v after %v", err, took)
				}
				wantEvents(t, log, "origin_down", 1)
				time.Sleep(4 * time.Second)
				o.end()
				time.Sleep(1100 * time.Millisecond)
				if took, err := get(t.Context(), c); took > 0 || err != nil {
					t.Errorf("read after the return = %v after %v", err, took)
				}
				readers.Wait()
				if n := o.requests.Load(); n > 20*55 {
					t.Errorf("%d requests in 55 s", n)
				}
				if failed.Load() > 0 {
					t.Errorf("%d waiting reads failed before their deadline", failed.Load())
				}
				wantEvents(t, log, "origin_up", 1)
				wantEvents(t, log, "origin_down", 1)
			})
		})
	}
}

// N10, N11: reads wait while a link is down. A short outage is no event, and after a long one
// reads that began before 40 s fail at their deadline.
func TestN10_N11_LinkDown(t *testing.T) {
	for name, fault := range outages {
		for _, tt := range []struct {
			outage time.Duration
			good   bool
			events int
		}{{5 * time.Second, true, 0}, {30 * time.Second, true, 0}, {120 * time.Second, false, 1}} {
			t.Run(fmt.Sprint(name, " ", tt.outage), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var o outage
					c, log := o.client(t)
					get(t.Context(), c)
					o.begin(fault)
					time.AfterFunc(tt.outage, o.end)
					var readers sync.WaitGroup
					for i := range 20 {
						readers.Go(func() {
							start := time.Now()
							time.Sleep(time.Duration(i) * 100 * time.Millisecond)
							took, err := get(t.Context(), c)
							if tt.good && (err != nil || time.Since(start) > tt.outage+10*time.Second) {
								t.Errorf("read = %v, %v after the outage began", err, time.Since(start))
							}
							if !tt.good && (!errors.Is(err, origin.ErrUnavailable) || took > 61*time.Second || took < 49*time.Second) {
								t.Errorf("read = %v after %v", err, took)
							}
						})
					}
					readers.Wait()
					time.Sleep(tt.outage)
					if took, err := get(t.Context(), c); err != nil || took > time.Second {
						t.Errorf("read after the outage = %v after %v", err, took)
					}
					wantEvents(t, log, "origin_down", tt.events)
					wantEvents(t, log, "origin_up", tt.events)
				})
			})
		}
	}
}

// An origin that is down 5 s of every 15 s is never an error.
func TestFlapping(t *testing.T) {
	for name, fault := range outages {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var o outage
				c, log := o.client(t)
				get(t.Context(), c)
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
				defer cancel()
				var readers sync.WaitGroup
				for range 10 {
					readers.Go(func() {
						for ctx.Err() == nil {
							if took, err := get(t.Context(), c); err != nil || took > 11*time.Second {
								t.Errorf("read = %v after %v", err, took)
							}
							time.Sleep(100 * time.Millisecond)
						}
					})
				}
				for ctx.Err() == nil {
					o.begin(fault)
					time.Sleep(5 * time.Second)
					o.end()
					time.Sleep(time.Second)
					if took, err := get(t.Context(), c); err != nil || took > 0 {
						t.Errorf("read after a return = %v after %v", err, took)
					}
					time.Sleep(9 * time.Second)
				}
				readers.Wait()
				wantEvents(t, log, "origin_down", 0)
			})
		})
	}
}

// An origin without traffic is not down, and Close ends the probes of one that is.
func TestDownNeedsTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o outage
		c, log := o.client(t)
		get(t.Context(), c)
		o.begin(reset)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		get(ctx, c)
		time.Sleep(time.Hour)
		get(ctx, c)
		wantEvents(t, log, "origin_down", 0)
		for range 2 {
			get(t.Context(), c)
		}
		wantEvents(t, log, "origin_down", 1)
		c.Close()
	})
}
