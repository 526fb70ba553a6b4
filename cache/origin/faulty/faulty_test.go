package faulty

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/bits"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve serves value with faults, and returns a function that requests it.
func serve(t *testing.T, value []byte, o Options) func(ctx context.Context) (int, []byte, error) {
	t.Helper()
	good := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "x", time.Time{}, bytes.NewReader(value))
	})
	server := httptest.NewServer(Handler(good, o))
	t.Cleanup(server.Close)
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	return func(ctx context.Context) (int, []byte, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(r)
		if err != nil {
			return 0, nil, err
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		return resp.StatusCode, b, err
	}
}

func value(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 31)
	}
	return b
}

// differing returns how many bits differ.
func differing(a, b []byte) (n int) {
	for i := range a {
		n += bits.OnesCount8(a[i] ^ b[i])
	}
	return n
}

// outcome says what became of one request.
func outcome(want []byte, status int, got []byte, err error) string {
	switch {
	case err != nil && errors.Is(err, context.DeadlineExceeded):
		return "hangs"
	case err != nil && status == 0:
		return "reset"
	case err != nil && bytes.HasPrefix(want, got):
		return "cut"
	case err != nil:
		return err.Error()
	case status != http.StatusOK:
		return http.StatusText(status)
	case len(got) == len(want) && differing(got, want) == 1:
		return "one bit"
	case bytes.Equal(got, want):
		return "good"
	}
	return "something else"
}

func TestFaults(t *testing.T) {
	want := value(100_000)
	tests := []struct {
		name string
		o    Options
		can  string // outcomes, with "," between them; each must happen
	}{
		{"none", Options{}, "good"},
		{"fail", Options{Fail: 1}, "Internal Server Error,Service Unavailable,reset"},
		{"truncate", Options{Truncate: 1}, "cut"},
		{"corrupt", Options{Corrupt: 1}, "one bit"},
		{"hang", Options{Hang: 1}, "hangs"},
		{"some", Options{Fail: 0.3, Truncate: 0.2, Corrupt: 0.2}, "Internal Server Error,Service Unavailable,reset,cut,one bit,good"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			seen := map[string]int{}
			tt.o.Seed = 1
			ask := serve(t, want, tt.o)
			n := 60
			if tt.o.Hang > 0 {
				n = 3
			}
			for range n {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				if tt.o.Hang > 0 {
					ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
				}
				status, got, err := ask(ctx)
				seen[outcome(want, status, got, err)]++
				cancel()
			}
			for _, can := range strings.Split(tt.can, ",") {
				if seen[can] == 0 {
					t.Errorf("never %q", can)
				}
				delete(seen, can)
			}
			if len(seen) > 0 {
				t.Errorf("also %v", seen)
			}
		})
	}
}

// The same seed gives the same faults; an answer without a body has none that need one.
func TestSeed(t *testing.T) {
	row := func(seed uint64) (faults []fault) {
		h := Handler(http.NotFoundHandler(), Options{Fail: 0.2, Truncate: 0.2, Corrupt: 0.2, Hang: 0.2, Seed: seed}).(*handler)
		for range 100 {
			f, _ := h.draw()
			faults = append(faults, f)
		}
		return faults
	}
	if a, b := row(1), row(1); string(bytesOf(a)) != string(bytesOf(b)) {
		t.Error("the same seed gives other faults")
	}
	if a, b := row(1), row(2); string(bytesOf(a)) == string(bytesOf(b)) {
		t.Error("another seed gives the same faults")
	}
}

func bytesOf(faults []fault) (b []byte) {
	for _, f := range faults {
		b = append(b, byte(f))
	}
	return b
}

func TestNoBody(t *testing.T) {
	server := httptest.NewServer(Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "x", time.Time{}, bytes.NewReader(value(1000)))
	}), Options{Truncate: 0.5, Corrupt: 0.5}))
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for range 10 {
		resp, err := client.Head(server.URL)
		if err != nil || resp.ContentLength != 1000 {
			t.Fatalf("HEAD = %v, %v", resp, err)
		}
		resp.Body.Close()
	}
}

func TestPace(t *testing.T) {
	const size = 200_000
	tests := []struct {
		name     string
		o        Options
		requests int // at the same time
		least    time.Duration
		most     time.Duration
	}{
		{"delay", Options{Delay: 100 * time.Millisecond}, 4, 100 * time.Millisecond, time.Minute},
		{"bandwidth", Options{Bandwidth: 2_000_000}, 4, 370 * time.Millisecond, time.Minute},
		{"bandwidth of each", Options{Each: 1_000_000}, 4, 170 * time.Millisecond, time.Minute},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := value(size)
			ask := serve(t, want, tt.o)
			start := time.Now()
			var callers sync.WaitGroup
			for range tt.requests {
				callers.Go(func() {
					if _, got, err := ask(t.Context()); err != nil || !bytes.Equal(got, want) {
						t.Errorf("%d bytes, %v", len(got), err)
					}
				})
			}
			callers.Wait()
			if took := time.Since(start); took < tt.least || took > tt.most {
				t.Errorf("it took %v, want %v to %v", took, tt.least, tt.most)
			}
		})
	}
}

// Bodies that share a link get equal shares of it.
func TestPaceIsFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := Pace{Rate: 100_000_000}
		passed := make([]int, 8)
		end := time.Now().Add(200 * time.Millisecond)
		var bodies sync.WaitGroup
		for i := range passed {
			bodies.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				for time.Now().Before(end) {
					time.Sleep(p.Take(piece))
					passed[i]++
				}
			})
		}
		bodies.Wait()
		if others := passed[1:]; slices.Max(others) > slices.Min(others)+12 { // the first one has the burst
			t.Errorf("the bodies have passed %d pieces", passed)
		}
	})
}
