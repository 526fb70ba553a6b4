package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/origin/cas/casserve"
	"github.com/xetfs/xetfs/cache/origin/faulty"
	"github.com/xetfs/xetfs/cache/origin/fetch"
	"github.com/xetfs/xetfs/cache/origin/hub"
	"github.com/xetfs/xetfs/cache/origin/web"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/serve"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/status"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec"
)

// serveOptions are the flags of serve.
type serveOptions struct {
	plain, bare bool
	public      bool
	writable    bool
	quota       optional[ui.ByteSize]
	listen      string
	tlsCert     string
	tlsKey      string
	tokenFile   string
	publicURL   optional[*url.URL]
	signingKey  string
	status      string // address of the status page; "": none
	memory      optional[ui.ByteSize]
	cache       cacheFlags
	delay       time.Duration
	bandwidth   optional[int64]
	each        optional[int64]
	fail        optional[ui.Share]
	truncate    optional[ui.Share]
	corrupt     optional[ui.Share]
	hang        optional[ui.Share]
	seed        uint64
}

// newServe returns the command that serves a store over HTTP.
func newServe() *cobra.Command {
	o := serveOptions{listen: "localhost:8080"}
	cmd := &cobra.Command{
		Use:   "serve SOURCE",
		Short: "Serve a store to clients of the Hub, mounts and web clients",
		Long: `Serves SOURCE to the clients of the Hugging Face Hub, to mounts and to any HTTP client, on one
address. The first line of output is the address. SIGINT or SIGTERM ends the server. Without
--writable nothing is ever written to SOURCE. The flags from --delay to --seed make it a slow or
faulty server, for tests.`,
		Annotations: see("hub", "origins"),
		Example: `  xetfs serve ./store
  HF_ENDPOINT=http://localhost:8080 hf download owner/name
  xetfs mount http://localhost:8080 /mnt/x
  xetfs serve --plain --delay 50ms --corrupt 1% ./store`,
		Args:              arguments(1, 1),
		ValidArgsFunction: completeFolder,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runServe(cmd, args[0], &o)
		},
	}
	o.addFlags(cmd)
	return cmd
}

// completeFolder lets the shell complete SOURCE.
func completeFolder(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveFilterDirs
}

func (o *serveOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&o.plain, "plain", false, "serve only the objects of SOURCE")
	f.BoolVar(&o.public, "public", false, "let every client read everything")
	f.BoolVar(&o.writable, "writable", false, "accept uploads of clients of the Hub into SOURCE")
	o.quota = newOptional("SIZE", "", ui.ParseSize)
	f.Var(&o.quota, "quota", "limit of the data in SOURCE, with --writable")
	bareFlag(cmd, &o.bare)
	f.StringVar(&o.listen, "listen", o.listen, "`ADDRESS` of the server; port 0 picks a free one")
	f.StringVar(&o.tlsCert, "tls-cert", "", "PEM `FILE` with the certificate and its chain")
	f.StringVar(&o.tlsKey, "tls-key", "", "PEM `FILE` with the key of the certificate")
	settingsFlag(cmd)
	f.StringVar(&o.tokenFile, "token-file", "", "`FILE` with the tokens of clients; mode 0600")
	o.publicURL = newOptional("URL", "", parsePublicURL)
	f.Var(&o.publicURL, "public-url", "address of a proxy in front, like https://HOST")
	o.memory = newOptional("SIZE", ui.ByteSize(stack.DefaultMemory).String(), ui.ParseSize)
	f.Var(&o.memory, "memory", "limit of unpacked chunks in memory")
	o.cache.addFlags(cmd, "disk cache, or off (default ~/.cache/xetfs/disk)")
	f.StringVar(&o.signingKey, "signing-key", "", "`FILE` with a secret, for several servers")
	f.StringVar(&o.status, "status", "", "serve figures on a loopback `ADDRESS`, or unix:PATH")
	f.DurationVar(&o.delay, "delay", 0, "pause before each answer")
	o.bandwidth, o.each = newOptional("RATE", "", ui.ParseRate), newOptional("RATE", "", ui.ParseRate)
	f.Var(&o.bandwidth, "bandwidth", "bytes per second of all answers, like 125MB")
	f.Var(&o.each, "bandwidth-each", "bytes per second of each answer")
	for _, fault := range []struct {
		flag        *optional[ui.Share]
		name, usage string
	}{
		{&o.fail, "fail", "share of answers that fail: 500, 503 or a reset"},
		{&o.truncate, "truncate", "share of answers that end early"},
		{&o.corrupt, "corrupt", "share of answers with a flipped bit"},
		{&o.hang, "hang", "share of requests without an answer"},
	} {
		*fault.flag = newOptional("SHARE", "", ui.ParseShare)
		f.Var(fault.flag, fault.name, fault.usage)
	}
	f.Uint64Var(&o.seed, "seed", 1, "random seed for fault selection")
}

