package connlimit

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

// WriteTimeout is the time without a byte that the client accepts, after which a connection is closed.
const WriteTimeout = time.Minute

// A Listener limits the number of all its connections. A connection above the limit
// closes another one. The victim belongs to the client with the most connections, and has moved
// no byte for the longest time. No client has a limit of its own. A connection whose client
// accepts no bytes for WriteTimeout is closed, too.
type Listener struct {
	net.Listener
	maxConns int
	start    time.Time

	mu    sync.Mutex
	conns map[*conn]struct{} // guarded by mu
}

// New limits the connections of l.
func New(l net.Listener, maxConns int) *Listener {
	return &Listener{Listener: l, maxConns: maxConns, start: time.Now(), conns: map[*conn]struct{}{}}
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
			l.closeVictim() // http.Server accepts again soon
		}
		return nil, err
	}
	lc := &conn{Conn: c, l: l, client: clientOf(c.RemoteAddr())}
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
func (l *Listener) closeVictim() {
	if c := l.victim(); c != nil {
		c.abort()
	}
}

// CloseConns closes all connections. A closing TLS connection would first send a message, for
// which a stalled client has no room.
func (l *Listener) CloseConns() {
	for _, c := range l.all() {
		c.abort()
	}
}

// all returns all connections.
func (l *Listener) all() []*conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.conns))
}

// victim returns the connection to close first, or nil without connections.
func (l *Listener) victim() *conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	perClient := map[netip.Addr]int{}
	for c := range l.conns {
		perClient[c.client]++
	}
	var victim *conn
	for c := range l.conns {
		switch {
		case victim == nil, perClient[c.client] > perClient[victim.client],
			perClient[c.client] == perClient[victim.client] && c.lastByte.Load() < victim.lastByte.Load():
			victim = c
		}
	}
	return victim
}

// A conn is a connection of a Listener.
type conn struct {
	net.Conn
	l        *Listener
	client   netip.Addr
	lastByte atomic.Int64 // time of the last byte, in nanoseconds since Listener.start
}

// record sets the time of the last byte if n bytes have moved.
func (c *conn) record(n int) {
	if n > 0 {
		c.lastByte.Store(int64(time.Since(c.l.start)))
	}
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.record(n)
	return n, err
}

// Write implements net.Conn. A slow client may accept p in parts, each within WriteTimeout.
func (c *conn) Write(p []byte) (n int, err error) {
	for {
		if err := c.SetWriteDeadline(time.Now().Add(WriteTimeout)); err != nil {
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
func (c *conn) abort() {
	_ = c.SetLinger(0)
	_ = c.Close()
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.l.mu.Lock()
	delete(c.l.conns, c)
	c.l.mu.Unlock()
	return c.Conn.Close()
}

// SetLinger is that of a TCP connection.
func (c *conn) SetLinger(seconds int) error {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		return tcp.SetLinger(seconds)
	}
	return nil
}
