package web

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// Bounds of what a server may make us keep.
const (
	maxHeader   = 64 << 10
	maxRedirect = 5
	idleFor     = time.Minute // then a server may have moved
)

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
		DialContext:            (&net.Dialer{Timeout: o.Connect}).DialContext,
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

// errProxy says that nobody can be asked. What the environment names may hold a password.
var errProxy = errors.New("the proxy that the environment names has no address that makes sense")

// proxy returns the proxy that the environment names for a request.
func proxy(r *http.Request) (*url.URL, error) {
	u, err := http.ProxyFromEnvironment(r)
	if err != nil {
		return nil, errProxy
	}
	return u, nil
}

// errRedirect is why a redirect is not followed.
type errRedirect struct{ error }

// redirectsFrom returns the rule for redirects of a store at base: few, not from https to
// http, and not from a public server into the network that we are in.
func redirectsFrom(base *url.URL) func(*http.Request, []*http.Request) error {
	inside := isInside(base.Hostname())
	return func(r *http.Request, via []*http.Request) error {
		before := via[len(via)-1].URL.Scheme
		switch {
		case len(via) > maxRedirect:
			return errRedirect{errors.New("too many redirects")}
		case r.URL.Scheme != before && (before != "http" || r.URL.Scheme != "https"):
			return errRedirect{errors.New("a redirect leads from " + before + " to another scheme")}
		case !inside && isInside(r.URL.Hostname()):
			return errRedirect{errors.New("a redirect leads from a public server to an address that is not")}
		}
		r.Header.Del("Referer")
		return nil
	}
}

// isInside says whether a host is this machine, or in a network that is not public, as far
// as its name tells. What only some resolvers take for an address ("127.1", "0x7f000001") is
// no public host.
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
	ip = ip.Unmap()
	return ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast() || ip.IsLinkLocalMulticast() || ip.IsUnspecified()
}
