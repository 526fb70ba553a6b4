package serve

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xetfs/xetfs/cache/origin/certtest"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/connlimit"
)

// canary is a secret that no output may contain.
const canary = "CANARY-7f3a"

func write(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// logTo returns a logger that writes to b.
func logTo(b io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// Only requests with one of the tokens are answered, and those for the statistics, too.
func TestRequireToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	write(t, file, []byte("first\nsecond\n"))
	var count Counter
	a, err := NewAccess(file, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	h := a.RequireAll(count.Handler(http.NotFoundHandler(), new(Site).route))
	tests := []struct {
		path, header string
		status       int
	}{
		{"/x", "Bearer first", 404},
		{"/x", "bearer  second ", 404},
		{StatsPath, "Bearer second", 200},
		{"/x", "", 401},
		{StatsPath, "", 401},
		{"/x", "Bearer", 401},
		{"/x", "Bearer ", 401},
		{"/x", "Bearer third", 401},
		{"/x", "Bearer firs", 401},
		{"/x", "Bearer first\nsecond", 401},
		{"/x", "Basic first", 401},
		{"/x", "first", 401},
	}
	for _, tt := range tests {
		r := httptest.NewRequest(http.MethodGet, tt.path, nil)
		r.Header.Set("Authorization", tt.header)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != tt.status {
			t.Errorf("%s with %q: status %d, want %d", tt.path, tt.header, w.Code, tt.status)
		}
		if got := w.Header().Get("WWW-Authenticate"); (got != "") != (tt.status == 401) {
			t.Errorf("%s with %q: WWW-Authenticate %q", tt.path, tt.header, got)
		}
	}
}

// A token is rotated while the server runs. A file that cannot be used changes nothing, and is
// logged once.
func TestTokenRotated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "tokens")
		write(t, file, []byte("old\n"))
		var log bytes.Buffer
		a, err := NewAccess(file, logTo(&log))
		if err != nil {
			t.Fatal(err)
		}
		h := a.RequireAll(http.NotFoundHandler())
		check := func(token string, want int) {
			t.Helper()
			time.Sleep(reloadEach)
			for range 3 {
				r := httptest.NewRequest(http.MethodGet, "/", nil)
				r.Header.Set("Authorization", "Bearer "+token)
				w := httptest.NewRecorder()
				if h.ServeHTTP(w, r); w.Code != want {
					t.Errorf("%s: status %d, want %d", token, w.Code, want)
				}
			}
		}
		check("old", 404)
		write(t, file, []byte("old\n"+canary+"\n"))
		check("old", 404)
		check(canary, 404)
		write(t, file, []byte(canary+"\n"))
		check("old", 401)
		for _, bad := range []string{"", "two [" + canary} {
			write(t, file, []byte(bad))
			check(canary, 404)
			check(canary, 404)
		}
		if n := strings.Count(log.String(), "the former content remains valid"); n != 2 || strings.Contains(log.String(), canary) {
			t.Errorf("%d notices, want 2: %s", n, &log)
		}
	})
}

// startTLS serves "done" over TLS until the test ends.
func startTLS(t *testing.T, c *tls.Config) (address string) {
	t.Helper()
	l, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "done") }) //nolint:errcheck // the client reports it
	go func() { ended <- Run(ctx, l, h, Options{TLS: c, Log: slog.New(slog.DiscardHandler)}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// handshake connects with c.
func handshake(t *testing.T, address string, c *tls.Config) error {
	t.Helper()
	conn, err := (&tls.Dialer{Config: c}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}

// N18: the certificate is changed while the server runs. New connections get the new one, and a
// file that cannot be used changes nothing. TLS 1.1 is refused.
func TestN18_CertificateChanged(t *testing.T) {
	ca := certtest.NewAuthority(t)
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	renew := func() {
		cert, key := ca.Issue(t, "127.0.0.1", time.Now().Add(time.Hour))
		write(t, certFile, cert)
		write(t, keyFile, key)
	}
	renew()
	r, err := newReloader("it", func() (*tls.Certificate, error) { return loadCertificate(certFile, keyFile) }, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	first := r.get().Leaf.SerialNumber
	renew()
	r.next = time.Time{}
	second := r.get().Leaf.SerialNumber
	write(t, keyFile, nil)
	r.next = time.Time{}
	if third := r.get().Leaf.SerialNumber; first.Cmp(second) == 0 || second.Cmp(third) != 0 {
		t.Errorf("serial numbers are %v, %v, %v", first, second, third)
	}

	renew()
	c, err := TLS(certFile, keyFile, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	address := startTLS(t, c)
	if err := handshake(t, address, &tls.Config{RootCAs: ca.Pool}); err != nil {
		t.Error(err)
	}
	if err := handshake(t, address, &tls.Config{RootCAs: ca.Pool, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}); err == nil {
		t.Error("TLS 1.1 is accepted")
	}
	if err := handshake(t, address, &tls.Config{RootCAs: x509.NewCertPool()}); err == nil {
		t.Error("an unknown authority is accepted")
	}
}

// Files that cannot be used are refused at the start, without their content.
func TestTLSFiles(t *testing.T) {
	dir := t.TempDir()
	cert, key := certtest.NewAuthority(t).Issue(t, "127.0.0.1", time.Now().Add(time.Hour))
	_, other := certtest.NewAuthority(t).Issue(t, "127.0.0.1", time.Now().Add(time.Hour))
	tests := []struct {
		name      string
		cert, key []byte // nil: absent
		want      string
	}{
		{"good", cert, key, ""},
		{"no certificate", nil, key, "cert: no such file"},
		{"no key", cert, nil, "key: no such file"},
		{"not PEM", []byte(canary), key, "failed to find any PEM data"},
		{"key of another", cert, other, "private key does not match"},
		{"large", bytes.Repeat([]byte("x"), maxPEM+1), key, "larger than 1048576 bytes"},
	}
	for _, tt := range tests {
		for name, b := range map[string][]byte{"cert": tt.cert, "key": tt.key} {
			path := filepath.Join(dir, name)
			if os.RemoveAll(path); b != nil {
				write(t, path, b)
			}
		}
		_, err := TLS(filepath.Join(dir, "cert"), filepath.Join(dir, "key"), slog.New(slog.DiscardHandler))
		switch {
		case (err != nil) != (tt.want != ""):
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		case err != nil && (!strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), canary)):
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

// A client that accepts no bytes does not delay the end of a server with TLS.
func TestRunEndsTLS(t *testing.T) {
	ca := certtest.NewAuthority(t)
	c := ca.Config(t, "127.0.0.1", time.Now().Add(time.Hour))
	l, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	started := make(chan struct{})
	large := strings.Repeat("x", 64<<20)
	go func() {
		ended <- Run(ctx, l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			close(started)
			io.WriteString(w, large) //nolint:errcheck // the client reads nothing
		}), Options{TLS: c, Log: slog.New(slog.DiscardHandler)})
	}()
	raw, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	client := tls.Client(raw, &tls.Config{RootCAs: ca.Pool, ServerName: "127.0.0.1"})
	if _, err := io.WriteString(client, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-started
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(connlimit.WriteTimeout / 2):
		t.Error("the server waits for a client that reads nothing")
	}
}