// check returns an error for flags that contradict each other and for an invalid SOURCE.
func (o *serveOptions) check(source string) error {
	switch {
	case o.plain && stack.CheckObjects(source) != nil:
		return usageError{fmt.Errorf("%s: --plain serves the objects of a store, which the Hub does not have", source)}
	case o.plain && o.cache.given("cache-dir", "cache-size", "cache-free") != "":
		return usageError{errors.New("--cache-dir, --cache-size and --cache-free: --plain stores nothing")}
	case o.plain && o.publicURL.given():
		return usageError{errors.New("--public-url: with --plain no answer has an address")}
	case o.public && o.tokenFile != "":
		return usageError{errors.New("--public and --token-file: one of the two decides which clients may read")}
	case (o.tlsCert == "") != (o.tlsKey == ""):
		return usageError{errors.New("--tls-cert and --tls-key: name both files, or none")}
	case o.delay < 0:
		return usageError{fmt.Errorf("--delay %v: must not be negative", o.delay)}
	case o.fail.value+o.truncate.value+o.corrupt.value+o.hang.value > 1:
		return usageError{errors.New("--fail, --truncate, --corrupt and --hang are more than 100% together")}
	}
	if a, err := hub.ParseAddress(source); err == nil && a.Type == hub.Bucket {
		return usageError{fmt.Errorf("%s: a bucket has no revisions, which clients of the Hub need; read it with xetfs mount or xetfs cat", source)}
	}
	if err := o.checkWritable(source); err != nil {
		return err
	}
	if _, ok := hub.ParseOwner(source); ok && o.bare {
		return usageError{fmt.Errorf("%s: --bare is for folders of shards and xorbs, and the Hub has files with names", source)}
	} else if !ok {
		if err := stack.CheckSource(source); !o.writable && err != nil || o.plain {
			return err
		}
	}
	return o.cache.check(source)
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
	if o.status, err = status.AbsAddress(o.status); err != nil {
		return usageError{err}
	}
	remote := remoteEnvironment()
	remote.Limits = fetch.Limits{First: upstreamLimit, Read: upstreamLimit}
	remote.Log = options.Log
	open := o.openSite
	if o.plain {
		open = o.openPlain
	} else if o.writable {
		open = o.openWritable
	} else if _, ok := hub.ParseOwner(source); ok {
		open = o.openOwner
	}
	remote.Counters = new(fetch.Counters)
	site, src, closeSource, err := open(ctx, source, remote)
	if err != nil {
		return err
	}
	defer closeSource()
	listener, err := serve.Listen(ctx, o.listen)
	if err != nil {
		return o.listenError(err)
	}
	address := fmt.Sprintf("%s://%s/", o.scheme(), listener.Addr())
	if site.Access, err = o.access(listener.Addr(), options.Log); err == nil {
		_, err = fmt.Fprintln(cmd.OutOrStdout(), address)
	}
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	var count serve.Counter
	figures := &status.Collector{Source: src, Counters: remote.Counters, Process: newProcess(source)}
	figures.Process.Address = address
	stop, err := serveStatus(cmd, o.status, figures, &count, options.Log)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer stop()
	err = serve.Run(ctx, listener, o.atPublicURL(site.Handler(&count, o.faulty)), options)
	fmt.Fprintf(cmd.ErrOrStderr(), "%s: %v\n", cmd.CommandPath(), count.Stats())
	return err
}

