package monitor

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/xetfs/xetfs/integration/internal/harness"
)

const packaging = "../../cmd/xetfs/packaging/"

// startServer starts a server with a status page, for all APIs. It returns their addresses.
func startServer(t *testing.T, store string, flags ...string) (address, page string, stop func()) {
	t.Helper()
	args := slices.Concat([]string{"serve", "--listen=127.0.0.1:0", "--status=127.0.0.1:0"}, flags, []string{store})
	cmd := exec.Command(harness.Program(t), args...)
	cmd.Env = harness.Environment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop = func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	}
	t.Cleanup(stop)
	for _, line := range []struct {
		from io.Reader
		to   *string
	}{{stdout, &address}, {stderr, &page}} {
		text, err := bufio.NewReader(line.from).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		_, rest, ok := strings.Cut(strings.TrimSpace(text), "http://")
		if !ok {
			t.Fatalf("serve prints %q", text)
		}
		*line.to = "http://" + rest
	}
	return address, page, stop
}

// startPrometheus starts a Prometheus with the alert rules, which reads pages each second. It
// returns the address of its API.
func startPrometheus(t *testing.T, pages ...string) (api string) {
	t.Helper()
	dir := t.TempDir()
	rules, err := filepath.Abs(packaging + "alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range pages {
		pages[i] = strings.Trim(strings.TrimPrefix(p, "http://"), "/")
	}
	config := fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%q]\nscrape_configs:\n  - job_name: xetfs\n    static_configs: [{targets: [%s]}]\n",
		rules, strings.Join(pages, ", "))
	harness.WriteFile(t, filepath.Join(dir, "prometheus.yml"), []byte(config))
	free, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	cmd := exec.Command("prometheus", "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return "http://" + address + "/api/v1/"
}

// query returns the number of series that a query finds. ready is false while Prometheus starts.
func query(t *testing.T, api, expression string) (series int, ready bool) {
	t.Helper()
	resp, err := http.Get(api + "query?query=" + url.QueryEscape(expression))
	if err != nil {
		return 0, false
	}
	defer resp.Body.Close()
	var answer struct {
		Status, Error string
		Data          struct{ Result []json.RawMessage }
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return 0, false
	}
	if answer.Status != "success" {
		t.Fatalf("%s: %s", expression, answer.Error)
	}
	return len(answer.Data.Result), true
}

// Each query of the dashboard finds series in a Prometheus that reads a mount and a server.
func TestDashboard(t *testing.T) {
	need(t, "prometheus")
	address, serverPage, _ := startServer(t, publishFiles(t), "--cache-dir=off")
	m := harness.MountSource(t, address, "--symbol=org/model", "--status=127.0.0.1:0", "--cache-dir="+t.TempDir())
	ready, ok := m.Log.Wait(harness.Patience, harness.Event("status_ready"))
	if !ok {
		t.Fatalf("no page:\n%s", m.Log)
	}
	if _, err := os.ReadFile(m.Path("00.bin")); err != nil {
		t.Error(err)
	}
	api := startPrometheus(t, serverPage, ready.Text("address"))
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	text, err := os.ReadFile(packaging + "grafana.json")
	if err == nil {
		err = json.Unmarshal(text, &dashboard)
	}
	if err != nil {
		t.Fatal(err)
	}
	variables := strings.NewReplacer("$__rate_interval", "20s", "$mount", ".+", "$server", ".+")
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			harness.WaitUntil(t, p.Title+" shows "+target.Expr, func() bool {
				series, _ := query(t, api, variables.Replace(target.Expr))
				return series > 0
			})
		}
	}
	if n, _ := query(t, api, "ALERTS"); n != 0 {
		t.Errorf("%d alerts of a good mount and a good server", n)
	}
}

// Promtool accepts the rules, the alerts that series cause, and the metrics of a mount and a server.
func TestPromtool(t *testing.T) {
	promtool := need(t, "promtool")
	for _, args := range [][]string{
		{"check", "rules", packaging + "alerts.yml"},
		{"test", "rules", "testdata/alerts_test.yml"},
	} {
		if out, err := exec.Command(promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %q: %v\n%s", args, err, out)
		}
	}
	address, serverPage, _ := startServer(t, publishFiles(t), "--cache-dir=off")
	m := harness.MountSource(t, address, "--status=127.0.0.1:0", "--cache-dir="+t.TempDir())
	ready, ok := m.Log.Wait(harness.Patience, harness.Event("status_ready"))
	if !ok {
		t.Fatalf("no page:\n%s", m.Log)
	}
	if _, err := os.ReadFile(m.Path("org/model/00.bin")); err != nil {
		t.Error(err)
	}
	for _, page := range []string{serverPage, ready.Text("address")} {
		resp, err := http.Get(page + "metrics")
		if err != nil {
			t.Fatal(err)
		}
		check := exec.Command(promtool, "check", "metrics")
		check.Stdin = resp.Body
		if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("promtool check metrics: %v\n%s", err, out)
		}
		resp.Body.Close()
	}
}
