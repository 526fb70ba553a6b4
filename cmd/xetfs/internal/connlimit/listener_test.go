package connlimit

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/codec/codectest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// startLimited serves with a limit of connections until the test ends.
func startLimited(t *testing.T, most int, h http.HandlerFunc) *Listener {
	t.Helper()
	tcp, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := New(tcp, most)
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return l
}

// askFrom asks over a new connection from an address of loopback.
func askFrom(t *testing.T, from, address string) (answer string, keep net.Conn) {
	t.Helper()
	c := dialFrom(t, from, address)
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("from %s: %v", from, err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatalf("from %s: %v", from, err)
	}
	return string(b), c
}

func dialFrom(t *testing.T, from, address string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.DialContext(t.Context(), "tcp4", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// closed reports whether the server has closed a connection. If want is false it does not wait.
func closed(t *testing.T, c net.Conn, want bool) bool {
	t.Helper()
	limit := time.Millisecond
	if want {
		limit = time.Minute // a read after its deadline reports no end
	}
	if err := c.SetReadDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
	_, err := c.Read(make([]byte, 1))
	return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

// N21: clients that idle after their answers, send nothing, or stall while they read do not
// keep out others. The others have another address or the same.
func TestN21_Limit(t *testing.T) {
	const most = 16
	large := strings.Repeat("x", 1<<20)
	stalling := map[string]func(t *testing.T, address string){
		"idle":         func(t *testing.T, address string) { askFrom(t, "127.0.0.2", address) },
		"send nothing": func(t *testing.T, address string) { dialFrom(t, "127.0.0.2", address) },
		"read nothing": func(t *testing.T, address string) {
			c := dialFrom(t, "127.0.0.2", address)
			for range 20 { // more than fits in the buffers of the kernel
				if _, err := io.WriteString(c, "GET /large HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
					t.Fatal(err)
				}
			}
		},
	}
	for name, stall := range stalling {
		t.Run(name, func(t *testing.T) {
			address := startLimited(t, most, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/large" {
					io.WriteString(w, large) //nolint:errcheck // the client reads nothing
					return
				}
				io.WriteString(w, "done") //nolint:errcheck // the client reports it
			}).Addr().String()
			for range 3 * most {
				stall(t, address)
			}
			codectest.Within(t, codectest.Patience, "others", func() {
				for _, from := range []string{"127.0.0.1", "127.0.0.2"} {
					for range 5 {
						if got, _ := askFrom(t, from, address); got != "done" {
							t.Errorf("from %s: %q", from, got)
						}
					}
				}
			})
		})
	}
}

// N21: the server closes a connection of the address with the most connections. It picks the
// one that has moved no byte for the longest time.
func TestN21_Victim(t *testing.T) {
	const most = 4
	var handled atomic.Int64 // time of the last request, as conn.lastByte
	var l *Listener
	l = startLimited(t, most, func(w http.ResponseWriter, _ *http.Request) {
		handled.Store(int64(time.Since(l.start)))
		io.WriteString(w, "done") //nolint:errcheck // the client reports it
	})
	// A busy server records the last byte of an answer after the client has it.
	recorded := func(c net.Conn) {
		for !slices.ContainsFunc(l.all(), func(at *conn) bool {
			return at.RemoteAddr().String() == c.LocalAddr().String() && at.lastByte.Load() > handled.Load()
		}) {
			time.Sleep(time.Millisecond)
		}
	}
	address := l.Addr().String()
	_, alone := askFrom(t, "127.0.0.1", address) // the oldest of all
	recorded(alone)
	var many []net.Conn
	for range most - 1 {
		_, c := askFrom(t, "127.0.0.2", address)
		recorded(c)
		many = append(many, c)
	}
	// The oldest of the others moves once more.
	if _, err := io.WriteString(many[0], "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	r, err := http.ReadResponse(bufio.NewReader(many[0]), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	recorded(many[0])
	askFrom(t, "127.0.0.3", address)
	for i, c := range append([]net.Conn{alone}, many...) {
		want := i == 2
		if got := closed(t, c, want); got != want {
			t.Errorf("connection %d: closed %t, want %t", i, got, want)
		}
	}
}

// N21: a client is slow, and accepts a part of a long write each minute. Only a client that accepts
// nothing loses its connection.
func TestN21_SlowClient(t *testing.T) {
	const length, parts = 1 << 20, 16
	for _, accepted := range []int{parts, parts / 2} {
		synctest.Test(t, func(t *testing.T) {
			server, client := net.Pipe()
			defer client.Close()
			c := &conn{Conn: server, l: &Listener{start: time.Now(), conns: map[*conn]struct{}{}}}
			defer c.Close()
			var reader sync.WaitGroup
			reader.Go(func() {
				for part := range accepted {
					time.Sleep(WriteTimeout * 3 / 4)
					if _, err := io.ReadFull(client, make([]byte, length/parts)); err != nil {
						t.Errorf("part %d: %v", part, err)
						return
					}
				}
			})
			start, want := time.Now(), accepted*length/parts
			n, err := c.Write(make([]byte, length))
			if n != want || (err == nil) != (want == length) {
				t.Errorf("%d bytes were written after %v, %v; want %d", n, time.Since(start), err, want)
			}
			server.Close()
			reader.Wait()
		})
	}
}

// N21: an IPv6 client is a network of 64 bits.
func TestN21_ClientOf(t *testing.T) {
	for from, want := range map[string]string{
		"192.0.2.1:80": "192.0.2.1", "[::ffff:192.0.2.1]:80": "192.0.2.1",
		"[2001:db8:1:2:3:4:5:6]:80": "2001:db8:1:2::",
	} {
		if got := clientOf(net.TCPAddrFromAddrPort(netip.MustParseAddrPort(from))); got.String() != want {
			t.Errorf("clientOf(%s) = %s, want %s", from, got, want)
		}
	}
}

// A fullListener has no free descriptor.
type fullListener struct{ net.Listener }

func (fullListener) Accept() (net.Conn, error) {
	return nil, &net.OpError{Op: "accept", Err: unix.EMFILE}
}

// Closed connections leave the list. An accept without a free descriptor closes a connection.
func TestLimitListener(t *testing.T) {
	tcp, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	l := New(tcp, 10)
	accept := func() (client, server net.Conn) {
		t.Helper()
		client = dialFrom(t, "127.0.0.1", tcp.Addr().String())
		server, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return client, server
	}
	for range 3 {
		_, c := accept()
		c.Close()
	}
	client, _ := accept()
	if n := len(l.all()); n != 1 {
		t.Errorf("%d connections, want the open one", n)
	}
	l.Listener = fullListener{tcp}
	if _, err := l.Accept(); !errors.Is(err, unix.EMFILE) {
		t.Errorf("Accept = %v", err)
	}
	if n := len(l.all()); n != 0 || !closed(t, client, true) {
		t.Errorf("%d connections are left", n)
	}
}
