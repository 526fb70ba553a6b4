package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/connlimit"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/loopback"
	"github.com/xetfs/xetfs/cmd/xetfs/page"
)

// maxConns bounds the connections of a page: each one takes a descriptor from the mount.
const maxConns = 32

// maxSocketPath is the longest path that unix(7) allows, without the zero byte behind it.
const maxSocketPath = 107

// unixPrefix begins an address that is the path of a socket.
const unixPrefix = "unix:"

// AbsAddress makes the path of a socket absolute, because a mount works in "/". It returns an error
// for an address that is neither on loopback nor a socket. "" is returned as it is.
func AbsAddress(address string) (string, error) {
	if address == "" {
		return "", nil
	}
	if err := checkAddress(address); err != nil {
		return "", err
	}
	path, ok := SocketPath(address)
	if !ok {
		return address, nil
	}
	path, err := filepath.Abs(path)
	if err == nil && len(path) > maxSocketPath {
		err = fmt.Errorf("--status unix:%s: the path of a socket has at most %d bytes; choose a shorter one", path, maxSocketPath)
	}
	return unixPrefix + path, err
}

// SocketPath returns the path of an address that is a socket.
func SocketPath(address string) (path string, ok bool) { return strings.CutPrefix(address, unixPrefix) }

func checkAddress(address string) error {
	if path, ok := SocketPath(address); ok {
		if path == "" {
			return fmt.Errorf("--status %q: it names no socket", address)
		}
		return nil
	}
	if !loopback.IsAddress(address) {
		return fmt.Errorf("--status %q: it must be an address on loopback like localhost:9180, or unix:PATH", address)
	}
	return nil
}

// A Label distinguishes the metrics of several processes.
type Label struct{ Name, Value string }

// A Page serves the figures of one mount or server. It changes nothing.
type Page struct {
	Label Label                  // of all metrics
	Stats func() ([]byte, error) // the document /stats.json
	Log   *slog.Logger
}

// Listen serves the page at an address until stop is called. A stale socket is replaced. No other
// user may connect to a socket. Listen returns the address in the form for a browser.
func (p *Page) Listen(ctx context.Context, address string) (at string, stop func(), err error) {
	handler, err := p.handler()
	if err != nil {
		return "", nil, err
	}
	listener, err := listen(ctx, address)
	if err != nil {
		return "", nil, fmt.Errorf("--status %s: %w", address, err)
	}
	at = shown(listener.Addr())
	server := &http.Server{
		Handler: p.guard(handler, listener.Addr()), ReadTimeout: 10 * time.Second, IdleTimeout: 30 * time.Second,
		MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(p.Log.Handler(), slog.LevelDebug),
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := server.Serve(connlimit.New(listener, maxConns)); !errors.Is(err, http.ErrServerClosed) {
			p.Log.Warn("the status page has ended", "event", "status_ended", "err", err)
		}
	}()
	p.Log.Info("the status page is served", "event", "status_ready", "address", at)
	return at, func() {
		server.Close()
		<-ended
	}, nil
}

func shown(a net.Addr) string {
	if a.Network() == "unix" {
		return unixPrefix + a.String()
	}
	return "http://" + a.String() + "/"
}

// listen opens the address. A socket has mode 0600 from the start.
func listen(ctx context.Context, address string) (net.Listener, error) {
	path, ok := SocketPath(address)
	if !ok {
		return loopback.Listen(ctx, address)
	}
	if err := removeStale(ctx, path); err != nil {
		return nil, err
	}
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) { failed = unix.Fchmod(int(fd), 0o600) })
		return errors.Join(err, failed)
	}}
	l, err := config.Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// removeStale removes a socket on which no process listens.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return errors.New("it is a file of another kind")
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err == nil {
		conn.Close()
		return errors.New("another process listens there")
	}
	return os.Remove(path)
}

// guard refuses requests that change something, or that a page of another site may have sent.
func (p *Page) guard(h http.Handler, at net.Addr) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Cache-Control", "no-store")
		switch site := r.Header.Get("Sec-Fetch-Site"); {
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			header.Set("Allow", "GET, HEAD")
			http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
		case at.Network() != "unix" && !isOwnHost(r.Host):
			http.Error(w, "this server has another name", http.StatusMisdirectedRequest)
		case site != "" && site != "same-origin" && site != "none", r.Header.Get("Origin") != "" && r.Header.Get("Origin") != "http://"+r.Host:
			http.Error(w, "the request comes from another site", http.StatusForbidden)
		default:
			h.ServeHTTP(w, r)
		}
	})
}

// isOwnHost reports whether a Host header names this machine by a loopback address. A foreign name
// that leads here would let a foreign page read the figures.
func isOwnHost(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	ip := net.ParseIP(name)
	return name == "localhost" || ip != nil && ip.IsLoopback()
}

// handler serves all paths.
func (p *Page) handler() (http.Handler, error) {
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(newMetricCollector(p.Label, p.decoded)); err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 10 * time.Second}))
	mux.HandleFunc("/stats.json", func(w http.ResponseWriter, _ *http.Request) {
		text, err := p.Stats()
		if err != nil {
			http.Error(w, "the figures cannot be written", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(text) // the client may have gone
	})
	mux.Handle("/", http.FileServerFS(page.Files))
	return mux, nil
}

// decoded returns the figures.
func (p *Page) decoded() (s Stats, err error) {
	text, err := p.Stats()
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	return s, err
}
