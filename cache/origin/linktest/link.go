package linktest

import (
	"cmp"
	"context"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin/faulty"
)

// Faults are the faults of a Link. The zero value has none.
type Faults struct {
	Reset  int64 // connections are reset after this number of bytes from the server; 0: never
	Cut    int64 // connections end after this number of bytes from the server; 0: never
	Flip   int64 // one bit of this number of bytes from the server is another; 0: none
	Refuse bool  // new connections are reset at once
	Silent bool  // no byte passes, and no connection ends
	Hold   bool  // all bytes wait for the end of this fault, as those that TCP sends again
}

// A Link is a TCP proxy before a server that delays, limits and damages.
type Link struct {
	URL    string
	Faults atomic.Pointer[Faults] // nil: none; it may change at any time

	to     string
	delay  time.Duration
	all    faulty.Pace
	each   int64
	uplink faulty.Pace

	bytes    atomic.Int64 // from the server
	sent     atomic.Int64 // bytes of clients
	requests atomic.Int64
	accepted atomic.Int64
	mu       sync.Mutex
	conns    []*conn // guarded by mu
	closed   bool    // guarded by mu
}

// A conn is one connection of a Link.
type conn struct {
	l              *Link
	client, server net.Conn
	own            faulty.Pace
	passed         int64        // bytes from the server
	sent           atomic.Int64 // bytes of the client
	ended          atomic.Bool  // it is closed
	dead           atomic.Bool  // no byte passes any more
}

// A connection carries up to window bytes that have not arrived. It bounds the rate of one
// connection to a window per round trip, as in TCP.
const (
	window    = 4 << 20
	pieceSize = 16 << 10
)

// A piece is bytes from the server that arrive later.
type piece struct {
	at  time.Time
	b   []byte
	buf *[pieceSize]byte // of b
}

// buffers are those of pieces. The links of a benchmark share the processors with what it measures.
var buffers = sync.Pool{New: func() any { return new([pieceSize]byte) }}

// Options tune a Link.
type Options struct {
	Delay     time.Duration // of the bytes from the server: one round trip
	Bandwidth int64         // bytes per second from the server, of all connections; 0: no limit
	Each      int64         // the same of one connection; 0: no limit
	Uplink    int64         // bytes per second from all clients; 0: no limit
}

// New returns a Link to a server, an address with scheme http, until the end of the test.
func New(t testing.TB, to string, o Options) *Link {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &Link{
		URL: "http://" + listener.Addr().String(), to: strings.TrimPrefix(to, "http://"),
		delay: o.Delay, all: faulty.Pace{Rate: o.Bandwidth}, each: o.Each, uplink: faulty.Pace{Rate: o.Uplink},
	}
	var running sync.WaitGroup
	t.Cleanup(func() {
		listener.Close()
		l.closeAll()
		running.Wait()
	})
	running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			l.serve(t.Context(), client, &running)
		}
	})
	return l
}

// Bytes returns the number of bytes from the server that passed.
func (l *Link) Bytes() int64 { return l.bytes.Load() }

// Sent returns the number of bytes of clients that passed.
func (l *Link) Sent() int64 { return l.sent.Load() }

// Requests returns the number of requests that passed. Each one begins a write of its client.
func (l *Link) Requests() int64 { return l.requests.Load() }

// Connections returns the number of connections that clients have begun, also refused ones.
func (l *Link) Connections() int64 { return l.accepted.Load() }

// ResetAll resets all connections.
func (l *Link) ResetAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		c.reset()
	}
	l.conns = nil
}

// ResetBusiest resets the open connection whose client has sent the most bytes. It reports false if
// none is open.
func (l *Link) ResetBusiest() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = slices.DeleteFunc(l.conns, func(c *conn) bool { return c.ended.Load() })
	if len(l.conns) == 0 {
		return false
	}
	slices.MaxFunc(l.conns, func(a, b *conn) int { return cmp.Compare(a.sent.Load(), b.sent.Load()) }).reset()
	return true
}

// Swallow lets no byte through existing connections any more, as after a change of the network.
// It returns their number.
func (l *Link) Swallow() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		c.dead.Store(true)
	}
	return len(l.conns)
}

func (l *Link) closeAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, c := range l.conns {
		c.close()
	}
}

