package fetch

import (
	"context"
	"crypto/x509"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xetfs/xetfs/cache/logdedup"
	"github.com/xetfs/xetfs/codec/names"
)

// Options tune a Client. The zero value is right.
type Options struct {
	Conns   int            // maximum number of connections for data; 0: 64, and fewer with less than 1024 descriptors. As many again, up to 16, for names
	Connect time.Duration  // limit for a new connection; 0: 5 s
	Stall   time.Duration  // an attempt ends after this time with less than 1 KiB/s; 0: 10 s
	RootCAs *x509.CertPool // nil: those of the system

	// Transport is for all requests, instead of own connections; nil: own connections. It may return an
	// origin.HintError.
	Transport http.RoundTripper

	Attempts int           // maximum number of answers with an error status per call; 0: 6
	Pause    time.Duration // the first pause between attempts is random, up to this, and then doubles; 0: 200 ms
	Limits   Limits        // of the calls
	Logger   *slog.Logger  // nil: no log

	// NoRedirects makes a redirect an error. A signature is valid for one address only.
	NoRedirects bool

	// Classify returns the error of an answer with a status other than 200, 206, 304 and 416.
	// If it returns nil, the status decides. body has at most 4 KiB, and that of r is closed.
	// origin.ErrUnavailable is temporary, and origin.HintError sets the pause and the number of
	// calls. nil: no call.
	Classify func(r *http.Response, body []byte) error

	// Observe is called with the headers of each answer, also with those of redirects. It must
	// not read the body. nil: no call.
	Observe func(r *http.Response)

	Counters *Counters // of all requests; several Clients may share them; nil: own ones
}

func (o Options) withDefaults() Options {
	if o.Conns == 0 {
		o.Conns = defaultConns()
	}
	if o.Connect == 0 {
		o.Connect = 5 * time.Second
	}
	if o.Stall == 0 {
		o.Stall = 10 * time.Second
	}
	if o.Attempts == 0 {
		o.Attempts = 6
	}
	if o.Pause == 0 {
		o.Pause = 200 * time.Millisecond
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Counters == nil {
		o.Counters = new(Counters)
	}
	o.Logger = slog.New(logdedup.New(o.Logger.Handler(), logdedup.Options{Count: "times"}))
	return o
}

// A Client sends requests to one server. It is safe for concurrent use.
type Client struct {
	o      Options
	limits *limits
	health *health
	hedges hedges
	data   *pool
	names  *pool

	noSuffix atomic.Bool // the server does not return the end of an object
}

// New returns a Client for the server of base, an address with scheme http or https. It sends
// no request.
func New(base *url.URL, o Options) *Client {
	o = o.withDefaults()
	c := &Client{
		o: o, limits: newLimits(o.Limits),
		data: o.newPool(base, o.Conns), names: o.newPool(base, min(o.Conns, 16)),
	}
	c.health = newHealth(o.Logger, func(ctx context.Context) { c.probe(ctx, base) })
	return c
}

// probe sends a request whose answer shows that the server is not down.
func (c *Client) probe(ctx context.Context, base *url.URL) {
	ctx, cancel := context.WithTimeout(ctx, c.o.Stall)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodHead, base.String(), nil)
	if err != nil {
		return
	}
	r.Header.Set("User-Agent", "xetfs")
	resp, err := c.names.Transport.RoundTrip(r)
	if err != nil {
		return
	}
	resp.Body.Close()
	c.health.heard()
}

// Close ends the probes and closes the idle connections.
func (c *Client) Close() {
	c.health.close()
	c.data.CloseIdleConnections()
	c.names.CloseIdleConnections()
}

// A Request names one object of the server.
type Request struct {
	Key    names.Key   // in errors; it may be any name of the object
	URL    string      // escaped
	Names  bool        // use the connections for names, so that the request never waits for data
	Header http.Header // further headers, for example a condition; may be nil

	// Redirected skips the redirects of an earlier request for the same object. nil: each
	// request is redirected.
	Redirected *Redirected

	// Prepare is called before each attempt, also while another one waits for its answer. It
	// adds headers and signs the request. nil: no call.
	Prepare func(*http.Request) error

	// Wait is called before each attempt, and returns when that may be sent, or an error. nil: no call.
	Wait func(ctx context.Context) error
}

func (c *Client) pool(r *Request) *pool {
	if r.Names {
		return c.names
	}
	return c.data
}

// A pool has the connections for one kind of objects. A caller without a free connection waits
// in the limiter. In the transport the wait would count as silence of the server.
type pool struct {
	*http.Client
	*limiter
}

// newPool returns up to most connections to the server of base.
func (o Options) newPool(base *url.URL, most int) *pool {
	redirects := redirectsFrom(base, proxy)
	if o.NoRedirects {
		redirects = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	counted := &countedTransport{o.transport(most), o.Counters}
	client := &http.Client{Transport: observed(counted, o.Observe), CheckRedirect: redirects}
	return &pool{client, newLimiter(most)}
}

// Transport returns a RoundTripper for requests that this package does not make itself, for
// example uploads. It uses the data connections with their proxy and certificate rules. It
// follows no redirect and repeats nothing. The connection is released when the body is closed.
func (c *Client) Transport() http.RoundTripper { return roundTripper{c} }

type roundTripper struct{ c *Client }

// RoundTrip implements http.RoundTripper.
func (t roundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	if err := t.c.health.wait(ctx, callStart(ctx)); err != nil {
		return nil, err
	}
	p := t.c.data
	if err := p.acquire(ctx); err != nil {
		return nil, err
	}
	failed := true // also by a panic
	defer func() {
		if failed {
			p.release(0)
		}
	}()
	start := time.Now()
	resp, err := p.Transport.RoundTrip(r)
	if err != nil {
		if ctx.Err() == nil {
			t.c.health.lost(start)
		}
		return nil, err
	}
	failed = false
	t.c.health.heard()
	noteAnswer(ctx, resp)
	if isBusy(resp.StatusCode) {
		p.congested(start)
	}
	resp.Body = &releasingBody{ReadCloser: resp.Body, release: sync.OnceFunc(func() { p.release(max(0, r.ContentLength)) })}
	return resp, nil
}

// A releasingBody releases its connection when it is closed.
type releasingBody struct {
	io.ReadCloser
	release func()
}

// Close implements io.Closer.
func (b *releasingBody) Close() error {
	defer b.release()
	return b.ReadCloser.Close()
}
