// Package loopback opens listeners, and tests for addresses that no other machine can reach.
//
//	IsAddress  checks HOST:PORT
//	Listen     opens a listener; the name localhost needs no resolver
package loopback

import (
	"context"
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// name is the host that is always this machine: RFC 6761, section 6.3.
const name = "localhost"

// IsAddress reports whether address is localhost:PORT or IP:PORT with an IP of the loopback.
func IsAddress(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == name || ip != nil && ip.IsLoopback())
}

// Listen opens a listener for TCP at HOST:PORT; port 0 is a free one. It does not look up localhost,
// which /etc/hosts of a small container may lack. The errors are those of net.Listen.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host != name {
		return new(net.ListenConfig).Listen(ctx, "tcp", address)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", port))
	if errors.Is(err, unix.EADDRNOTAVAIL) { // only IPv6
		return new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("::1", port))
	}
	return l, err
}
