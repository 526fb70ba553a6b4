package fetch_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/fetch"
	"github.com/xetfs/xetfs/codec/codectest"
)

// The types and results of DNS that the tests use.
const (
	typeA    = 1
	typeAAAA = 28

	noError  = 0
	servFail = 2
	nxDomain = 3
	noAnswer = -1 // no datagram at all
)

// A nameServer answers lookups of any name in this process.
type nameServer struct {
	lookups atomic.Int64 // of addresses of IPv4
	answer  func(n int64, kind uint16) (code int, ips []net.IP)
}

// serveNames makes all lookups of this process use a name server until the end of the test.
func serveNames(t *testing.T, answer func(n int64, kind uint16) (code int, ips []net.IP)) *nameServer {
	t.Helper()
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	s := &nameServer{answer: answer}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.serve(conn)
	}()
	usual := net.DefaultResolver
	done, end := context.WithCancel(context.Background())
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		if done.Err() != nil {
			return nil, done.Err()
		}
		c, err := new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
		if err == nil {
			context.AfterFunc(done, func() { c.Close() })
		}
		return c, err
	}}
	t.Cleanup(func() {
		net.DefaultResolver = usual
		end() // lookups without an answer would wait for 5 s
		conn.Close()
		<-ended
	})
	return s
}

func (s *nameServer) serve(conn *net.UDPConn) {
	for b := make([]byte, 512); ; {
		n, from, err := conn.ReadFrom(b)
		if err != nil {
			return
		}
		if answer := s.reply(b[:n]); answer != nil {
			_, _ = conn.WriteTo(answer, from)
		}
	}
}

// reply returns the answer to a query with one question; nil: none.
func (s *nameServer) reply(query []byte) []byte {
	end := 12
	for query[end] != 0 {
		end += int(query[end]) + 1
	}
	kind := binary.BigEndian.Uint16(query[end+1:])
	if kind == typeA {
		s.lookups.Add(1)
	}
	code, ips := s.answer(s.lookups.Load(), kind)
	if code == noAnswer {
		return nil
	}
	reply := append([]byte{query[0], query[1], 0x81, 0x80 | byte(code), 0, 1, 0, byte(len(ips)), 0, 0, 0, 0}, query[12:end+5]...)
	for _, ip := range ips {
		reply = append(reply, 0xc0, 12, 0, byte(kind), 0, 1, 0, 0, 0, 0, 0, byte(len(ip)))
		reply = append(reply, ip...)
	}
	return reply
}

var loopback = net.IPv4(127, 0, 0, 1).To4()

// named returns a client of the server at a port, by a name, and a request.
func named(t *testing.T, port string, o fetch.Options) (*fetch.Client, fetch.Request) {
	t.Helper()
	address := "http://store.example:" + port
	return newClient(t, address, o), fetch.Request{Key: "k", URL: address + "/k"}
}

// portOf returns the port of an address.
func portOf(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }

// values serves "value".
var values = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader("value"))
})

