package fetch

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"unicode"
)

// A redirectError is the reason why a redirect is not followed.
type redirectError struct{ error }

var errInside = redirectError{errors.New("a redirect leads from a public server to an address that is not")}

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
			return redirectError{errors.New("too many redirects")}
		case r.URL.Scheme != before && (before != "http" || r.URL.Scheme != "https"):
			return redirectError{errors.New("a redirect leads from " + before + " to another scheme")}
		case !inside && (isInside(r.URL.Hostname()) || !isASCII(r.URL.Hostname())):
			return errInside
		}
		if !inside && !proxied(r) {
			*r = *r.WithContext(context.WithValue(r.Context(), checked{}, true))
		}
		if leavesHost(r, via) {
			dropSecrets(r.Header)
			if h != nil && h.moved != nil {
				h.moved(r)
			}
		}
		r.Header.Del("Referer")
		return nil
	}
}

// leavesHost reports whether r or a redirect before it is to another host than the first request.
// A server that the requests left gets no secrets again, because another one named the address.
func leavesHost(r *http.Request, via []*http.Request) bool {
	return slices.ContainsFunc(append(via[1:len(via):len(via)], r), func(r *http.Request) bool { return r.URL.Host != via[0].URL.Host })
}

// dropSecrets removes all headers that only the first server may see, for example a token.
func dropSecrets(h http.Header) {
	for name := range h {
		switch name {
		case "Accept-Encoding", "Cache-Control", "Range", "User-Agent",
			"If-Match", "If-Modified-Since", "If-None-Match", "If-Range":
		default:
			delete(h, name)
		}
	}
}

// A hop records whether the last server of a request has a private address.
type hop struct {
	inside atomic.Bool
	moved  func(*http.Request) // is called with a redirect to another host; nil: no call
}

type hopKey struct{}

// trace returns a context for one request and its redirects.
func (h *hop) trace(ctx context.Context) context.Context {
	ctx = context.WithValue(ctx, hopKey{}, h)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
		to, err := netip.ParseAddrPort(i.Conn.RemoteAddr().String())
		h.inside.Store(err == nil && isInsideIP(to.Addr()))
	}})
}

// checked is the key of contexts of requests that must not reach a private address.
type checked struct{}

// refuseInside refuses to connect to a private address. Dialer calls it for each address
// of a name.
func refuseInside(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil || isInsideIP(to.Addr()) {
		return errInside
	}
	return nil
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

// IsConfidential reports whether only the server can read a request: over TLS, or on this machine.
func IsConfidential(u *url.URL) bool {
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Scheme == "https" || strings.EqualFold(u.Hostname(), "localhost") || err == nil && ip.IsLoopback()
}
