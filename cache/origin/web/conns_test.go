package web_test

import (
	"bytes"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/web"
)

// counted serves with h and counts the connections.
func counted(t *testing.T, h http.HandlerFunc) (address string, conns *atomic.Int64) {
	t.Helper()
	conns = new(atomic.Int64)
	server := httptest.NewUnstartedServer(h)
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	return server.URL, conns
}

// An answer that is an error costs no connection, nor does one of which the length is not
// said.
func TestConnectionsAreUsedAgain(t *testing.T) {
	value := text(5000)
	tests := []struct {
		name   string
		answer http.HandlerFunc
		ask    func(s *web.Store) error
	}{
		{"absent", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "not here", http.StatusNotFound) }, func(s *web.Store) error {
			_, _, err := s.Get(t.Context(), refKey, "")
			return err
		}},
		{"busy", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, strings.Repeat("busy ", 500), http.StatusServiceUnavailable)
		}, func(s *web.Store) error {
			return s.ReadAt(t.Context(), xorbKey, make([]byte, 100), 1000)
		}},
		{"part", func(w http.ResponseWriter, r *http.Request) { part(w, r, value) }, func(s *web.Store) error {
			return s.ReadAt(t.Context(), xorbKey, make([]byte, 100), 1000)
		}},
		{"part in pieces", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Range", "bytes 1000-1099/5000")
			w.WriteHeader(http.StatusPartialContent)
			http.NewResponseController(w).Flush()
			w.Write(value[1000:1100])
		}, func(s *web.Store) error {
			return s.ReadAt(t.Context(), xorbKey, make([]byte, 100), 1000)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			address, conns := counted(t, tt.answer)
			s := open(t, address, web.Options{})
			for range 20 {
				tt.ask(s)
			}
			if n := conns.Load(); n != 1 {
				t.Errorf("%d connections for 20 requests in a row", n)
			}
		})
	}
}

// Who has all bytes does not wait for an end that does not come.
func TestEndThatDoesNotCome(t *testing.T) {
	value := text(5000)
	s := open(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Range", "bytes 1000-1099/5000")
		w.WriteHeader(http.StatusPartialContent)
		w.Write(value[1000:1100])
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}), web.Options{})
	p := make([]byte, 100)
	start := time.Now()
	err := s.ReadAt(t.Context(), xorbKey, p, 1000)
	if took := time.Since(start); err != nil || !bytes.Equal(p, value[1000:1100]) || took > 5*time.Second {
		t.Errorf("ReadAt = %v after %v", err, took)
	}
}

// A place far behind a small object that comes whole takes no memory.
func TestPeekFarBehind(t *testing.T) {
	s := open(t, serve(t, func(w http.ResponseWriter, _ *http.Request) { w.Write(text(100)) }), web.Options{})
	part, err := s.Peek(t.Context(), xorbKey, 1<<40, 10)
	if err != nil || part.Size != 100 || len(part.Bytes) != 0 {
		t.Errorf("Peek = %+v, %v", part, err)
	}
}

// A server that does not speak HTTP is quoted in brief.
func TestNotHTTP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Write(bytes.Repeat([]byte("x"), 60<<10))
			c.Close()
		}
	}()
	s := open(t, "http://"+l.Addr().String(), web.Options{})
	if _, err := s.Size(t.Context(), xorbKey); !errors.Is(err, origin.ErrUnavailable) || len(err.Error()) > 600 {
		t.Errorf("Size = %.1000v", err)
	}
}
