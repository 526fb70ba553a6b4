package status

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/url"
	"testing"
)

// Clients that leave their connections open take a bounded number of descriptors from a mount.
func TestLimit(t *testing.T) {
	at, stop, err := newPage().Listen(t.Context(), "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	var conns []net.Conn
	for range 3 * maxConns {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", u.Host)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if !answers(c) {
			t.Fatalf("connection %d has no answer", len(conns))
		}
		conns = append(conns, c)
	}
	open := 0
	for _, c := range conns {
		if answers(c) {
			open++
		}
	}
	if open != maxConns {
		t.Errorf("%d connections are open, want %d", open, maxConns)
	}
}

// answers reports whether the page answers a request over c.
func answers(c net.Conn) bool {
	if _, err := io.WriteString(c, "HEAD /stats.json HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		return false
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: http.MethodHead})
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}
