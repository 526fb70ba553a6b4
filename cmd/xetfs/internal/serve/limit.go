package serve

import (
	"errors"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A limitListener limits the number of all its connections. A connection above the limit
// closes another one. The victim belongs to the client with the most connections, and has moved
// no byte for the longest time. No client has a limit of its own. A connection whose client
// accepts no bytes for writeTimeout is closed, too.
type limitListener struct {
	net.Listener
	maxConns int
	start    time.Time

	mu    sync.Mutex
	conns map[*limitConn]struct{} // guarded by mu
}

func limit(l net.Listener, maxConns int) *limitListener {
	return &limitListener{Listener: l, maxConns: maxConns, start: time.Now(), conns: map[*limitConn]struct{}{}}
}

// Accept implements net.Listener.
func (l *limitListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
			l.closeVictim() // http.Server accepts again soon
		}
		return nil, err
	}
	lc := &limitConn{Conn: c, l: l, client: clientOf(c.RemoteAddr())}
	lc.record(1)
	l.mu.Lock()
	l.conns[lc] = struct{}{}
	full := len(l.conns) > l.maxConns
	l.mu.Unlock()
	if full {
		l.closeVictim()
	}
	return lc, nil
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

// closeVictim closes one connection, if there are any.
func (l *limitListener) closeVictim() {
	if c := l.victim(); c != nil {
		c.abort()
	}
}

// closeConns closes all connections. A closing TLS connection would first send a message, for
// which a stalled client has no room.
func (l *limitListener) closeConns() {
	for _, c := range l.all() {
		c.abort()
	}
}

// all returns all connections.
func (l *limitListener) all() []*limitConn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.conns))
}

// victim returns the connection to close first, or nil without connections.
func (l *limitListener) victim() *limitConn {
	l.mu.Lock()
	defer l.mu.Unlock()
	perClient := map[netip.Addr]int{}
	for c := range l.conns {
		perClient[c.client]++
	}
	var victim *limitConn
	for c := range l.conns {
		switch {
		case victim == nil, perClient[c.client] > perClient[victim.client],
			perClient[c.client] == perClient[victim.client] && c.lastByte.Load() < victim.lastByte.Load():
			victim = c
		}
	}
	return victim
}

// A limitConn is a connection of a limitListener.
type limitConn struct {
	net.Conn
	l        *limitListener
	client   netip.Addr
	lastByte atomic.Int64 // time of the last byte, in nanoseconds since limitListener.start
}

// record sets the time of the last byte if n bytes have moved.
func (c *limitConn) record(n int) {
	if n > 0 {
		c.lastByte.Store(int64(time.Since(c.l.start)))
	}
}

// Read implements net.Conn.
func (c *limitConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.record(n)
	return n, err
}

// Write implements net.Conn. A slow client may accept p in parts, each within writeTimeout.
func (c *limitConn) Write(p []byte) (n int, err error) {
	for {
		if err := c.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
			return n, err
		}
		part, err := c.Conn.Write(p[n:])
		c.record(part)
		if n += part; part == 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
	}
}

// abort closes the connection and drops unsent bytes.
func (c *limitConn) abort() {
	_ = c.SetLinger(0)
	_ = c.Close()
}

// Close implements net.Conn.
func (c *limitConn) Close() error {
	c.l.mu.Lock()
	delete(c.l.conns, c)
	c.l.mu.Unlock()
	return c.Conn.Close()
}

// SetLinger is that of a TCP connection.
func (c *limitConn) SetLinger(seconds int) error {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		return tcp.SetLinger(seconds)
	}
	return nil
}
