package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/serve"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/status"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
)

// statusOptions are the flags of status.
type statusOptions struct {
	asJSON, watch, reader bool
	wait                  time.Duration
}

// statusReader is the flag of the process that reads the figures.
const statusReader = "reader"

// watchInterval is the time between two lists of --watch.
const watchInterval = time.Second

// newStatus returns the command that lists the mounts of the machine.
func newStatus() *cobra.Command {
	var o statusOptions
	cmd := &cobra.Command{
		Use:   "status [DIR…]",
		Short: "Show what the mounts of this machine do",
		Long: `Lists the xetfs mounts of this machine, or those at DIR, one line per mount:

  SHOWN    symbol and version, or the number of symbols in use
  READ     bytes of files sent to the kernel, also before a read
  RATE     the same per second, with --watch
  LOCAL    share of the bytes that did not come from the origin
  ORIGIN   bytes received from SOURCE
  CACHE    size of the disk cache
  STATE    ok, or the problem

A mount whose process was killed or does not answer is one line, too. With --json there is one
object: {"mounts": [{"mountpoint", "mountpoint_bytes", "source", "state" (ok, dead, silent, refused,
part), "error", "stats"}]}. The stats are those of user.xet.stats: xetfs help statistics.`,
		Example: `  xetfs status
  xetfs status --watch /mnt/x
  xetfs status --json | jq '.mounts[] | select(.state != "ok")'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.reader {
				status.PrintAll(cmd.OutOrStdout(), args)
				return nil
			}
			if o.wait <= 0 {
				return usageError{fmt.Errorf("--wait %v: must be more than 0", o.wait)}
			}
			return o.run(cmd.Context(), cmd.OutOrStdout(), args)
		},
	}
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "print JSON instead of text")
	cmd.Flags().BoolVarP(&o.watch, "watch", "w", false, "print the list each second until Ctrl-C")
	cmd.Flags().DurationVar(&o.wait, "wait", 1500*time.Millisecond, "wait up to this `TIME` for the answers of all mounts")
	cmd.Flags().BoolVar(&o.reader, statusReader, false, "")
	if err := cmd.Flags().MarkHidden(statusReader); err != nil {
		panic(err) // no such flag
	}
	return cmd
}

// run prints the list once, or each watchInterval until ctx ends.
func (o *statusOptions) run(ctx context.Context, w io.Writer, dirs []string) error {
	var before []status.Mount
	for {
		mounts, err := o.list(ctx, dirs)
		if err == nil && o.watch && ui.IsTerminal(w) {
			_, err = fmt.Fprint(w, "\x1b[H\x1b[J") // top left corner, clear
		}
		if err == nil {
			err = o.print(w, mounts, before)
		}
		if err != nil || !o.watch {
			return err
		}
		before = mounts
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(watchInterval):
		}
	}
}

// list returns the mounts with their figures.
func (o *statusOptions) list(ctx context.Context, dirs []string) ([]status.Mount, error) {
	mounts, err := status.Mounts()
	if err == nil {
		mounts, err = status.Select(mounts, dirs)
	}
	if err == nil {
		err = fillMounts(ctx, mounts, o.wait)
	}
	return mounts, err
}

// fillMounts adds the figures of the mounts that answer within limit.
func fillMounts(ctx context.Context, mounts []status.Mount, limit time.Duration) error {
	return status.Fill(ctx, mounts, []string{os.Args[0], "status", "--" + statusReader, "--"}, limit)
}

func (o *statusOptions) print(w io.Writer, mounts, before []status.Mount) error {
	if o.asJSON {
		return status.WriteJSON(w, mounts)
	}
	var text strings.Builder
	if err := status.WriteTable(&text, mounts, before); err != nil {
		return err
	}
	_, err := io.WriteString(w, text.String())
	return err
}

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