// N12: a name server without a useful answer costs the lookup limit and an attempt.
func TestN12_Names(t *testing.T) {
	server := httptest.NewServer(values)
	defer server.Close()
	for _, tt := range []struct {
		name   string
		answer func(n int64, kind uint16) (int, []net.IP)
		text   string // of the error; "": none
	}{
		{"NXDOMAIN", func(int64, uint16) (int, []net.IP) { return nxDomain, nil }, "no such host"},
		{"no address", func(int64, uint16) (int, []net.IP) { return noError, nil }, "no such host"},
		{"SERVFAIL at first", afterLookups(4, servFail), ""},
		{"silent at first", afterLookups(1, noAnswer), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			serveNames(t, tt.answer)
			c, r := named(t, portOf(server.URL), fetch.Options{Connect: 500 * time.Millisecond, Pause: time.Millisecond, Limits: fetch.Limits{Read: time.Minute}})
			start := time.Now()
			b, _, err := c.Get(t.Context(), r, 100)
			switch {
			case tt.text == "" && (err != nil || string(b) != "value"):
				t.Errorf("Get = %q, %v", b, err)
			case tt.text != "" && (!errors.Is(err, origin.ErrUnavailable) || !strings.Contains(fmt.Sprint(err), tt.text)):
				t.Errorf("Get = %v, want %q", err, tt.text)
			}
			if took := time.Since(start); took > 30*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// afterLookups answers with a code until there were n lookups.
func afterLookups(n int64, code int) func(int64, uint16) (int, []net.IP) {
	return func(i int64, kind uint16) (int, []net.IP) {
		switch {
		case i <= n:
			return code, nil
		case kind == typeA:
			return noError, []net.IP{loopback}
		}
		return noError, nil
	}
}

// swallowing returns a listener that swallows connections, as a dropped packet does: its queue is
// full.
func swallowing(t *testing.T, domain int, address unix.Sockaddr) (port string) {
	t.Helper()
	fd, err := unix.Socket(domain, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := errors.Join(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1), unix.Bind(fd, address), unix.Listen(fd, 0)); err != nil {
		t.Skip(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	number, host := 0, "127.0.0.1"
	switch a := name.(type) {
	case *unix.SockaddrInet4:
		number = a.Port
	case *unix.SockaddrInet6:
		number, host = a.Port, "[::1]"
	}
	for range 10 { // until one is swallowed
		conn, err := net.DialTimeout("tcp", fmt.Sprint(host, ":", number), 200*time.Millisecond)
		if err != nil {
			return fmt.Sprint(number)
		}
		t.Cleanup(func() { conn.Close() })
	}
	t.Skip("this machine does not swallow connections")
	return ""
}

// listenToo listens on an address at the port of open, which returns other ports while that is taken.
func listenToo(t *testing.T, address string, open func() (port string)) (l net.Listener, port string) {
	t.Helper()
	var err error
	for range 10 {
		port = open()
		if l, err = net.Listen("tcp4", address+":"+port); err == nil {
			return l, port
		}
	}
	t.Skip(err)
	return nil, ""
}

// N02: a connection that is never made ends at the connect limit. It counts as lost, so that the
// read ends at its own deadline.
func TestN02_Swallowed(t *testing.T) {
	port := swallowing(t, unix.AF_INET, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	c := newClient(t, "http://127.0.0.1:"+port, fetch.Options{Connect: 100 * time.Millisecond, Pause: time.Millisecond, Limits: fetch.Limits{First: time.Second}})
	start := time.Now()
	_, _, err := c.Get(t.Context(), fetch.Request{Key: "k", URL: "http://127.0.0.1:" + port + "/k"}, 100)
	if !errors.Is(err, origin.ErrUnavailable) || !strings.Contains(err.Error(), "i/o timeout") {
		t.Errorf("Get = %v", err)
	}
	if took := time.Since(start); took < time.Second || took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
}

// N13: the address of IPv6 swallows connections, and that of IPv4 is good.
func TestN13_OnlyIPv4(t *testing.T) {
	listener, port := listenToo(t, "127.0.0.1", func() string {
		return swallowing(t, unix.AF_INET6, &unix.SockaddrInet6{Addr: [16]byte{15: 1}})
	})
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: values}}
	server.Start()
	defer server.Close()
	serveNames(t, func(_ int64, kind uint16) (int, []net.IP) {
		switch kind {
		case typeA:
			return noError, []net.IP{loopback}
		case typeAAAA:
			return noError, []net.IP{net.IPv6loopback}
		}
		return noError, nil
	})
	o := fetch.Options{Connect: time.Minute}
	c, r := named(t, port, o)
	start := time.Now()
	b, _, err := c.Get(t.Context(), r, 100)
	if err != nil || string(b) != "value" {
		t.Fatalf("Get = %q, %v", b, err)
	}
	t.Logf("the first read took %v", time.Since(start))
	if took := time.Since(start); took >= o.Connect {
		t.Errorf("it took %v", took)
	}
}

// O33: a name moves to another address, and the old one is closed or silent.
func TestO33_NameMoves(t *testing.T) {
	for name, isSilent := range map[string]bool{"the old address is closed": false, "the old address is silent": true} {
		t.Run(name, func(t *testing.T) {
			var gone atomic.Bool
			var first *httptest.Server
			listener, port := listenToo(t, "127.0.0.2", func() string {
				first = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if gone.Load() {
						silent(w, r)
						return
					}
					values(w, r)
				}))
				t.Cleanup(first.Close)
				return portOf(first.URL)
			})
			second := &httptest.Server{Listener: listener, Config: &http.Server{Handler: values}}
			second.Start()
			defer second.Close()
			var moved atomic.Bool
			serveNames(t, func(_ int64, kind uint16) (int, []net.IP) {
				switch {
				case kind != typeA:
					return noError, nil
				case moved.Load():
					return noError, []net.IP{net.IPv4(127, 0, 0, 2).To4()}
				}
				return noError, []net.IP{loopback}
			})
			c, r := named(t, port, fetch.Options{Stall: time.Second, Limits: fetch.Limits{Read: time.Minute}})
			if _, _, err := c.Get(t.Context(), r, 100); err != nil {
				t.Fatal(err)
			}
			moved.Store(true)
			gone.Store(true)
			if !isSilent {
				first.CloseClientConnections()
				first.Listener.Close()
			}
			start := time.Now()
			if b, _, err := c.Get(t.Context(), r, 100); err != nil || string(b) != "value" {
				t.Errorf("Get = %q, %v", b, err)
			}
			t.Logf("right %v after the move", time.Since(start))
			if took := time.Since(start); took > 30*time.Second {
				t.Errorf("it took %v", took)
			}
			first.CloseClientConnections()
		})
	}
}

// N14: small packets pass and large ones do not, so that headers arrive and no body does. Each
// attempt ends by the stall limit, and the error names the reason.
func TestN14_LargePacketsLost(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), codectest.Patience)
	defer cancel()
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "100000")
		w.Header().Set("Content-Range", "bytes 0-99999/100000")
		w.WriteHeader(http.StatusPartialContent)
		_ = http.NewResponseController(w).Flush()
		if requests.Add(1) == 3 {
			cancel() // the reader leaves
		}
		silent(w, r)
	}))
	defer server.Close()
	c := newClient(t, server.URL, fetch.Options{Stall: 200 * time.Millisecond, Pause: time.Millisecond})
	err := c.ReadAt(ctx, fetch.Request{Key: "k", URL: server.URL + "/k"}, make([]byte, 100_000), 0, ignore)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "hardly any bytes arrived") {
		t.Errorf("ReadAt = %v", err)
	}
}
