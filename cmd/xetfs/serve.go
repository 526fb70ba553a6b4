package main

import (
	"errors"
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/origin/faulty"
	"github.com/xetfs/xetfs/cache/origin/web"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/serve"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
)

// serveOptions are the flags of serve.
type serveOptions struct {
	plain, bare bool
	listen      string
	delay       time.Duration
	bandwidth   optional[int64]
	each        optional[int64]
	fail        optional[share]
	truncate    optional[share]
	corrupt     optional[share]
	hang        optional[share]
	seed        uint64
}

// newServe returns the command that serves a folder over HTTP.
func newServe() *cobra.Command {
	o := serveOptions{listen: "localhost:8080"}
	cmd := &cobra.Command{
		Use:   "serve --plain SOURCE",
		Short: "Serve a store over HTTP, as a plain web server would",
		Long: `Serves the objects of SOURCE, a local folder, like a plain web server with the folder of a
store. Each object is under its key, with ranges and ETags. The listing xetfs.list, which xetfs
pack and publish write to a store, is generated from the folder. Any folder of shards and xorbs
can thus be mounted remotely, whatever the names of its files. Only shards, xorbs and documents
of a catalog are served; links are not followed. Files that are added to a folder without a
catalog later are not seen.

Every client that can reach the address can read everything: there is no password and no TLS.
For more than one machine, use a real web server for the folder.

The first line of output is the address. SIGINT or SIGTERM ends the server, after the pending
answers or after two seconds. It then prints the number of requests and bytes served. The same
figures are at ADDRESS/-/stats, as JSON, while it runs.

The other flags make it a slow or faulty server, for tests of clients. Each request has at most
one of the faults.

` + ui.UnitsHelp,
		Example: `  xetfs serve --plain ./store
  xetfs mount http://localhost:8080 /mnt/x
  xetfs serve --plain --delay 50ms --bandwidth 125MB --fail 1% --corrupt 1% ./store`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runServe(cmd, args[0], &o)
		},
	}
	o.addFlags(cmd)
	return cmd
}

func (o *serveOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&o.plain, "plain", false, "as a plain web server (there is no other way yet)")
	bareFlag(cmd, &o.bare)
	f.StringVar(&o.listen, "listen", o.listen, "serve on this `ADDRESS`; port 0 picks a free one")
	f.DurationVar(&o.delay, "delay", 0, "pause before each answer")
	o.bandwidth, o.each = newOptional("RATE", "", parseRate), newOptional("RATE", "", parseRate)
	f.Var(&o.bandwidth, "bandwidth", "bytes per second of all answers together, like 125MB")
	f.Var(&o.each, "bandwidth-each", "bytes per second of each answer")
	for _, fault := range []struct {
		flag        *optional[share]
		name, usage string
	}{
		{&o.fail, "fail", "answers that fail: 500, 503, or a connection that is reset"},
		{&o.truncate, "truncate", "answers that end early"},
		{&o.corrupt, "corrupt", "answers with a flipped bit"},
		{&o.hang, "hang", "requests without an answer"},
	} {
		*fault.flag = newOptional("SHARE", "", parseShare)
		f.Var(fault.flag, fault.name, fault.usage)
	}
	f.Uint64Var(&o.seed, "seed", 1, "random seed for fault selection")
}

// check returns an error for flags that contradict each other and for a SOURCE that is no folder.
func (o *serveOptions) check(source string) error {
	switch {
	case !o.plain:
		return usageError{errors.New("say how to serve: --plain")}
	case stack.IsRemote(source):
		return usageError{fmt.Errorf("%s: is served already; SOURCE is a local folder", stack.WithoutSecrets(source))}
	case o.delay < 0:
		return usageError{fmt.Errorf("--delay %v: must not be negative", o.delay)}
	case o.fail.value+o.truncate.value+o.corrupt.value+o.hang.value > 1:
		return usageError{errors.New("--fail, --truncate, --corrupt and --hang are more than 100% together")}
	}
	return stack.CheckFolder(source)
}

// runServe serves until the context of cmd ends.
func runServe(cmd *cobra.Command, source string, o *serveOptions) error {
	if err := o.check(source); err != nil {
		return err
	}
	ctx := cmd.Context()
	store, _, err := stack.OpenFolder(ctx, source, o.bare)
	if err != nil {
		return fmt.Errorf("%s: %w", source, err)
	}
	defer store.Close()
	listener, err := serve.Listen(ctx, o.listen)
	if err != nil {
		return o.listenError(err)
	}
	if _, err := fmt.Fprintf(cmd.OutOrStdout(), "http://%s/\n", listener.Addr()); err != nil {
		return errors.Join(err, listener.Close())
	}
	handler := faulty.Handler(web.NewHandler(store), faulty.Options{
		Delay: o.delay, Bandwidth: o.bandwidth.value, Each: o.each.value,
		Fail: float64(o.fail.value), Truncate: float64(o.truncate.value), Corrupt: float64(o.corrupt.value), Hang: float64(o.hang.value),
		Seed: o.seed,
	})
	var count serve.Counter
	err = serve.Run(ctx, listener, count.Handler(handler))
	fmt.Fprintf(cmd.ErrOrStderr(), "%s: %v\n", cmd.CommandPath(), count.Stats())
	return err
}

// listenError returns the error for a listener that cannot start.
func (o *serveOptions) listenError(err error) error {
	switch {
	case errors.As(err, new(*net.AddrError)):
		return usageError{fmt.Errorf("--listen %s: %w; want HOST:PORT like localhost:8080, or :8080 for all addresses", o.listen, err)}
	case errors.Is(err, unix.EADDRINUSE):
		return fmt.Errorf("--listen %s: %w; name another port, or 0 for a free one", o.listen, unix.EADDRINUSE)
	}
	return fmt.Errorf("--listen %s: %w", o.listen, err)
}

// parseRate reads a number of bytes per second: 125MB, 12.5MB/s, 8MiB.
func parseRate(text string) (int64, error) {
	n, err := ui.ParseBytes(strings.TrimSuffix(strings.TrimSpace(text), "/s"))
	if err != nil || n < 1 || n > math.MaxInt64/2 {
		return 0, fmt.Errorf("%q is not a rate; write it like 125MB", text)
	}
	return n, nil
}

// A share is a part of 1, in percent on the command line: 1%, 0.5%.
type share float64

// parseShare reads a share.
func parseShare(text string) (share, error) {
	n, err := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64)
	if err != nil || !strings.HasSuffix(text, "%") || !(0 <= n && n <= 100) {
		return 0, fmt.Errorf("%q is not a share; write it like 1%%", text)
	}
	return share(n / 100), nil
}

// String is the inverse of parseShare.
func (s share) String() string { return strconv.FormatFloat(float64(s)*100, 'g', -1, 64) + "%" }
