package web_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/certtest"
	"github.com/xetfs/xetfs/cache/origin/fetch"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/cache/origin/web"
)

// canary is a token that no error and no log may contain.
const canary = "CANARY-7f3a"

// A guard refuses requests without its token.
type guard struct {
	token    atomic.Value // string: the header; "": all requests are refused
	status   int          // of a refusal; 0: 401
	requests atomic.Int64
	next     http.Handler
}

func newGuard(header string) *guard {
	g := &guard{next: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "value") })}
	g.token.Store(header)
	return g
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.requests.Add(1)
	if want := g.token.Load(); want == "" || r.Header.Get("Authorization") != want {
		w.WriteHeader(cmp.Or(g.status, http.StatusUnauthorized))
		return
	}
	g.next.ServeHTTP(w, r)
}

// through returns the options of a store whose requests h answers.
func through(h http.Handler, read func() (string, error), logTo io.Writer) web.Options {
	return web.Options{Authorization: read, Options: fetch.Options{
		Attempts: 6, Transport: origintest.Transport(h), Logger: slog.New(slog.NewTextHandler(logTo, nil)),
	}}
}

// O03: a token is rotated while many readers wait. All of them get the value.
func TestO03_TokenRotated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int64
		var token atomic.Value
		token.Store("Bearer old")
		g := newGuard("Bearer old")
		var log bytes.Buffer
		s := open(t, "https://store.example", through(g, func() (string, error) {
			reads.Add(1)
			return token.Load().(string), nil
		}, &log))
		get := func() error {
			value, _, err := s.Get(t.Context(), refKey, "")
			if err == nil && string(value) != "value" {
				err = fmt.Errorf("value is %q", value)
			}
			return err
		}
		if err := get(); err != nil {
			t.Fatal(err)
		}
		g.token.Store("Bearer " + canary)
		token.Store("Bearer " + canary)
		reads.Store(0)
		var readers sync.WaitGroup
		for range 100 {
			readers.Go(func() {
				if err := get(); err != nil {
					t.Error(err)
				}
			})
		}
		readers.Wait()
		if n := reads.Load(); n != 1 {
			t.Errorf("the token was read %d times, want 1", n)
		}
		if n := strings.Count(log.String(), "auth_refreshed"); n != 1 || strings.Contains(log.String(), canary) {
			t.Errorf("%d events, want 1: %s", n, &log)
		}
	})
}

// O04: a refused token costs few requests: the pauses double from 1 s to 64 s. A new token ends
// the pause within a second.
func TestO04_TokenRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var token atomic.Value
		token.Store("Bearer " + canary)
		g := newGuard("Bearer right")
		var log bytes.Buffer
		s := open(t, "https://store.example", through(g, func() (string, error) { return token.Load().(string), nil }, &log))
		get := func() error {
			_, _, err := s.Get(t.Context(), refKey, "")
			return err
		}
		start := time.Now()
		var at []int
		for seen := int64(0); time.Since(start) < 300*time.Second; time.Sleep(100 * time.Millisecond) {
			err := get()
			if !errors.Is(err, iofs.ErrPermission) || !strings.Contains(err.Error(), "XETFS_TOKEN_FILE") || strings.Contains(err.Error(), canary) {
				t.Fatal(err)
			}
			if n := g.requests.Load(); n != seen {
				seen = n
				at = append(at, int(time.Since(start).Seconds()))
			}
		}
		if want := "[0 1 3 7 15 31 63 127 191 255]"; fmt.Sprint(at) != want {
			t.Errorf("requests at %v s, want %v", at, want)
		}
		token.Store("Bearer right")
		time.Sleep(time.Second)
		if err := get(); err != nil {
			t.Error(err)
		}
		// The server accepts the token again, without a change here.
		g.token.Store("Bearer other")
		if err := get(); !errors.Is(err, iofs.ErrPermission) {
			t.Error(err)
		}
		g.token.Store("Bearer right")
		time.Sleep(time.Second)
		if err := get(); err != nil {
			t.Error(err)
		}
	})
}

