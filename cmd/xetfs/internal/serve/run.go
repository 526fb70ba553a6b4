package serve

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
)

// Limits of a server.
const (
	maxConns      = 512
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	writeTimeout  = time.Minute // without a byte that the client accepts
	maxHeader     = 16 << 10
	shutdownGrace = 2 * time.Second
)

// Listen opens a listener at HOST:PORT; port 0 is a free one. An invalid address is a
// *net.AddrError, a port in use is unix.EADDRINUSE. The error does not repeat the address.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	var op *net.OpError
	if errors.As(err, &op) {
		return nil, ui.Reason(op.Err)
	}
	return l, err
}

// Run serves h until ctx ends, and then waits up to 2 seconds for pending answers. It closes l.
func Run(ctx context.Context, l net.Listener, h http.Handler) error {
	return run(ctx, limit(l, maxConns), h)
}

func run(ctx context.Context, l *limitListener, h http.Handler) error {
	server := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       headerTimeout, // handlers read no body
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer cancel()
	if server.Shutdown(grace) != nil {
		_ = server.Close() // clients that remain after the grace period
	}
	<-ended //nolint:errcheck // http.ErrServerClosed
	return nil
}
