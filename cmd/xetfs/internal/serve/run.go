package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/connlimit"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/loopback"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
)

// Limits of a server.
const (
	maxConns      = 512
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 16 << 10
	shutdownGrace = 2 * time.Second
)

// Listen opens a listener at HOST:PORT; port 0 is a free one. An invalid address is a
// *net.AddrError, a port in use is unix.EADDRINUSE. The error does not repeat the address.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	l, err := loopback.Listen(ctx, address)
	var op *net.OpError
	if errors.As(err, &op) {
		return nil, ui.Reason(op.Err)
	}
	return l, err
}

// Options tune Run.
type Options struct {
	TLS *tls.Config  // nil: plain HTTP
	Log *slog.Logger // of net/http
}

// Run serves h until ctx ends, and then cancels pending answers after 2 seconds. It closes l. Run
// returns after all calls of h, because they use what its caller closes then.
func Run(ctx context.Context, l net.Listener, h http.Handler, o Options) error {
	return run(ctx, connlimit.New(l, maxConns), h, o)
}

func run(ctx context.Context, l *connlimit.Listener, h http.Handler, o Options) error {
	requests, cancelRequests := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelRequests()
	var conns sync.WaitGroup
	server := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       headerTimeout, // with the body; upload.ClientBody moves the deadline for long ones
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          errorLog(o.Log),
		BaseContext:       func(net.Listener) context.Context { return requests },
		ConnState: func(_ net.Conn, s http.ConnState) {
			if s == http.StateNew {
				conns.Add(1)
			} else if s == http.StateClosed || s == http.StateHijacked {
				conns.Done()
			}
		},
	}
	var listener net.Listener = l
	if o.TLS != nil {
		listener = tls.NewListener(l, o.TLS) // HTTP/1.1 only: limits are those of connections
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer cancel()
	if server.Shutdown(grace) != nil {
		cancelRequests()
		l.CloseConns() // clients that remain after the grace period
		_ = server.Close()
	}
	<-ended //nolint:errcheck // http.ErrServerClosed
	conns.Wait()
	return nil
}
