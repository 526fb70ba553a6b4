package web_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/fetch"
	"github.com/xetfs/xetfs/cache/origin/linktest"
	"github.com/xetfs/xetfs/cache/origin/web"
	"github.com/xetfs/xetfs/codec/codectest"
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
			if n := conns.Load(); n > 10 { // net/http gives one up that is busy for 50 ms, as on a busy machine
				t.Errorf("%d connections for 20 requests in a row", n)
			}
		})
	}
}

// A reader that has all bytes does not wait for an end that never arrives.
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
	if took := time.Since(start); err != nil || !bytes.Equal(p, value[1000:1100]) || took > time.Minute {
		t.Errorf("ReadAt = %v after %v", err, took)
	}
}

// A second request starts after the first connection is released, because there may be only
// one.
func TestPeekTakesOneConnection(t *testing.T) {
	value := text(3 << 20)
	for name, answer := range map[string]func(http.ResponseWriter, *http.Request, []byte){
		"200":          noSuffix(http.StatusOK),
		"size unknown": noSize,
		"416 with a page": func(w http.ResponseWriter, r *http.Request, value []byte) {
			if strings.HasPrefix(r.Header.Get("Range"), "bytes=-") {
				http.Error(w, "what is that?", http.StatusRequestedRangeNotSatisfiable)
				return
			}
			part(w, r, value)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, serve(t, func(w http.ResponseWriter, r *http.Request) { answer(w, r, value) }), web.Options{Options: fetch.Options{Conns: 1}})
			codectest.Within(t, codectest.Patience, "ReadPart", func() {
				got, err := s.ReadPart(t.Context(), xorbKey, origin.Tail, 50)
				if err != nil || !bytes.Equal(got.Bytes, value[len(value)-50:]) {
					t.Errorf("ReadPart = %d bytes, %v", len(got.Bytes), err)
				}
			})
		})
	}
}

// The wait for a connection in use does not count as silence of the server, and ends with its
// context.
func TestWaitForConnection(t *testing.T) {
	const stall = time.Second
	s := open(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		b := text(2000)
		head(w, 0, 40*int64(len(b)), 40*int64(len(b)))
		for range 40 { // longer than stall, and never silent
			w.Write(b)
			http.NewResponseController(w).Flush()
			select {
			case <-time.After(stall / 30):
			case <-r.Context().Done():
				return
			}
		}
	}), web.Options{Options: fetch.Options{Conns: 1, Stall: stall}})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			if err := s.ReadAt(t.Context(), xorbKey, make([]byte, 80_000), 0); err != nil {
				t.Error(err)
			}
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), stall/3)
	defer cancel()
	err := s.ReadAt(ctx, xorbKey, make([]byte, 80_000), 0)
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, origin.ErrUnavailable) {
		t.Errorf("who leaves: %v", err)
	}
	readers.Wait()
}

// N09: all idle connections died in silence at once, as after a change of the network. They
// cost one attempt in total and not one each.
func TestN09_DeadConnections(t *testing.T) {
	const conns = 8
	var waiting atomic.Int64
	all := make(chan struct{})
	link := linktest.New(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		if waiting.Add(1) == conns {
			close(all)
		}
		<-all
		part(w, r, text(5000))
	}), linktest.Options{})
	s := open(t, link.URL, web.Options{Options: fetch.Options{Stall: 500 * time.Millisecond, Attempts: 4, Pause: time.Millisecond}})
	var readers sync.WaitGroup
	for range conns {
		readers.Go(func() {
			for s.ReadAt(t.Context(), xorbKey, make([]byte, 10), 0) != nil { // on a busy machine
			}
		})
	}
	readers.Wait()
	if n := link.Swallow(); n < conns {
		t.Fatalf("%d connections, want %d", n, conns)
	}
	if err := s.ReadAt(t.Context(), xorbKey, make([]byte, 10), 0); err != nil {
		t.Errorf("ReadAt = %v", err)
	}
}

// A place far behind a small object that comes whole takes no memory.
func TestPeekFarBehind(t *testing.T) {
	s := open(t, serve(t, func(w http.ResponseWriter, _ *http.Request) { w.Write(text(100)) }), web.Options{})
	part, err := s.ReadPart(t.Context(), xorbKey, 1<<40, 10)
	if err != nil || part.Size != 100 || len(part.Bytes) != 0 {
		t.Errorf("ReadPart = %+v, %v", part, err)
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

// A server that wants to speak something else is left at once.
func TestSwitchingProtocols(t *testing.T) {
	s := open(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { c.Close() })
		c.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: other\r\n\r\n"))
	}), web.Options{})
	codectest.Within(t, codectest.Patience, "Size", func() {
		if _, err := s.Size(t.Context(), xorbKey); !errors.Is(err, origin.ErrUnavailable) || tries(err) != 1 {
			t.Errorf("Size = %v, to be tried %d times", err, tries(err))
		}
	})
}
