package status

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/xetfs/xetfs/cache/disk"
	"github.com/xetfs/xetfs/cache/histogram"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/serve"
	"github.com/xetfs/xetfs/fs"
	"github.com/xetfs/xetfs/fs/meter"
)

// sample returns figures with a value for each metric.
func sample() Stats {
	now := time.Now()
	latency := histogram.Counts{Count: 3, Seconds: 1.5, Classes: make([]int64, len(histogram.Bounds)+1)}
	latency.Classes[2], latency.Classes[len(histogram.Bounds)] = 2, 1
	var s Stats
	s.Operations = map[string]meter.Stats{"read": {Errors: 1, Latency: latency}, "lookup": {Latency: latency}}
	s.Origin.Requests, s.Origin.FirstByte = 7, latency
	s.Disk = &disk.Stats{State: "full", Bytes: 5}
	s.Shown = []fs.Shown{{Symbol: "org/model", Version: 12, Time: &now}}
	return s
}

func newPage() *Page { return pageOf(Label{"mount", "/mnt/x"}, sample) }

func pageOf(label Label, stats func() Stats) *Page {
	return &Page{
		Label: label, Log: slog.New(slog.DiscardHandler),
		Stats: func() ([]byte, error) { return json.Marshal(stats()) },
	}
}

func handlerOf(t *testing.T, p *Page) http.Handler {
	t.Helper()
	h, err := p.handler()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func metricsText(t *testing.T, label Label, stats func() Stats) string {
	t.Helper()
	w := httptest.NewRecorder()
	handlerOf(t, pageOf(label, stats)).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// The metrics are those of the topic statistics, and promtool has no remark about them.
func TestMetrics(t *testing.T) {
	text := metricsText(t, Label{"mount", "/mnt/x"}, sample)
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("problems %v, %v", problems, err)
	}
	ofServer := metricsText(t, Label{"server", "http://localhost/"}, func() Stats {
		s := sample()
		s.Operations, s.Shown = nil, nil
		s.Server = &Server{Routes: map[string]serve.RouteStats{"hub": {Requests: 9, Bytes: 8, NotFound: 7, Latency: s.Origin.FirstByte}}}
		s.Server.Waiting = 2
		return s
	})
	if problems, err := promlint.New(strings.NewReader(ofServer)).Lint(); err != nil || len(problems) > 0 {
		t.Errorf("problems of a server: %v, %v", problems, err)
	}
	for _, line := range []string{
		`xetfs_serve_requests_total{route="hub",server="http://localhost/"} 9`,
		`xetfs_serve_bytes_total{route="hub",server="http://localhost/"} 8`,
		`xetfs_serve_errors_total{kind="not_found",route="hub",server="http://localhost/"} 7`,
		`xetfs_serve_waiting_requests{server="http://localhost/"} 2`,
		`xetfs_serve_request_duration_seconds_count{route="hub",server="http://localhost/"} 3`,
	} {
		if !strings.Contains(ofServer, line+"\n") {
			t.Errorf("no line %s of a server", line)
		}
	}
	if strings.Contains(ofServer, "xetfs_fuse") || strings.Contains(ofServer, "xetfs_read_bytes") || strings.Contains(text, "xetfs_serve") {
		t.Error("a server has metrics of a mount, or a mount those of a server")
	}
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (\S+)`).FindAllStringSubmatch(text+ofServer, -1) {
		if !strings.HasPrefix(m[1], "xetfs_experimental_") && !slices.Contains(names, m[1]) {
			names = append(names, m[1])
		}
	}
	topic, err := os.ReadFile("../../docs/statistics.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, m := range regexp.MustCompile(`(?m)^\| (xetfs_\w+)`).FindAllStringSubmatch(string(topic), -1) {
		documented = append(documented, m[1])
	}
	slices.Sort(names)
	slices.Sort(documented)
	if !slices.Equal(names, documented) {
		t.Errorf("stable metrics are\n%q, documented are\n%q", names, documented)
	}
	for _, line := range []string{
		`xetfs_origin_requests_total{mount="/mnt/x"} 7`,
		`xetfs_cache_state{mount="/mnt/x",state="full"} 1`,
		`xetfs_shown_version{mount="/mnt/x",symbol="org/model"} 12`,
		`xetfs_fuse_request_duration_seconds_bucket{mount="/mnt/x",operation="read",le="0.0001"} 2`,
		`xetfs_fuse_request_duration_seconds_count{mount="/mnt/x",operation="read"} 3`,
		`xetfs_fuse_errors_total{mount="/mnt/x",operation="read"} 1`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
}

// The path of a mount may be no UTF-8. A label that is no metric is an error.
func TestLabel(t *testing.T) {
	text := metricsText(t, Label{"mount", "/mnt/odd\xff"}, sample)
	if line := "xetfs_origin_requests_total{mount=\"/mnt/odd\ufffd\"} 7\n"; !strings.Contains(text, line) {
		t.Errorf("no line %s", line)
	}
	if _, err := pageOf(Label{"", "/mnt/x"}, sample).handler(); err == nil {
		t.Error("a label without a name is no error")
	}
}

// S18: another Host, another site and methods that change something are refused.
func TestS18_Guard(t *testing.T) {
	page := newPage()
	guarded := page.guard(handlerOf(t, page), &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80})
	tests := []struct {
		method, host string
		header       map[string]string
		want         int
	}{
		{"GET", "localhost:80", nil, 200},
		{"HEAD", "127.0.0.1:80", nil, 200},
		{"GET", "[::1]:80", nil, 200},
		{"GET", "evil.example", nil, 421},
		{"GET", "localhost.evil.example:80", nil, 421},
		{"GET", "10.0.0.1", nil, 421},
		{"POST", "localhost", nil, 405},
		{"PUT", "localhost", nil, 405},
		{"DELETE", "localhost", nil, 405},
		{"OPTIONS", "localhost", nil, 405},
		{"GET", "localhost", map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
		{"GET", "localhost", map[string]string{"Sec-Fetch-Site": "same-site"}, 403},
		{"GET", "localhost", map[string]string{"Sec-Fetch-Site": "same-origin"}, 200},
		{"GET", "localhost", map[string]string{"Origin": "http://evil.example"}, 403},
		{"GET", "localhost", map[string]string{"Origin": "null"}, 403},
		{"GET", "localhost", map[string]string{"Origin": "http://localhost"}, 200},
	}
	for _, tt := range tests {
		for _, path := range []string{"/", "/stats.json", "/metrics"} {
			r := httptest.NewRequest(tt.method, path, nil)
			r.Host = tt.host
			for k, v := range tt.header {
				r.Header.Set(k, v)
			}
			w := httptest.NewRecorder()
			guarded.ServeHTTP(w, r)
			if w.Code != tt.want {
				t.Errorf("%s %s%s %v: %d, want %d", tt.method, tt.host, path, tt.header, w.Code, tt.want)
			}
			if allow := w.Header().Get("Access-Control-Allow-Origin"); allow != "" {
				t.Errorf("%s may read the answer", allow)
			}
		}
	}
}

// S18: only this user may connect to the socket. A stale one is replaced, one in use is not.
func TestS18_Socket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	stale.Close()
	_, stop, err := newPage().Listen(t.Context(), "unix:"+path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if _, _, err := newPage().Listen(t.Context(), "unix:"+path); err == nil || !strings.Contains(err.Error(), "another process listens there") {
		t.Errorf("second server: %v", err)
	}
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
	resp, err := client.Get("http://any/stats.json")
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	client.CloseIdleConnections()
	if err != nil || !json.Valid(b) {
		t.Errorf("%s, %v", b, err)
	}
	stop()
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the socket is left: %v", err)
	}
}

func TestAbsAddress(t *testing.T) {
	for address, good := range map[string]bool{
		"localhost:9180": true, "127.0.0.1:0": true, "[::1]:1": true, "unix:/run/x": true, "unix:x": true, "": true,
		":9180": false, "0.0.0.0:1": false, "example.org:1": false, "9180": false, "unix:": false, "localhost": false,
		"unix:/" + strings.Repeat("x", 106): true, "unix:/" + strings.Repeat("x", 107): false,
	} {
		at, err := AbsAddress(address)
		path, isSocket := strings.CutPrefix(at, unixPrefix)
		if (err == nil) != good || good && isSocket != filepath.IsAbs(path) {
			t.Errorf("%s: %s, %v", address, at, err)
		}
	}
}
