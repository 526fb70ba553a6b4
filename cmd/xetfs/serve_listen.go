package main

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A bounded is a listener with a bound for all its connections. A connection above the bound
// closes another one. The victim belongs to the address with the most connections, and has moved
// no byte for the longest time. No address has a limit of its own. A connection whose client
// accepts no bytes for writeTimeout is closed, too.
type bounded struct {
	net.Listener
	most  int
	start time.Time

	mu    sync.Mutex
	conns map[*boundedConn]struct{} // guarded by mu
}

func bound(l net.Listener, most int) *bounded {
	return &bounded{Listener: l, most: most, start: time.Now(), conns: map[*boundedConn]struct{}{}}
}

// Accept implements net.Listener.
func (b *bounded) Accept() (net.Conn, error) {
	c, err := b.Listener.Accept()
	if err != nil {
		if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
			b.closeOne() // http.Server accepts again soon
		}
		return nil, err
	}
	bc := &boundedConn{Conn: c, b: b, from: clientOf(c.RemoteAddr())}
	bc.move(1)
	b.mu.Lock()
	b.conns[bc] = struct{}{}
	full := len(b.conns) > b.most
	b.mu.Unlock()
	if full {
		b.closeOne()
	}
	return bc, nil
}

// clientOf returns the address that connections are counted for: an IPv6 client has a
// whole network of 64 bits.
func clientOf(a net.Addr) netip.Addr {
	at, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Addr{}
	}
	ip := at.Addr().Unmap()
	if ip.Is6() {
		if p, err := ip.Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return ip
}

// closeOne closes the connection that goes first.
func (b *bounded) closeOne() {
	if c := b.first(); c != nil {
		_ = c.SetLinger(0) // unsent bytes are dropped
		_ = c.Close()
	}
}

// first returns the connection to close first, or nil without connections.
func (b *bounded) first() *boundedConn {
	b.mu.Lock()
	defer b.mu.Unlock()
	held := map[netip.Addr]int{}
	for c := range b.conns {
		held[c.from]++
	}
	var first *boundedConn
	for c := range b.conns {
		switch {
		case first == nil, held[c.from] > held[first.from],
			held[c.from] == held[first.from] && c.moved.Load() < first.moved.Load():
			first = c
		}
	}
	return first
}

type boundedConn struct {
	net.Conn
	b     *bounded
	from  netip.Addr
	moved atomic.Int64 // time of the last byte, in nanoseconds since bounded.start
}

func (c *boundedConn) move(n int) {
	if n > 0 {
		c.moved.Store(int64(time.Since(c.b.start)))
	}
}

// Read implements net.Conn.
func (c *boundedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.move(n)
	return n, err
}

// Write implements net.Conn.
func (c *boundedConn) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(p)
	c.move(n)
	return n, err
}

// Close implements net.Conn.
func (c *boundedConn) Close() error {
	c.b.mu.Lock()
	delete(c.b.conns, c)
	c.b.mu.Unlock()
	return c.Conn.Close()
}

// SetLinger is that of a TCP connection.
func (c *boundedConn) SetLinger(seconds int) error {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		return tcp.SetLinger(seconds)
	}
	return nil
}
