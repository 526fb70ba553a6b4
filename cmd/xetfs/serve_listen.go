package main

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// A bounded is a listener that has so many connections at once and no more: others wait
// until one is closed. Who takes nothing of an answer for writeTimeout is cut off.
type bounded struct {
	net.Listener
	room chan struct{}
	done chan struct{} // closed by Close
	once sync.Once
}

func bound(l net.Listener) *bounded {
	return &bounded{Listener: l, room: make(chan struct{}, serveConns), done: make(chan struct{})}
}

// handler answers as h does. Where half of the connections are taken, nobody keeps one for
// what he may ask later: clients that idle must not keep out others.
func (b *bounded) handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(b.room) > cap(b.room)/2 {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
}

// Accept implements net.Listener.
func (b *bounded) Accept() (net.Conn, error) {
	select {
	case b.room <- struct{}{}:
	case <-b.done:
		return nil, net.ErrClosed
	}
	c, err := b.Listener.Accept()
	if err != nil {
		<-b.room
		return nil, err
	}
	return &boundedConn{Conn: c, leave: sync.OnceFunc(func() { <-b.room })}, nil
}

// Close implements net.Listener.
func (b *bounded) Close() error {
	b.once.Do(func() { close(b.done) })
	return b.Listener.Close()
}

type boundedConn struct {
	net.Conn
	leave func()
}

// Write implements net.Conn.
func (c *boundedConn) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// Close implements net.Conn.
func (c *boundedConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

// SetLinger is that of a TCP connection.
func (c *boundedConn) SetLinger(seconds int) error {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		return tcp.SetLinger(seconds)
	}
	return nil
}
