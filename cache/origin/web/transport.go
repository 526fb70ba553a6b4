package web

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
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
		Proxy:                  http.ProxyFromEnvironment,
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
// as its name tells.
func isInside(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	ip = ip.Unmap()
	return ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast() || ip.IsLinkLocalMulticast() || ip.IsUnspecified()
}
