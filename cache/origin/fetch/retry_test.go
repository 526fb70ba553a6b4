package fetch_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
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
	"github.com/xetfs/xetfs/cache/origin/origintest"
)

const address = "http://far.example"

var object = fetch.Request{Key: "k", URL: address + "/k"}

// through returns a client whose requests h answers without a network, so that a bubble of
// testing/synctest has its time.
func through(t testing.TB, h http.HandlerFunc, o fetch.Options) *fetch.Client {
	t.Helper()
	o.Transport = origintest.Transport(h)
	return newClient(t, address, o)
}

// status returns an answer without a body.
func status(code int, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
	}
}

// reset is a connection without an answer.
func reset(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// silent is an answer that never begins.
func silent(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// The policy of attempts: the catalogue has the numbers.
func TestRetry(t *testing.T) {
	limits := fetch.Limits{First: 30 * time.Second, Read: time.Minute}
	tests := []struct {
		name     string
		bad      http.HandlerFunc
		good     int64         // number of the good attempt; 0: none
		caller   time.Duration // deadline of the caller; 0: none
		limits   fetch.Limits
		min, max int64         // attempts
		from, to time.Duration // duration of the call
		want     error
	}{
		{"at once", nil, 1, 0, limits, 1, 1, 0, 0, nil},
		{"O09 five failures", status(500), 6, 0, limits, 6, 6, 0, 6200 * time.Millisecond, nil},
		{"O09 always", status(502), 0, 0, limits, 6, 6, 0, 6200 * time.Millisecond, origin.ErrUnavailable},
		{"O01 absent", status(404), 0, 0, limits, 1, 1, 0, 0, origin.ErrNotFound},
		{"not allowed", status(403), 0, 0, limits, 1, 1, 0, 0, iofs.ErrPermission},
		{"O06 permanent", status(400), 0, 0, limits, 1, 1, 0, 0, origin.ErrUnavailable},
		{"O11 once more", status(200, "Content-Encoding", "gzip"), 0, 0, limits, 2, 2, 0, 200 * time.Millisecond, origin.ErrUnavailable},
		{"O08 after a second", status(503, "Retry-After", "1"), 2, 0, limits, 2, 2, time.Second, time.Second, nil},
		{"O08 after a day", status(429, "Retry-After", "86400"), 2, 0, fetch.Limits{}, 2, 2, 30 * time.Second, 30 * time.Second, nil},
		{"O08 after the limit", status(503, "Retry-After", "86400"), 2, 0, limits, 1, 1, 0, 0, origin.ErrUnavailable},
		{"O08 after the caller's deadline", status(503, "Retry-After", "10"), 2, 5 * time.Second, limits, 1, 1, 0, 0, origin.ErrUnavailable},
		{"N01 lost connections, then an answer", reset, 8, 0, limits, 8, 8, 0, 30 * time.Second, nil},
		{"N01 lost connections", reset, 0, 0, limits, 8, 100, 30 * time.Second, 30 * time.Second, origin.ErrUnavailable},
		{"N01 without any deadline", reset, 0, 0, fetch.Limits{}, 6, 6, 0, 6200 * time.Millisecond, origin.ErrUnavailable},
		{"N03 silence", silent, 3, 0, limits, 3, 3, 20 * time.Second, 21 * time.Second, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var requests atomic.Int64
				c := through(t, func(w http.ResponseWriter, r *http.Request) {
					if n := requests.Add(1); n != tt.good {
						tt.bad(w, r)
					}
				}, fetch.Options{Limits: tt.limits})
				ctx := t.Context()
				if tt.caller > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tt.caller)
					defer cancel()
				}
				start := time.Now()
				_, _, err := c.Get(ctx, object, 100)
				attempts := requests.Load()
				if !errors.Is(err, tt.want) || attempts < tt.min || attempts > tt.max {
					t.Errorf("%d attempts: %v, want %d to %d: %v", attempts, err, tt.min, tt.max, tt.want)
				}
				if took := time.Since(start); took < tt.from || took > tt.to {
					t.Errorf("Get took %v, want %v to %v", took, tt.from, tt.to)
				}
			})
		})
	}
}

// A caller that leaves does not wait for the end of a pause.
func TestRetryCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := through(t, status(503, "Retry-After", "20"), fetch.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(25*time.Second, cancel)
		start := time.Now()
		if _, _, err := c.Get(ctx, object, 100); !errors.Is(err, context.Canceled) || time.Since(start) != 25*time.Second {
			t.Errorf("Get = %v after %v", err, time.Since(start))
		}
	})
}

// Many callers of a server that does not answer cause one line.
func TestRetryLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		c := through(t, status(500), fetch.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		var callers sync.WaitGroup
		for range 1000 {
			callers.Go(func() { c.Size(t.Context(), object) })
		}
		callers.Wait()
		if n := strings.Count(log.String(), "event=origin_retry"); n != 1 {
			t.Errorf("%d lines, want 1:\n%.500s", n, log.String())
		}
	})
}