// openPlain opens the objects of SOURCE alone, without layers.
func (o *serveOptions) openPlain(ctx context.Context, source string, remote stack.Remote) (*serve.Site, *stack.Source, func(), error) {
	store, _, err := stack.OpenRead(ctx, source, o.bare, remote)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("%s: %w", source, err)
	}
	return &serve.Site{Plain: web.NewHandler(store, web.HandlerOptions{Private: o.tokenFile != ""})}, nil, func() { store.Close() }, nil
}

// mirrorFollow is the interval at which a mirror looks for a new commit.
const mirrorFollow = 15 * time.Second

// openSite opens SOURCE with all layers, for all APIs.
func (o *serveOptions) openSite(ctx context.Context, source string, remote stack.Remote) (*serve.Site, *stack.Source, func(), error) {
	signer, err := o.signer()
	if err != nil {
		return nil, nil, nil, err
	}
	options := o.sourceOptions(remote, 1)
	if options.Disk, err = o.cacheFolder(source); err != nil {
		return nil, nil, nil, err
	}
	s, err := stack.OpenSource(ctx, source, options)
	if err != nil {
		return nil, nil, nil, err
	}
	for _, w := range s.Warnings {
		remote.Log.Warn(w)
	}
	report, stop := serve.NewReport(remote.Log)
	site := o.site(s, signer, report, remote.Log)
	return site, s, func() { site.Close(); s.Close(); stop() }, nil
}

// cacheFolder returns the folder of the disk cache. A mirror does not share that of another process: it
// has to store what it fetches, or it fetches the same for each client.
func (o *serveOptions) cacheFolder(source string) (*stack.CacheFolder, error) {
	folder, err := o.cache.forSource(source, "")
	if folder == nil || folder.Err != nil || err != nil || !stack.IsHub(source) {
		return folder.TakingOver(), err
	}
	folder.IfBusy = "end it, or name another folder with --cache-dir"
	return folder, nil
}

// sourceOptions returns the options of one of several sources, without a disk cache.
func (o *serveOptions) sourceOptions(remote stack.Remote, sources int64) stack.Options {
	remote.KeepDeleted = true // a mirror serves what it has
	return stack.Options{
		Bare:   o.bare,
		Budget: stack.DivideMemory(stack.LimitMemory(int64(o.memory.value), remote.Log) / sources),
		Log:    remote.Log,
		Ranges: true,
		Count:  o.status != "",
		Remote: remote,
		Follow: mirrorFollow,
		Strict: true, // also of a mirror: no client gets a byte that is not proven
	}
}

// openOwner opens a mirror of all repositories of an owner, which share the disk cache.
func (o *serveOptions) openOwner(_ context.Context, source string, remote stack.Remote) (*serve.Site, *stack.Source, func(), error) {
	signer, err := o.signer()
	if err != nil {
		return nil, nil, nil, err
	}
	folder, err := o.cacheFolder(source)
	if err != nil {
		return nil, nil, nil, err
	}
	options := o.sourceOptions(remote, serve.MaxOpenRepos)
	if options.Shared, err = folder.OpenOrWarn(remote.Log, func(text string) { remote.Log.Warn(text) }); err != nil {
		return nil, nil, nil, err
	}
	name, _ := hub.ParseOwner(source)
	report, stop := serve.NewReport(remote.Log)
	owner := serve.NewOwner(serve.OwnerOptions{Name: name, Signer: signer, Log: remote.Log,
		Open: func(ctx context.Context, id hub.RepoID) (*serve.Site, func(), error) {
			s, err := stack.OpenSource(ctx, id.Source(), options)
			if err != nil {
				return nil, nil, err
			}
			return o.site(s, signer, report, remote.Log), s.Close, nil
		},
	})
	closeAll := func() {
		owner.Close()
		if options.Shared != nil {
			options.Shared.Close()
		}
		stop()
	}
	return &serve.Site{Owner: owner, Plain: http.NotFoundHandler()}, nil, closeAll, nil
}