// O04: an answer 304 ends the pause after a refusal, so a poll does not use up the one request of a
// pause.
func TestO04_UnchangedEndsPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const token = "Bearer right"
		g := newGuard(token)
		g.next = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"v1"`)
			if r.Header.Get("If-None-Match") == `"v1"` {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			io.WriteString(w, "value")
		})
		s := open(t, "https://store.example", through(g, func() (string, error) { return token, nil }, io.Discard))
		_, tag, err := s.Get(t.Context(), refKey, "")
		if err != nil {
			t.Fatal(err)
		}
		g.token.Store("")
		if _, _, err := s.Get(t.Context(), refKey, tag); !errors.Is(err, iofs.ErrPermission) {
			t.Fatal(err)
		}
		g.token.Store(token)
		time.Sleep(time.Second)
		if _, _, err := s.Get(t.Context(), refKey, tag); !errors.Is(err, origin.ErrUnchanged) {
			t.Errorf("poll after the pause: %v, want %v", err, origin.ErrUnchanged)
		}
		if _, _, err := s.Get(t.Context(), refKey, ""); err != nil {
			t.Errorf("read after the poll: %v", err)
		}
	})
}

// O03: a server answers 403 to an old token. Each 403 reads the token again, and only a new token
// repeats the request, once.
func TestO03_TokenForbidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int64
		var token atomic.Value
		token.Store("Bearer old")
		g := newGuard("Bearer " + canary)
		g.status = http.StatusForbidden
		var log bytes.Buffer
		s := open(t, "https://store.example", through(g, func() (string, error) {
			reads.Add(1)
			return token.Load().(string), nil
		}, &log))
		steps := []struct {
			name, token     string
			requests, reads int64
			good            bool
		}{
			{"old token", "Bearer old", 1, 2, false}, // the first request reads the token, too
			{"the same again", "Bearer old", 1, 1, false},
			{"another wrong token", "Bearer wrong", 2, 2, false},
			{"right token", "Bearer " + canary, 2, 1, true},
			{"still right", "Bearer " + canary, 1, 0, true},
		}
		for _, step := range steps {
			token.Store(step.token)
			g.requests.Store(0)
			reads.Store(0)
			_, _, err := s.Get(t.Context(), refKey, "")
			if (err == nil) != step.good || err != nil && (!errors.Is(err, iofs.ErrPermission) || !strings.Contains(err.Error(), "403 Forbidden")) {
				t.Errorf("%s: Get = %v, good %v", step.name, err, step.good)
			}
			if n, r := g.requests.Load(), reads.Load(); n != step.requests || r != step.reads {
				t.Errorf("%s: %d requests and %d reads of the token, want %d and %d", step.name, n, r, step.requests, step.reads)
			}
		}
		if n := strings.Count(log.String(), "auth_refreshed"); n != 2 || strings.Contains(log.String(), canary) {
			t.Errorf("%d events, want 2: %s", n, &log)
		}
	})
}

// Each refusal has one sentence with a next step.
func TestRefused(t *testing.T) {
	status := func(code int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
	}
	with := func(header string, err error) func() (string, error) {
		return func() (string, error) { return header, err }
	}
	tests := []struct {
		name, address string
		code          int
		read          func() (string, error)
		want          string
	}{
		{"no token", "https://h", 401, with("", nil), "401 Unauthorized; name a file with a token in XETFS_TOKEN_FILE, or add the host to ~/.netrc"},
		{"no source of tokens", "https://h", 401, nil, "401 Unauthorized; name a file"},
		{"wrong token", "https://h", 401, with("Bearer "+canary, nil), "401 Unauthorized to the token; check the file"},
		{"plain http", "http://h", 401, with("Bearer "+canary, nil), "a token is only sent over https"},
		{"unreadable file", "https://h", 200, with("", errors.New("x: no such file")), "x: no such file"},
		{"forbidden", "https://h", 403, with("Bearer "+canary, nil), "403 Forbidden; check"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := open(t, tt.address, through(status(tt.code), tt.read, io.Discard))
			_, _, err := s.Get(t.Context(), refKey, "")
			if !errors.Is(err, iofs.ErrPermission) || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), canary) {
				t.Errorf("Get = %v, want %q", err, tt.want)
			}
		})
	}
}

// S10: a token is sent to the server of the store only, and only over https or to this machine.
// A server that was left by a redirect does not get it again.
func TestS10_TokenStays(t *testing.T) {
	tests := []struct {
		name, address string
		hops          []string // redirects
		want          []string // hosts that saw the token
	}{
		{"https", "https://a.example", nil, []string{"a.example"}},
		{"http", "http://a.example", nil, nil},
		{"http on this machine", "http://127.0.0.1:80", nil, []string{"127.0.0.1:80"}},
		{"localhost", "http://localhost", nil, []string{"localhost"}},
		{"http inside", "http://10.0.0.1", nil, nil},
		{"same host", "https://a.example", []string{"https://a.example/x"}, []string{"a.example", "a.example"}},
		{"to https", "http://a.example", []string{"https://a.example/x"}, nil},
		{"other host", "https://a.example", []string{"https://b.example/x"}, []string{"a.example"}},
		{"below the host", "https://a.example", []string{"https://b.a.example/x"}, []string{"a.example"}},
		{"other port", "https://a.example", []string{"https://a.example:444/x"}, []string{"a.example"}},
		{"there and back", "https://a.example", []string{"https://b.example/x", "https://a.example/y"}, []string{"a.example"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var seen []string
			n := 0
			h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "" {
					seen = append(seen, r.URL.Host)
				}
				if n++; n <= len(tt.hops) {
					http.Redirect(w, r, tt.hops[n-1], http.StatusFound)
				}
			})
			s := open(t, tt.address, through(h, func() (string, error) { return "Bearer " + canary, nil }, io.Discard))
			if _, _, err := s.Get(t.Context(), refKey, ""); err != nil {
				t.Fatal(err)
			}
			if fmt.Sprint(seen) != fmt.Sprint(tt.want) || n != len(tt.hops)+1 {
				t.Errorf("%v saw the token in %d requests, want %v", seen, n, tt.want)
			}
		})
	}
}

// O03: a token that is rotated in the middle of an object leaves each byte where it belongs.
func TestO03_ReadWhole(t *testing.T) {
	content := origintest.Random(1, 2<<20)
	var token atomic.Value
	token.Store("Bearer old")
	g := newGuard("Bearer old")
	cut := true
	g.next = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if cut {
			cut = false
			w = &cuttingWriter{w, 1 << 20}
			token.Store("Bearer new")
			g.token.Store("Bearer new")
		}
		w.Header().Set("ETag", `"x"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	})
	server := httptest.NewServer(g)
	defer server.Close()
	s := open(t, server.URL, web.Options{
		Authorization: func() (string, error) { return token.Load().(string), nil },
		Options:       fetch.Options{Attempts: 6, Pause: time.Millisecond},
	})
	var got []byte
	err := s.ReadWhole(t.Context(), xorbKey, 0, func(b []byte, _ int64) error {
		got = append(got, b...)
		return nil
	})
	if err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes of %d, %v", len(got), len(content), err)
	}
}

