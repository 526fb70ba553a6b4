package main

import (
	"encoding/json"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/serve"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/status"
)

// newProcess describes this process, which serves a SOURCE.
func newProcess(source string) status.Process {
	return status.Process{Source: stack.WithoutSecrets(source), Version: readVersion().Version, PID: os.Getpid(), Started: time.Now()}
}

// serveStatus serves the figures of a server until stop is called, and prints the address of the page.
func serveStatus(cmd *cobra.Command, address string, c *status.Collector, count *serve.Counter, log *slog.Logger) (stop func(), err error) {
	if address == "" {
		return func() {}, nil
	}
	page := status.Page{Label: status.Label{Name: "server", Value: c.Process.Address}, Log: log}
	page.Stats = func() ([]byte, error) { return json.Marshal(c.CollectServer(count)) }
	at, stop, err := page.Listen(cmd.Context(), address)
	if err == nil {
		noticesOf(cmd)("status page: " + at)
	}
	return stop, err
}