// site returns the site of an open SOURCE.
func (o *serveOptions) site(s *stack.Source, signer *casserve.Signer, report func(*http.Request, error), log *slog.Logger) *serve.Site {
	repos := serve.NewRepos(s.Stored, s.Cache.Local(), log)
	mirror := mirrorOf(s)
	site := &serve.Site{Content: serve.Content{Reader: s.Reader, Mirror: mirror}, Report: report}
	site.Plain = web.NewHandler(s.Store(), web.HandlerOptions{Private: o.tokenFile != ""})
	if !s.HasObjects() {
		repos = serve.NewMirrorRepos(s.Stored, s.Symbol, func(id codec.FileID) []byte {
			_, sum, _ := s.Origin().ContentHash(id) // a listing shows files without a sum, too
			return sum
		}, log)
		site.Plain = http.NotFoundHandler()
	}
	site.Repos = repos
	if open := xetContent(s, mirror); open != nil {
		site.Xet = serve.NewXet(open, repos, signer, o.tokenFile != "", report)
	}
	return site
}

// mirrorOf returns the mirror of a SOURCE without proofs. nil: SOURCE proves its files, or there is no
// disk cache. A mirror without one would read everything from the Hub for each client.
func mirrorOf(s *stack.Source) *serve.Mirror {
	if src, ok := s.Origin().(serve.MirrorSource); ok && !src.Proves() && s.Disk != nil {
		return serve.NewMirror(src, s.Cache, s.Reader, s.LoadBytes)
	}
	return nil
}

// xetContent returns a function that opens the content of the CAS API. nil: the API is absent.
func xetContent(s *stack.Source, m *serve.Mirror) func(casserve.StoreOptions) casserve.Content {
	if infos := s.Infos(); infos != nil {
		return func(o casserve.StoreOptions) casserve.Content { return casserve.NewContent(s.Store(), infos, o) }
	}
	if m != nil {
		return func(o casserve.StoreOptions) casserve.Content { return casserve.NewMirror(m, o) }
	}
	return nil
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

// signer returns the signer of URLs and tokens, with the key of the flags or a random one.
func (o *serveOptions) signer() (*casserve.Signer, error) {
	var key []byte
	if o.signingKey != "" {
		var err error
		if key, err = serve.ReadKey(o.signingKey); err != nil {
			return nil, usageError{fmt.Errorf("--signing-key: %w", err)}
		}
	}
	return casserve.NewSigner(key)
}

// access returns what clients may read. It refuses an address that sends tokens over the network
// without TLS, and one that other machines can reach without a token.
func (o *serveOptions) access(address net.Addr, log *slog.Logger) (serve.Access, error) {
	tcp, ok := address.(*net.TCPAddr)
	isLoopback := ok && tcp.IP.IsLoopback()
	switch {
	case o.tokenFile == "" && !isLoopback && o.writable:
		return serve.Access{}, usageError{fmt.Errorf("--listen %s: every client that can reach this address could change everything; add --token-file", o.listen)}
	case o.tokenFile == "" && !isLoopback && !o.plain && !o.public:
		return serve.Access{}, usageError{fmt.Errorf("--listen %s: every client that can reach this address could read everything; add --token-file, or --public to allow it", o.listen)}
	case o.tokenFile == "":
		return serve.Access{}, nil
	case o.tlsCert == "" && !isLoopback:
		return serve.Access{}, usageError{fmt.Errorf("--token-file: without TLS the tokens would cross the network as plain text, and %s is no loopback address; add --tls-cert and --tls-key", o.listen)}
	}
	a, err := serve.NewAccess(o.tokenFile, log)
	if err != nil {
		return a, usageError{fmt.Errorf("--token-file: %w", err)}
	}
	o.noteTokens(a, log)
	return a, nil
}

// parsePublicURL reads the address of a proxy. The handlers know no path in front of theirs.
func parsePublicURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil || strings.ContainsAny(text, "?#") {
		return nil, errors.New("write it like https://models.example.org")
	}
	if u.Path != "" && u.Path != "/" {
		return nil, errors.New("a path is not supported; give the server a host name of its own")
	}
	return u, nil
}

// atPublicURL returns a handler that passes requests to h as the proxy of --public-url received them.
// All APIs begin the addresses in their answers with scheme and host of the request.
func (o *serveOptions) atPublicURL(h http.Handler) http.Handler {
	if !o.publicURL.given() {
		return h
	}
	u := o.publicURL.value
	var https *tls.ConnectionState
	if u.Scheme == "https" {
		https = new(tls.ConnectionState) // that of the proxy is not known
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		atProxy := *r
		atProxy.Host, atProxy.TLS = u.Host, https
		h.ServeHTTP(w, &atProxy)
	})
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
