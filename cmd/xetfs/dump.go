package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"runtime"
	"syscall"
	"time"
)

// dump does what signals ask that do not end the mount: SIGHUP goes on in a new log
// file, SIGUSR1 logs what the cache did, SIGQUIT what every goroutine does.
func (d *daemon) dump(s os.Signal, src *source) {
	switch s {
	case syscall.SIGHUP:
		if err := d.logFile.reopen(); err != nil {
			d.log.Warn("the log goes on in the old file", "err", err)
		}
	case syscall.SIGUSR1:
		d.log.Info("statistics", "event", "signal_dump", "stats", src.reader.Stats())
	case syscall.SIGQUIT:
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		d.log.Info("goroutines", "event", "signal_dump", "stacks", string(stacks))
	}
}

// checkLoopback refuses an address for profiles that others could reach: profiles tell
// everything about the process.
func checkLoopback(address string) error {
	if address == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err != nil || host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return usageError{fmt.Errorf("--pprof %q: it must be an address on loopback, like localhost:6060", address)}
	}
	return nil
}

// servePprof serves Go profiles until ctx is done, if address is not empty.
func servePprof(ctx context.Context, address string, log *slog.Logger) error {
	if address == "" {
		return nil
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("--pprof: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { server.Close() })
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Warn("no more profiles", "err", err)
		}
	}()
	log.Info("profiles are served", "address", "http://"+listener.Addr().String()+"/debug/pprof/")
	return nil
}
