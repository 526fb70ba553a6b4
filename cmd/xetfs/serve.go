package main

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/origin/faulty"
	"github.com/xetfs/xetfs/cache/origin/fetch"
	"github.com/xetfs/xetfs/cache/origin/web"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/serve"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
)

// serveOptions are the flags of serve.
type serveOptions struct {
	plain, bare bool
	listen      string
	tlsCert     string
	tlsKey      string
	tokenFile   string
	delay       time.Duration
	bandwidth   optional[int64]
	each        optional[int64]
	fail        optional[share]
	truncate    optional[share]
	corrupt     optional[share]
	hang        optional[share]
	seed        uint64
}

// newServe returns the command that serves a store over HTTP.
func newServe() *cobra.Command {
	o := serveOptions{listen: "localhost:8080"}
	cmd := &cobra.Command{
		Use:   "serve --plain SOURCE",
		Short: "Serve a store over HTTP or HTTPS, as a plain web server would",
		Long: `Serves the objects of SOURCE like a plain web server with the folder of a store. Each object is
under its key, with ranges and ETags. The listing xetfs.list, which xetfs pack and publish write
to a store, is generated. Any folder of shards and xorbs can thus be mounted remotely, whatever
the names of its files. Only shards, xorbs and documents of a catalog are served; links are not
followed. Files that are added to a folder without a catalog later are not seen.

SOURCE may also be the address of a web server or a bucket, for clients without its credentials.
Ranges are passed on and nothing is stored. While SOURCE does not answer, clients get 503.

Without --token-file every client that can reach the address can read everything. With it, each
request needs the header "Authorization: Bearer TOKEN" with one of the tokens in FILE, one per
line. Clients send the token in the file that XETFS_TOKEN_FILE names. Tokens need TLS, except on
a loopback address. Certificates, keys and tokens may change while the server runs: it uses the
new content within a second. A file that cannot be used changes nothing and is reported once.

The first line of output is the address. SIGINT or SIGTERM ends the server, after the pending
answers or after two seconds. It then prints the number of requests and bytes served. The same
figures are at ADDRESS/-/stats, as JSON, while it runs.

The other flags make it a slow or faulty server, for tests of clients. Each request has at most
one of the faults.

` + ui.UnitsHelp,
		Example: `  xetfs serve --plain ./store
  xetfs mount http://localhost:8080 /mnt/x
  xetfs serve --plain --tls-cert c.pem --tls-key k.pem --token-file tokens ./store
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
	f.StringVar(&o.tlsCert, "tls-cert", "", "PEM `FILE` with the certificate and its chain")
	f.StringVar(&o.tlsKey, "tls-key", "", "PEM `FILE` with the key of the certificate")
	f.StringVar(&o.tokenFile, "token-file", "", "`FILE` with the tokens that clients must send; mode 0600")
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

// check returns an error for flags that contradict each other and for an invalid SOURCE.
func (o *serveOptions) check(source string) error {
	switch {
	case !o.plain:
		return usageError{errors.New("say how to serve: --plain")}
	case (o.tlsCert == "") != (o.tlsKey == ""):
		return usageError{errors.New("--tls-cert and --tls-key: name both files, or none")}
	case o.delay < 0:
		return usageError{fmt.Errorf("--delay %v: must not be negative", o.delay)}
	case o.fail.value+o.truncate.value+o.corrupt.value+o.hang.value > 1:
		return usageError{errors.New("--fail, --truncate, --corrupt and --hang are more than 100% together")}
	}
	return stack.CheckSource(source)
}

// upstreamLimit bounds a request to a remote SOURCE. A client of this server waits 10 s for an
// answer, so an error must be earlier.
const upstreamLimit = 8 * time.Second

// runServe serves until the context of cmd ends.
func runServe(cmd *cobra.Command, source string, o *serveOptions) error {
	if err := o.check(source); err != nil {
		return err
	}
	ctx := cmd.Context()
	options, err := o.tls(noticeLogger(cmd))
	if err != nil {
		return err
	}
	remote := remoteEnvironment()
	remote.Limits = fetch.Limits{First: upstreamLimit, Read: upstreamLimit}
	remote.Log = options.Log
	store, _, err := stack.OpenRead(ctx, source, o.bare, remote)
	if err != nil {
		return fmt.Errorf("%s: %w", source, err)
	}
	defer store.Close()
	listener, err := serve.Listen(ctx, o.listen)
	if err != nil {
		return o.listenError(err)
	}
	var count serve.Counter
	handler, err := o.requireToken(listener, count.Handler(o.faulty(web.NewHandler(store))), options.Log)
	if err == nil {
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s://%s/\n", o.scheme(), listener.Addr())
	}
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	err = serve.Run(ctx, listener, handler, options)
	fmt.Fprintf(cmd.ErrOrStderr(), "%s: %v\n", cmd.CommandPath(), count.Stats())
	return err
}

// scheme returns the scheme of the address.
func (o *serveOptions) scheme() string {
	if o.tlsCert != "" {
		return "https"
	}
	return "http"
}

// tls returns the options of the server, with the certificate of the flags if there is one.
func (o *serveOptions) tls(log *slog.Logger) (serve.Options, error) {
	options := serve.Options{Log: log}
	if o.tlsCert == "" {
		return options, nil
	}
	var err error
	if options.TLS, err = serve.TLS(o.tlsCert, o.tlsKey, log); err != nil {
		return options, usageError{fmt.Errorf("--tls-cert, --tls-key: %w", err)}
	}
	return options, nil
}

// requireToken returns h, with --token-file only for clients with a token. It refuses an address
// that sends tokens over the network without TLS.
func (o *serveOptions) requireToken(l net.Listener, h http.Handler, log *slog.Logger) (http.Handler, error) {
	if o.tokenFile == "" {
		return h, nil
	}
	tcp, ok := l.Addr().(*net.TCPAddr)
	if o.tlsCert == "" && !(ok && tcp.IP.IsLoopback()) {
		return nil, usageError{fmt.Errorf("--token-file: without TLS the tokens would cross the network as plain text, and %s is no loopback address; add --tls-cert and --tls-key", o.listen)}
	}
	h, err := serve.RequireToken(o.tokenFile, h, log)
	if err != nil {
		return nil, usageError{fmt.Errorf("--token-file: %w", err)}
	}
	return h, nil
}

// faulty returns h with the faults of the flags.
func (o *serveOptions) faulty(h http.Handler) http.Handler {
	return faulty.Handler(h, faulty.Options{
		Delay: o.delay, Bandwidth: o.bandwidth.value, Each: o.each.value,
		Fail: float64(o.fail.value), Truncate: float64(o.truncate.value), Corrupt: float64(o.corrupt.value), Hang: float64(o.hang.value),
		Seed: o.seed,
	})
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
