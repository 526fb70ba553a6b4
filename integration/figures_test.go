package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/integration/internal/harness"
)

// onSocket returns the answer of a status page that listens on a socket.
func onSocket(t *testing.T, socket, path string) string {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Get("http://socket/" + path) //nolint:noctx // a test
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v\n%s", path, resp.Status, err, text)
	}
	return string(text)
}

// statusTexts returns all that a status page shows.
func statusTexts(t *testing.T, socket string) (all string) {
	t.Helper()
	for _, path := range []string{"", "stats.json", "metrics"} {
		all += onSocket(t, socket, path)
	}
	return all
}

// Requests are the figures of one client or of one API.
type requestFigures struct {
	Requests int64 `json:"requests"`
	Bytes    int64 `json:"bytes"`
	NotFound int64 `json:"not_found"`
	Errors   int64 `json:"errors"`
	Lost     int64 `json:"lost"`
}

// metricOf returns the value of a metric; labels is a regular expression.
func metricOf(t *testing.T, metrics, name, labels string) (value int64) {
	t.Helper()
	line := regexp.MustCompile(`(?m)^` + name + `\{` + labels + `\} (\S+)$`).FindStringSubmatch(metrics)
	if line == nil {
		t.Fatalf("no metric %s{%s} in\n%s", name, labels, metrics)
	}
	var f float64
	if _, err := fmt.Sscan(line[1], &f); err != nil {
		t.Fatal(err)
	}
	return int64(f)
}

// The figures of a server are those of a script of requests, and those of a mount that reads from
// it. The script has fewer requests than those after which a client sends a request twice.
func TestFiguresOfServer(t *testing.T) {
	t.Parallel()
	harness.NeedFuse(t)
	folder, store, sockets := t.TempDir(), filepath.Join(t.TempDir(), "store"), t.TempDir()
	harness.WriteFile(t, filepath.Join(folder, "a"), harness.Noise(1, 300_000))
	harness.WriteFile(t, filepath.Join(folder, "b"), harness.Noise(2, 200_000))
	harness.Publish(t, store, "org/model", folder)
	ofServer, ofMount := filepath.Join(sockets, "server"), filepath.Join(sockets, "mount")
	server := harness.ServeHub(t, store, "--status=unix:"+ofServer, "--cache-dir=off")

	script := []struct {
		path   string
		status int
	}{
		{"api/models/org/model", 200},
		{"org/model/resolve/main/a", 200},
		{"org/model/resolve/main/absent", 404},
		{"org/model/resolve/no-such-version/a", 404},
		{"v1/reconstructions/" + strings.Repeat("0", 63) + "1", 404},
		{"v1/reconstructions/no-hash", 400},
	}
	var want struct{ hub, cas requestFigures }
	for _, s := range script {
		of := &want.hub
		if strings.HasPrefix(s.path, "v1/") {
			of = &want.cas
		}
		resp, err := http.Get(server.URL + s.path) //nolint:noctx // a test
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != s.status {
			t.Errorf("%s: %s, %v; want %d", s.path, resp.Status, err, s.status)
		}
		of.Requests++
		of.Bytes += n
		switch {
		case s.status == http.StatusNotFound:
			of.NotFound++
		case s.status >= http.StatusBadRequest:
			of.Errors++
		}
	}

	m := harness.MountSource(t, server.URL, "--cache-dir=off", "--status=unix:"+ofMount)
	for _, name := range []string{"a", "b"} {
		if _, err := os.ReadFile(m.Path("org/model", name)); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(m.Path("org/absent")); !os.IsNotExist(err) {
		t.Error(err)
	}
	var mounted struct {
		Origin requestFigures `json:"origin"`
	}
	var served struct {
		Server struct {
			requestFigures
			Routes map[string]requestFigures `json:"routes"`
		} `json:"server"`
	}
	harness.WaitUntil(t, "the figures of the server are those of its clients", func() bool {
		for socket, to := range map[string]any{ofMount: &mounted, ofServer: &served} {
			if err := json.Unmarshal([]byte(onSocket(t, socket, "stats.json")), to); err != nil {
				t.Fatal(err)
			}
		}
		routes := served.Server.Routes
		return routes["hub"] == want.hub && routes["cas"] == want.cas && routes["store"] == mounted.Origin
	})
	sum := want.hub.Requests + want.cas.Requests + mounted.Origin.Requests
	if mounted.Origin.Requests == 0 || mounted.Origin.Bytes < 500_000 || served.Server.Requests != sum || server.Traffic().Requests != sum {
		t.Errorf("the mount: %+v, the server: %+v", mounted.Origin, served.Server)
	}
	metrics, label := onSocket(t, ofServer, "metrics"), `server="`+regexp.QuoteMeta(server.URL)+`"`
	for route, f := range served.Server.Routes {
		for pattern, value := range map[string]int64{
			`xetfs_serve_requests_total\{route="` + route + `",`:                f.Requests,
			`xetfs_serve_bytes_total\{route="` + route + `",`:                   f.Bytes,
			`xetfs_serve_errors_total\{kind="not_found",route="` + route + `",`: f.NotFound,
			`xetfs_serve_errors_total\{kind="status",route="` + route + `",`:    f.Errors,
			`xetfs_serve_errors_total\{kind="lost",route="` + route + `",`:      f.Lost,
		} {
			name, labels, _ := strings.Cut(pattern, `\{`)
			if got := metricOf(t, metrics, name, labels+label); got != value {
				t.Errorf("%s: %d, want %d", pattern, got, value)
			}
		}
	}
	metrics, label = onSocket(t, ofMount, "metrics"), `mount="`+regexp.QuoteMeta(m.Dir)+`"`
	if n := metricOf(t, metrics, "xetfs_origin_requests_total", label); n != mounted.Origin.Requests {
		t.Errorf("%d requests in the metrics, %d in /stats.json", n, mounted.Origin.Requests)
	}
	if n := metricOf(t, metrics, "xetfs_origin_bytes_total", label); n != mounted.Origin.Bytes {
		t.Errorf("%d bytes in the metrics, %d in /stats.json", n, mounted.Origin.Bytes)
	}
}
