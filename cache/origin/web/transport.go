package web

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unicode"
)

// Bounds of what a server may make us keep.
const (
	maxHeader   = 64 << 10
	maxRedirect = 5
	idleFor     = time.Minute // then a server may have moved
)

// conns are the connections for one kind of objects. A caller without a free one waits here and
// not in the transport, where the wait would count as silence of the server.
type conns struct {
	*http.Client
	turns chan struct{}
}

// conns returns up to most connections for a store at base.
func (o Options) conns(base *url.URL, most int) conns {
	client := &http.Client{Transport: o.transport(most), CheckRedirect: redirectsFrom(base, proxy)}
	return conns{client, make(chan struct{}, most)}
}

// turn waits for a free connection. The caller calls leave to release it. turn returns an error
// when ctx ends.
func (c conns) turn(ctx context.Context) (leave func(), err error) {
	select {
	case c.turns <- struct{}{}:
		return sync.OnceFunc(func() { <-c.turns }), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// transport returns connections of their own. They speak HTTP/1.1: a store is read in few
// large answers, and one lost packet would hold up all those of one HTTP/2 connection.
func (o Options) transport(conns int) http.RoundTripper {
	if o.Client != nil {
		return o.Client
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:                  proxy,
		OnProxyConnectResponse: checkProxy,
		DialContext:            o.dial,
		TLSHandshakeTimeout:    o.Connect,
		Protocols:              protocols,
		MaxConnsPerHost:        conns,
		MaxIdleConns:           conns,
		MaxIdleConnsPerHost:    conns,
		IdleConnTimeout:        idleFor,
		MaxResponseHeaderBytes: maxHeader,
		DisableCompression:     true,
	}
}

// checked is the key of contexts of requests that must not reach a private address.
type checked struct{}

// dial connects to a server or a proxy. After a redirect of a public server it refuses a
// private address to which a public name leads.
func (o Options) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: o.Connect}
	if ctx.Value(checked{}) != nil {
		d.Control = refuseInside
	}
	return d.DialContext(ctx, network, address)
}

// refuseInside refuses to connect to a private address. Dialer calls it for each address
// of a name.
func refuseInside(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil || isInsideIP(to.Addr()) {
		return errInside
	}
	return nil
}

// A hop notes whether the last server that was connected to has a private address.
type hop struct{ inside atomic.Bool }

type hopKey struct{}

// trace returns a context for one request, whose redirects check asks.
func (h *hop) trace(ctx context.Context) context.Context {
	ctx = context.WithValue(ctx, hopKey{}, h)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
		to, err := netip.ParseAddrPort(i.Conn.RemoteAddr().String())
		h.inside.Store(err == nil && isInsideIP(to.Addr()))
	}})
}

// errProxy is the error of an unusable proxy address. It does not quote the address, which may
// hold a password.
var errProxy = errors.New("the proxy that the environment names has no address that makes sense")

// proxy returns the proxy that the environment names for a request.
func proxy(r *http.Request) (*url.URL, error) {
	u, err := http.ProxyFromEnvironment(r)
	if err != nil {
		return nil, errProxy
	}
	return u, nil
}

// A proxyError is the status of a proxy that does not let us through.
type proxyError int

func (e proxyError) Error() string { return "the proxy says " + status(int(e)) }

// checkProxy says what a proxy answers that is asked for a way to the server.
func checkProxy(_ context.Context, _ *url.URL, _ *http.Request, answer *http.Response) error {
	if answer.StatusCode != http.StatusOK {
		return proxyError(answer.StatusCode)
	}
	return nil
}

// errRedirect is why a redirect is not followed.
type errRedirect struct{ error }

var errInside = errRedirect{errors.New("a redirect leads from a public server to an address that is not")}

// redirectsFrom returns the rule for redirects of a store at base. It follows few of them, none
// from https to http, and none from a public server into a private network. dial checks the
// address of the connection, unless there is a proxy.
func redirectsFrom(base *url.URL, proxy func(*http.Request) (*url.URL, error)) func(*http.Request, []*http.Request) error {
	inside := isInside(base.Hostname())
	proxied := func(r *http.Request) bool {
		u, err := proxy(r)
		return u != nil && err == nil
	}
	return func(r *http.Request, via []*http.Request) error {
		last := via[len(via)-1]
		before := last.URL.Scheme
		h, _ := r.Context().Value(hopKey{}).(*hop)
		inside := inside || h != nil && h.inside.Load() && !proxied(last)
		switch {
		case len(via) > maxRedirect:
			return errRedirect{errors.New("too many redirects")}
		case r.URL.Scheme != before && (before != "http" || r.URL.Scheme != "https"):
			return errRedirect{errors.New("a redirect leads from " + before + " to another scheme")}
		case !inside && (isInside(r.URL.Hostname()) || !isASCII(r.URL.Hostname())):
			return errInside
		}
		if !inside && !proxied(r) {
			*r = *r.WithContext(context.WithValue(r.Context(), checked{}, true))
		}
		r.Header.Del("Referer")
		return nil
	}
}

// isASCII reports whether a host has only ASCII characters. Other digits and dots become an
// address (1２7．0．0．1) only after the check.
func isASCII(host string) bool {
	return strings.IndexFunc(host, func(r rune) bool { return r > unicode.MaxASCII }) < 0
}

// shared are the addresses between the customers of a provider and the network (RFC 6598).
var shared = netip.MustParsePrefix("100.64.0.0/10")

// isInside reports whether the name of a host is this machine or an address in a private
// network. Names that only some resolvers read as an address ("127.1", "0x7f000001") count as
// inside.
func isInside(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		last := host[strings.LastIndexByte(host, '.')+1:]
		return last == "" || '0' <= last[0] && last[0] <= '9'
	}
	return isInsideIP(ip)
}

func isInsideIP(ip netip.Addr) bool {
	ip = ip.Unmap()
	return shared.Contains(ip) || ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast() || ip.IsLinkLocalMulticast() || ip.IsUnspecified()
}
