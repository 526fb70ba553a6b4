package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/origin/hub/hubserve"
	"github.com/xetfs/xetfs/cache/origin/upload"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestListenErrors(t *testing.T) {
	l, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := Listen(t.Context(), l.Addr().String()); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("a port in use: %v, want %v", err, unix.EADDRINUSE)
	}
	if _, err := Listen(t.Context(), "nowhere"); !errors.As(err, new(*net.AddrError)) {
		t.Errorf("no port: %v, want an AddrError", err)
	}
}

// A stopping server lets pending answers finish, but does not wait for a client that hangs. It ends
// after its handler.
func TestRunEnds(t *testing.T) {
	for _, takes := range []time.Duration{200 * time.Millisecond, time.Hour} {
		l, err := Listen(t.Context(), "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		started := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		var returned atomic.Bool
		go func() {
			ended <- Run(ctx, l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				close(started)
				select {
				case <-time.After(takes):
					io.WriteString(w, "done") //nolint:errcheck // the client reports it
				case <-r.Context().Done():
					time.Sleep(200 * time.Millisecond)
				}
				returned.Store(true)
			}), Options{Log: slog.New(slog.DiscardHandler)})
		}()
		received := make(chan string, 1)
		go func() {
			defer close(received)
			if answer, err := http.Get("http://" + l.Addr().String()); err == nil {
				b, _ := io.ReadAll(answer.Body)
				answer.Body.Close()
				received <- string(b)
			}
		}()
		<-started
		start := time.Now()
		cancel()
		if err := <-ended; err != nil || time.Since(start) > time.Minute {
			t.Errorf("it ended after %v: %v", time.Since(start), err)
		}
		if !returned.Load() {
			t.Error("it ended before its handler")
		}
		if got := <-received; (got == "done") != (takes < shutdownGrace) {
			t.Errorf("a client that waited for %v received %q", takes, got)
		}
	}
}

// Uploads that fail have the status of their reason.
func TestUploadError(t *testing.T) {
	for err, want := range map[error]int{
		upload.ErrTooLarge: 413, upload.ErrFull: 507, upload.ErrBusy: 429, upload.ErrSlow: 408, upload.ErrRefused: 400,
		io.ErrUnexpectedEOF: 0,
	} {
		var refusal *hubserve.Refusal
		got := uploadError(fmt.Errorf("a file: %w", err))
		if errors.As(got, &refusal) != (want > 0) || want > 0 && refusal.Status != want {
			t.Errorf("%v: %v, want status %d", err, got, want)
		}
	}
}