// N18: each problem of TLS has one sentence, and no retries.
func TestN18_TLS(t *testing.T) {
	ca := certtest.NewAuthority(t)
	good := time.Now().Add(time.Hour)
	old := ca.Config(t, "127.0.0.1", good)
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	tests := []struct {
		name   string
		config *tls.Config
		want   string // in the error; "": none
	}{
		{"good", ca.Config(t, "127.0.0.1", good), ""},
		{"expired", ca.Config(t, "127.0.0.1", time.Now().Add(-time.Hour)), "certificate has expired"},
		{"wrong name", ca.Config(t, "other.example", good), "its certificate is not good: "},
		{"unknown authority", certtest.NewAuthority(t).Config(t, "127.0.0.1", good), "unknown authority; add it with SSL_CERT_FILE"},
		{"TLS 1.1", old, "does not speak TLS 1.2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			server := httptest.NewUnstartedServer(newGuard("Bearer x"))
			server.TLS = tt.config
			server.Config.ErrorLog = log.New(io.Discard, "", 0)
			server.StartTLS()
			defer server.Close()
			s := open(t, server.URL, web.Options{
				Authorization: func() (string, error) { return "Bearer x", nil },
				Options:       fetch.Options{RootCAs: ca.Pool, Limits: fetch.Limits{First: time.Minute, Read: time.Minute}},
			})
			_, _, err := s.Get(t.Context(), refKey, "")
			switch {
			case tt.want == "" && err != nil:
				t.Error(err)
			case tt.want != "" && (!errors.Is(err, origin.ErrUnavailable) || tries(err) != 1 || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("Get = %v, want %q", err, tt.want)
			}
		})
	}
}

// N18: a certificate that is changed while a store is open interrupts no read.
func TestN18_CertificateChanged(t *testing.T) {
	ca := certtest.NewAuthority(t)
	var config atomic.Pointer[tls.Config]
	config.Store(ca.Config(t, "127.0.0.1", time.Now().Add(time.Hour)))
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: newGuard("Bearer x"), ReadHeaderTimeout: time.Minute}
	go server.Serve(tls.NewListener(l, &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return config.Load(), nil }}))
	defer server.Shutdown(context.Background())
	s := open(t, "https://"+l.Addr().String(), web.Options{
		Authorization: func() (string, error) { return "Bearer x", nil }, Options: fetch.Options{RootCAs: ca.Pool},
	})
	for i := range 3 {
		config.Store(ca.Config(t, "127.0.0.1", time.Now().Add(time.Hour)))
		server.SetKeepAlivesEnabled(i != 1) // the next request needs a new connection
		if _, _, err := s.Get(t.Context(), refKey, ""); err != nil {
			t.Error(err)
		}
	}
}
