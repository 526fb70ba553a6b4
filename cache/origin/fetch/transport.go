package fetch

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"time"
)

// Bounds of what a server may cause.
const (
	maxHeader   = 64 << 10
	maxRedirect = 5
	maxIdle     = time.Minute // a server may move to another address
)

// transport returns connections that no other pool shares. They speak HTTP/1.1: a store is
// read in few large answers, and one lost packet would delay all answers of one HTTP/2
// connection.
func (o Options) transport(conns int) http.RoundTripper {
	if o.Transport != nil {
		return o.Transport
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:                  proxy,
		OnProxyConnectResponse: checkProxy,
		DialContext:            o.dial,
		TLSHandshakeTimeout:    o.Connect,
		TLSClientConfig:        &tls.Config{RootCAs: o.RootCAs, MinVersion: tls.VersionTLS12},
		Protocols:              protocols,
		MaxConnsPerHost:        conns,
		MaxIdleConns:           conns,
		MaxIdleConnsPerHost:    conns,
		IdleConnTimeout:        maxIdle,
		MaxResponseHeaderBytes: maxHeader,
		DisableCompression:     true,
	}
}

// defaultConns is the default of Options.Conns. A process has several Clients, and opens other files.
func defaultConns() int {
	var descriptors syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &descriptors); err != nil {
		return 64
	}
	return int(min(64, max(2, descriptors.Cur/16)))
}

// dial connects to a server or a proxy. After a redirect of a public server it refuses a
// private address to which a public name leads.
func (o Options) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: o.Connect}
	if ctx.Value(checked{}) != nil {
		d.Control = refuseInside
	}
	return d.DialContext(ctx, network, address)
}

// errProxy is the error of an unusable proxy address. It does not quote the address, which may
// hold a password.
var errProxy = errors.New("the proxy that the environment names has no valid address")

// proxy returns the proxy that the environment names for a request.
func proxy(r *http.Request) (*url.URL, error) {
	u, err := http.ProxyFromEnvironment(r)
	if err != nil {
		return nil, errProxy
	}
	return u, nil
}

// A proxyError is the status of a proxy that refuses to connect.
type proxyError int

func (e proxyError) Error() string { return "the proxy says " + statusText(int(e)) }

// checkProxy returns the error of a proxy's answer to CONNECT.
func checkProxy(_ context.Context, _ *url.URL, _ *http.Request, answer *http.Response) error {
	if answer.StatusCode != http.StatusOK {
		return proxyError(answer.StatusCode)
	}
	return nil
}