func (l *Link) faults() Faults {
	if f := l.Faults.Load(); f != nil {
		return *f
	}
	return Faults{}
}

// serve passes bytes between a client and the server.
func (l *Link) serve(ctx context.Context, client net.Conn, running *sync.WaitGroup) {
	l.accepted.Add(1)
	c := &conn{l: l, client: client, own: faulty.Pace{Rate: l.each}}
	server, err := new(net.Dialer).DialContext(ctx, "tcp", l.to)
	if c.server = server; err != nil || l.faults().Refuse {
		c.reset()
		return
	}
	if !l.add(c) {
		c.close()
		return
	}
	pieces := make(chan piece, window/pieceSize)
	running.Go(c.passRequests)
	running.Go(func() { c.readAnswers(pieces) })
	running.Go(func() { c.passAnswers(pieces) })
}

// add registers a connection. It reports false after the end of the test.
func (l *Link) add(c *conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = append(l.conns, c)
	return !l.closed
}

func (c *conn) close() {
	c.client.Close()
	if c.server != nil {
		c.server.Close()
	}
}

// reset ends the connection with an error for the client.
func (c *conn) reset() {
	_ = c.client.(*net.TCPConn).SetLinger(0)
	c.close()
	c.ended.Store(true)
}

// isSilent reports whether bytes are dropped.
func (c *conn) isSilent() bool { return c.dead.Load() || c.l.faults().Silent }

// method begins a request.
var method = regexp.MustCompile("^(GET|HEAD|PUT|POST|DELETE) ")

// hold waits for the end of Faults.Hold.
func (l *Link) hold() {
	for l.faults().Hold && !l.isClosed() {
		time.Sleep(5 * time.Millisecond)
	}
}

func (l *Link) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// passRequests passes bytes of the client.
func (c *conn) passRequests() {
	for b := make([]byte, 32<<10); ; {
		n, err := c.client.Read(b)
		time.Sleep(c.l.uplink.Take(n))
		c.l.hold()
		if n > 0 && !c.isSilent() {
			if method.Match(b[:n]) {
				c.l.requests.Add(1)
			}
			n, _ = c.server.Write(b[:n])
			c.sent.Add(int64(n))
			c.l.sent.Add(int64(n))
		}
		if err != nil {
			c.server.Close()
			c.ended.Store(true)
			return
		}
	}
}

// readAnswers reads bytes of the server.
func (c *conn) readAnswers(pieces chan<- piece) {
	defer close(pieces)
	for {
		buf := buffers.Get().(*[pieceSize]byte) //nolint:forcetypeassert // nothing else is in the pool
		n, err := c.server.Read(buf[:])
		if n > 0 {
			pieces <- piece{time.Now().Add(c.l.delay), buf[:n], buf}
		}
		if err != nil {
			return
		}
	}
}

// passAnswers passes bytes of the server to the client when they are due.
func (c *conn) passAnswers(pieces <-chan piece) {
	for p := range pieces {
		time.Sleep(max(time.Until(p.at), c.own.Take(len(p.b)), c.l.all.Take(len(p.b))))
		c.l.hold()
		if !c.isSilent() {
			c.passAnswer(p.b)
		}
		buffers.Put(p.buf)
	}
	if !c.isSilent() {
		c.client.Close()
	}
}

// flip changes one byte of every n, by their offset in the connection.
func (c *conn) flip(b []byte, n int64) {
	first := ((n/2-c.passed)%n + n) % n
	for i := first; i < int64(len(b)); i += n {
		b[i] ^= 1
	}
}

// passAnswer passes bytes with the faults of the Link.
func (c *conn) passAnswer(b []byte) {
	f := c.l.faults()
	last := f.Reset
	if last == 0 {
		last = f.Cut
	}
	ends := last > 0 && c.passed+int64(len(b)) >= last
	if ends {
		b = b[:max(0, last-c.passed)]
	}
	if f.Flip > 0 {
		c.flip(b, f.Flip)
	}
	n, _ := c.client.Write(b)
	c.passed += int64(n)
	c.l.bytes.Add(int64(n))
	switch {
	case ends && f.Reset > 0:
		c.reset()
	case ends:
		c.close()
	}
}
