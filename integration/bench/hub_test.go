package bench

import (
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/xetfs/xetfs/cache/origin/linktest"
	"github.com/xetfs/xetfs/integration/internal/harness"
)

var (
	benchHub = flag.Bool("bench-hub", false, "measure mounts of the Hub; needs an otherwise idle machine")
	hubParts = flag.String("bench-hub-parts", "files,random,disk,tree,model,clients,uploads", "the parts to measure")
)

// The peers of TestBenchHub. Their columns are absent without them.
const (
	hfMountEnv  = "XETFS_HF_MOUNT"  // path of hf-mount-fuse
	hfPythonEnv = "XETFS_HF_PYTHON" // a Python with huggingface_hub, hf_xet, numpy and safetensors
)

// The links between the clients and the server. The first one has no proxy, because its work
// would take processor time from the client.
var (
	noLink   = slowLink{name: "0 ms"}
	farLink  = slowLink{"25 ms", linktest.Options{Delay: harness.RemoteDelay}, ""}
	gigabit  = slowLink{"25 ms and 1 Gbit/s", linktest.Options{Delay: harness.RemoteDelay, Bandwidth: 125_000_000}, ""}
	allLink  = slowLink{"100 MB/s", linktest.Options{Delay: harness.RemoteDelay, Bandwidth: 100_000_000}, ""}
	eachLink = slowLink{"50 MB/s per connection", linktest.Options{Delay: harness.RemoteDelay, Each: 50_000_000}, ""}
)

// TestBenchHub measures P14 and P15. All clients that read share one `xetfs serve`, and the machine
// with it. Only ratios of one run count.
func TestBenchHub(t *testing.T) {
	if !*benchHub {
		t.Skip("only with -bench-hub; make bench-hub does it all")
	}
	r := newResults(t)
	b := &hubBench{r: r, store: filepath.Join(t.TempDir(), "store")}
	parts := map[string]func(*testing.T, *hubBench){
		"files": benchHubFiles, "random": benchHubRandom, "disk": benchHubDisk, "tree": benchHubTree, "model": benchHubModel, "clients": benchHubClients, "uploads": benchHubUploads,
	}
	for part := range strings.SplitSeq(*hubParts, ",") {
		measure, ok := parts[part]
		if !ok {
			t.Fatalf("-bench-hub-parts: there is no part %q", part)
		}
		t.Run(part, func(t *testing.T) { measure(t, b) })
	}
	r.report(t, "bench-hub")
}

// A hubBench is a store whose symbols are repositories.
type hubBench struct {
	r     *results
	store string
}

func (b *hubBench) add(row, what, unit, system string, round int, value float64) {
	b.r.add(figure{row, what, unit, system, round, value})
}

// serve serves the store to clients of the Hub until the end of the test.
func (b *hubBench) serve(t *testing.T, flags ...string) *hubServer {
	return &hubServer{harness.ServeHub(t, b.store, flags...)}
}

// A hubServer is a server of repositories.
type hubServer struct{ *harness.RemoteServer }

// Address returns the address that clients need.
func (s *hubServer) Address() string { return strings.TrimSuffix(s.URL, "/") }

// Bytes returns the number of bytes of all answers.
func (s *hubServer) Bytes() int64 { return s.Traffic().Bytes }

// Requests returns the number of all requests.
func (s *hubServer) Requests() int64 { return s.Traffic().Requests }

// CPU returns the processor time in seconds.
func (s *hubServer) CPU() float64 { return secondsOf(s.Cmd.Process.Pid) }

// A hubLink is a way to a server that counts.
type hubLink interface {
	Bytes() int64
	Requests() int64
}

// connect returns the address of the server at the end of a link.
func (s *hubServer) connect(t *testing.T, l slowLink) (address string, link hubLink) {
	if l.Options == (linktest.Options{}) {
		return s.Address(), s
	}
	proxy := linktest.New(t, s.Address(), l.Options)
	return proxy.URL, proxy
}

// exactRanges returns the address of the same server that refuses a part of a signed range.
func (s *hubServer) exactRanges(t *testing.T) string {
	to, err := url.Parse(s.Address())
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	through := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host // which signed addresses begin with
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		signed := r.URL.Query().Get("X-Xet-Signed-Range")
		for span := range strings.SplitSeq(strings.TrimPrefix(r.Header.Get("Range"), "bytes="), ",") {
			if signed != "" && !strings.Contains(strings.ReplaceAll(signed, "=", ",")+",", ","+span+",") {
				http.Error(w, "invalid range", http.StatusForbidden)
				return
			}
		}
		through.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		transport.CloseIdleConnections()
	})
	return server.URL
}

// A hubClient mounts a repository.
type hubClient struct {
	name  string
	mount func(t *testing.T, address, repo, caches string) *mounted
}

// hubClients returns xetfs and hf-mount.
func hubClients(t *testing.T) []hubClient {
	all := []hubClient{{ours, mountHub}}
	program := os.Getenv(hfMountEnv)
	if program == "" {
		t.Logf("%s is left out: %s is not set", hfMount, hfMountEnv)
		return all
	}
	return append(all, hubClient{hfMount, func(t *testing.T, address, repo, caches string) *mounted {
		return serve(t, "", program, "--hub-endpoint", address, "--cache-dir", caches, "repo", repo)
	}})
}

// mountHub mounts a repository with xetfs.
func mountHub(t *testing.T, address, repo, caches string) *mounted {
	t.Setenv("HF_ENDPOINT", address)
	m := harness.MountSource(t, "hf://"+repo, "--memory=128MiB", "--cache-dir="+caches)
	return &mounted{m.Dir, sync.OnceFunc(m.Unmount), func() float64 { return secondsOf(m.Pid()) }, func() int64 { return m.Status("VmHWM") }}
}

// hfPython returns the Python with the library of the Hub, or "".
func hfPython(t *testing.T) string {
	python := os.Getenv(hfPythonEnv)
	if python == "" {
		t.Logf("%s is left out: %s is not set", hfDownload, hfPythonEnv)
	}
	return python
}

// runHub runs a script with an empty cache of the library and scans the numbers that it prints.
func runHub(t *testing.T, python, script, address string, args []string, numbers ...any) {
	t.Helper()
	home := t.TempDir()
	defer os.RemoveAll(home)
	for name, value := range map[string]string{
		"HF_ENDPOINT": address, "HF_HOME": home, "HF_XET_CACHE": home, "HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_DISABLE_TELEMETRY": "1",
	} {
		t.Setenv(name, value)
	}
	out := harness.Run(t, home, python, append([]string{"-c", script}, args...)...)
	if _, err := fmt.Sscan(out, numbers...); err != nil {
		t.Fatalf("%q: %v", out, err)
	}
}
