package interop

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin/linktest"
	"github.com/xetfs/xetfs/codec/codectest"
)

var (
	clientsNumber = flag.Int("clients", 16, "clients of TestHubManyClients, a multiple of 16")
	clientsTime   = flag.Duration("clients-time", 5*time.Second, "time for which they read from each server")
	clientsRate   = flag.Int64("clients-rate", 8_000_000, "bytes per second of the link between them and the server")
)

const (
	clientsDelay   = 25 * time.Millisecond
	clientsMemory  = 64 << 20 // of the server for chunks
	clientsSize    = 4 << 20  // of the file
	clientsThreads = 8        // of one Python
	longRun        = time.Minute
)

// Many clients, half hf_xet and half curl, read from one server over a slow link. The memory of the
// server is bounded, and no connection and no goroutine remains. In a long run they get at least 0.9
// of the bytes that as many curl get from a server of plain objects. The load of the machine decides
// a short run.
func TestHubManyClients(t *testing.T) {
	python := filepath.Join(need(t, hubEnv), "bin/python3")
	folder, store := t.TempDir(), filepath.Join(t.TempDir(), "store")
	if err := os.WriteFile(filepath.Join(folder, "file"), codectest.Bytes(1, clientsSize), 0o644); err != nil {
		t.Fatal(err)
	}
	xetfs(t, "publish", store, "org/model", folder)
	plain := manyClients(t, store, "--plain", func(c *clients) {
		for range *clientsNumber {
			c.curl("/" + largestXorb(t, store))
		}
	})
	ours := manyClients(t, store, fmt.Sprint("--memory=", clientsMemory), func(c *clients) {
		for range *clientsNumber / 2 {
			c.curl("/org/model/resolve/main/file")
		}
		for range *clientsNumber / 2 / clientsThreads {
			c.python(python)
		}
	})
	t.Logf("%d clients: %.2f MB/s, from a server of plain objects %.2f MB/s, ratio %.3f", *clientsNumber, ours/1e6, plain/1e6, ours/plain)
	if ours < 0.9*plain && *clientsTime >= longRun {
		t.Errorf("%.3f of the rate of a server of plain objects, at least 0.9 is wanted", ours/plain)
	}
}

// clients read from one server.
type clients struct {
	t       *testing.T
	ctx     context.Context // their end
	address string
	started []chan struct{} // closed when a client has read something
	ended   chan error
	number  int
}

// start runs a client. It is ready when it prints a line, or at once without lines.
func (c *clients) start(cmd *exec.Cmd, lines bool) {
	c.t.Helper()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		c.t.Fatal(err)
	}
	ready := make(chan struct{})
	if c.number++; lines {
		c.started = append(c.started, ready)
	}
	go func() {
		scanner := bufio.NewScanner(out)
		for n := 0; scanner.Scan(); n++ {
			if n == 0 && lines {
				close(ready)
			}
		}
		c.ended <- fmt.Errorf("%w: %s", cmd.Wait(), &stderr)
	}()
}

// curl loads an address again and again.
func (c *clients) curl(path string) {
	c.start(exec.CommandContext(c.ctx, "curl", "--fail", "--fail-early", "--silent", "--show-error", "--output", "/dev/null", c.address+path+"?n=[1-1000000]"), false)
}

// python downloads the file with hf_xet again and again, in several threads.
func (c *clients) python(python string) {
	home := c.t.TempDir()
	cmd := exec.CommandContext(c.ctx, python, "clients.py", "org/model", "file", strconv.Itoa(clientsThreads), home)
	cmd.Env = append(os.Environ(), "HF_ENDPOINT="+c.address, "HF_HOME="+home, "HF_HUB_DISABLE_PROGRESS_BARS=1", "HF_HUB_DISABLE_TELEMETRY=1", "HF_TOKEN=")
	c.start(cmd, true)
}

// manyClients starts a server and its clients, and returns the bytes per second that they get.
func manyClients(t *testing.T, store, how string, start func(*clients)) float64 {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "status")
	server, stop := startServe(t, nil, "--status=unix:"+socket, how, store)
	if r, err := http.Get(server.String() + "org/model/resolve/main/file"); err != nil { // starts what remains
		t.Fatal(err)
	} else {
		r.Body.Close()
	}
	http.DefaultClient.CloseIdleConnections()
	idle := settled(t, socket, 0)
	link := linktest.New(t, "http://"+server.Host, linktest.Options{Delay: clientsDelay, Bandwidth: *clientsRate})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := &clients{t: t, ctx: ctx, address: link.URL, ended: make(chan error, *clientsNumber)}
	start(c)
	wait := func(some <-chan struct{}, most <-chan time.Time) {
		t.Helper()
		select {
		case <-some:
		case <-most:
		case err := <-c.ended:
			t.Fatalf("%s: a client ended: %v", how, err)
		}
	}
	for _, ready := range c.started {
		wait(ready, nil)
	}
	before, begin := link.Bytes(), time.Now()
	wait(nil, time.After(*clientsTime))
	rate := float64(link.Bytes()-before) / time.Since(begin).Seconds()
	busy := figuresOf(t, socket)
	cancel()
	for range c.number {
		<-c.ended
	}
	if busy.Process.RSS > clientsMemory+160<<20 {
		t.Errorf("%s: %d MiB of memory for %d MiB of chunks", how, busy.Process.RSS>>20, clientsMemory>>20)
	}
	most := idle.Process.Goroutines + int64(runtime.NumCPU()) // workers of the first garbage collection
	left := settled(t, socket, most)
	t.Logf("%s: %.2f MB/s; goroutines %d, then %d, in the end %d; %d MiB", how, rate/1e6, idle.Process.Goroutines, busy.Process.Goroutines, left.Process.Goroutines, busy.Process.RSS>>20)
	if left.Process.Goroutines > most || left.Server.Waiting > 0 {
		t.Errorf("%s: %d goroutines and %d requests remain, at most %d and 0 are allowed", how, left.Process.Goroutines, left.Server.Waiting, most)
	}
	stop()
	return rate
}

// figures are those of a server.
type figures struct {
	Process struct {
		Goroutines int64
		RSS        int64 `json:"resident_bytes"`
	}
	Server struct{ Waiting int64 }
}

// settled waits until the number of goroutines is at most some, or does not change, and returns the
// figures.
func settled(t *testing.T, socket string, most int64) (f figures) {
	t.Helper()
	for same := 0; same < 100; time.Sleep(50 * time.Millisecond) {
		next := figuresOf(t, socket)
		if same++; next.Process.Goroutines != f.Process.Goroutines {
			same = 0
		}
		if f = next; f.Process.Goroutines <= most && f.Server.Waiting == 0 || most == 0 && same > 10 {
			break
		}
	}
	return f
}

// figuresOf reads the figures of a server. The connection of each call is closed.
func figuresOf(t *testing.T, socket string) (f figures) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	r, err := client.Get("http://status/stats.json")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if err := json.NewDecoder(r.Body).Decode(&f); err != nil {
		t.Fatal(err)
	}
	return f
}

// largestXorb returns the path of the largest xorb in a store.
func largestXorb(t *testing.T, store string) (path string) {
	t.Helper()
	most := 0
	for name, content := range filesOf(t, store) {
		if strings.HasSuffix(name, ".xorb") && len(content) > most {
			path, most = name, len(content)
		}
	}
	return path
}