// N04, N05: a read of data continues at the byte reached while answers add bytes. Bytes that
// arrived are not requested again.
func TestN04_RetryContinues(t *testing.T) {
	content := origintest.Random(1, 5<<20)
	for _, tt := range []struct {
		name   string
		each   int // bytes of an answer
		limits fetch.Limits
		want   error
	}{
		{"large pieces", 256 << 10, fetch.Limits{}, nil},
		{"small pieces", 64 << 10, fetch.Limits{Read: time.Minute}, nil},
		{"hardly any bytes", 1000, fetch.Limits{}, origin.ErrUnavailable},
		{"no bytes", 0, fetch.Limits{}, origin.ErrUnavailable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sent := 0
				c := through(t, func(w http.ResponseWriter, r *http.Request) {
					var from, to int
					fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &from, &to)
					w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to, len(content)))
					w.WriteHeader(http.StatusPartialContent)
					n, _ := w.Write(content[from:min(from+tt.each, to+1)])
					if sent += n; from+n <= to {
						panic(http.ErrAbortHandler)
					}
				}, fetch.Options{Limits: tt.limits})
				got, reported := make([]byte, len(content)), 0
				err := c.ReadAt(t.Context(), object, got, 0, func(n int) {
					if n < reported || !bytes.Equal(got[reported:n], content[reported:n]) {
						t.Errorf("progress is %d after %d, or the bytes differ", n, reported)
					}
					reported = n
				})
				if !errors.Is(err, tt.want) || err == nil && (!bytes.Equal(got, content) || sent != len(content)) {
					t.Errorf("ReadAt: %v after %d bytes, want %v", err, sent, tt.want)
				}
			})
		})
	}
}

// N04: connections that end after some KiB cost a pause only once in a while.
func TestN04_FewPauses(t *testing.T) {
	content := origintest.Random(1, 1<<20)
	read := map[string]func(ctx context.Context, c *fetch.Client) ([]byte, error){
		"ReadAt": func(ctx context.Context, c *fetch.Client) ([]byte, error) {
			got := make([]byte, len(content))
			return got, c.ReadAt(ctx, object, got, 0, ignore)
		},
		"ReadWhole": func(ctx context.Context, c *fetch.Client) (got []byte, err error) {
			err = c.ReadWhole(ctx, object, 0, func(b []byte, _ int64) error {
				got = append(got, b...)
				return nil
			})
			return got, err
		},
		"ReadPart": func(ctx context.Context, c *fetch.Client) ([]byte, error) {
			part, err := c.ReadPart(ctx, object, -1, len(content))
			return part.Bytes, err
		},
	}
	for name, read := range read {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				requests := 0
				c := through(t, func(w http.ResponseWriter, r *http.Request) {
					requests++
					from, to := 0, len(content)-1
					if fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &from, &to); from < 0 { // of a suffix
						from += len(content)
					}
					w.Header().Set("ETag", `"good"`)
					w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to, len(content)))
					w.WriteHeader(http.StatusPartialContent)
					if n, _ := w.Write(content[from:min(from+8<<10, to+1)]); from+n <= to {
						panic(http.ErrAbortHandler)
					}
				}, fetch.Options{Limits: fetch.Limits{Read: time.Minute}})
				start := time.Now()
				got, err := read(t.Context(), c)
				if err != nil || !bytes.Equal(got, content) || requests != len(content)>>13 {
					t.Errorf("%d bytes in %d requests, %v, or other bytes", len(got), requests, err)
				}
				if took := time.Since(start); took > 3*time.Second {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// N05: the bodies of a server always end early. A read ends soon, and sends few requests.
func TestN05_UselessAnswers(t *testing.T) {
	content := origintest.Random(1, 1<<20)
	for name, left := range map[string]func(n int) int{
		"half": func(n int) int { return n / 2 }, "all but a byte": func(n int) int { return n - 1 },
		"nothing": func(int) int { return 0 }, "1100 bytes": func(n int) int { return min(n-1, 1100) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				requests := 0
				c := through(t, func(w http.ResponseWriter, r *http.Request) {
					requests++
					var from, to int
					fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &from, &to)
					w.Header().Set("ETag", `"good"`)
					w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to, len(content)))
					w.WriteHeader(http.StatusPartialContent)
					_, _ = w.Write(content[from:][:left(to+1-from)])
					panic(http.ErrAbortHandler)
				}, fetch.Options{Limits: fetch.Limits{First: time.Minute, Read: time.Minute}})
				start := time.Now()
				err := c.ReadAt(t.Context(), object, make([]byte, len(content)), 0, ignore)
				if took := time.Since(start); !errors.Is(err, origin.ErrUnavailable) || took > 40*time.Second || requests > 200 {
					t.Errorf("%d requests in %v, %v", requests, took, err)
				}
			})
		})
	}
}

// N04: a server whose answers are useless for some time, and then good, is no error.
func TestN04_UselessForSomeTime(t *testing.T) {
	content := origintest.Random(1, 100<<10)
	synctest.Test(t, func(t *testing.T) {
		good := time.Now().Add(10 * time.Second)
		c := through(t, func(w http.ResponseWriter, r *http.Request) {
			var from, to int
			fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &from, &to)
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to, len(content)))
			w.WriteHeader(http.StatusPartialContent)
			if time.Now().Before(good) {
				panic(http.ErrAbortHandler)
			}
			_, _ = w.Write(content[from : to+1])
		}, fetch.Options{Limits: fetch.Limits{Read: time.Minute}})
		got := make([]byte, len(content))
		if err := c.ReadAt(t.Context(), object, got, 0, ignore); err != nil || !bytes.Equal(got, content) {
			t.Errorf("ReadAt: %v, or other bytes", err)
		}
	})
}
