package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/connlimit"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/loopback"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
)

// dump handles the signals that do not end the mount. SIGHUP continues in a new log file,
// SIGUSR1 logs statistics, and SIGQUIT logs the stacks of all goroutines.
func (d *Daemon) dump(s os.Signal, src *stack.Source) {
	switch s {
	case syscall.SIGHUP:
		if d.LogFile == nil {
			return // systemd reloads, or the terminal has gone
		}
		if err := d.LogFile.reopen(); err != nil {
			d.Log.Warn("the log continues in the old file", "err", err)
		}
	case syscall.SIGUSR1:
		d.Log.Info("statistics", "event", "signal_dump", "stats", src.Reader.Stats())
	case syscall.SIGQUIT:
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		d.Log.Info("goroutines", "event", "signal_dump", "stacks", string(stacks))
	}
}

// CheckPprof refuses an address for profiles that other machines could reach: profiles show
// the whole process.
func CheckPprof(address string) error {
	if address != "" && !loopback.IsAddress(address) {
		return fmt.Errorf("--pprof %q: it must be an address on loopback, like localhost:6060", address)
	}
	return nil
}

// maxProfilers bounds the connections for profiles: each one takes a descriptor from the mount.
const maxProfilers = 8

// servePprof serves Go profiles until ctx ends, if address is not empty.
func servePprof(ctx context.Context, address string, log *slog.Logger) error {
	if address == "" {
		return nil
	}
	listener, err := loopback.Listen(ctx, address)
	if err != nil {
		return fmt.Errorf("--pprof: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	// A ReadTimeout would end a profile that takes longer.
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 30 * time.Second}
	context.AfterFunc(ctx, func() { server.Close() })
	go func() {
		if err := server.Serve(connlimit.New(listener, maxProfilers)); !errors.Is(err, http.ErrServerClosed) {
			log.Warn("no more profiles", "err", err)
		}
	}()
	log.Info("profiles are served", "address", "http://"+listener.Addr().String()+"/debug/pprof/")
	return nil
}
