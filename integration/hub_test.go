package integration

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin/hub/hubtest"
	"github.com/xetfs/xetfs/integration/internal/harness"
)

// useHub makes the program use a server as the Hub, with caches of its own.
func useHub(t *testing.T, endpoint string) {
	t.Helper()
	t.Setenv("HF_ENDPOINT", endpoint)
	t.Setenv("HF_HOME", t.TempDir())
	t.Setenv("HF_TOKEN", "")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
}

// A repository of 200,000 files is mounted before its listing is complete, and folders that are
// opened meanwhile are complete. Memory is bounded.
func TestO24_HubLargeListing(t *testing.T) {
	harness.NeedFuse(t)
	server := hubtest.New(t)
	number := 200_000
	if harness.RaceEnabled {
		number = 20_000
	}
	files := make([]hubtest.File, number)
	for i := range files {
		files[i] = hubtest.File{Path: fmt.Sprintf("data/part-%03d/file-%06d.bin", i%500, i), Content: fmt.Append(nil, i)}
	}
	server.Commit("dataset/org/large", "main", files...)
	pages := number / 1000
	most := int64(pages / 2) // arrive before the gate opens
	gate, sent := make(chan struct{}), new(atomic.Int64)
	open := sync.OnceFunc(func() { close(gate) })
	t.Cleanup(open) // before the server closes
	server.Lock()
	server.Answer = func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.RawQuery, "recursive=true") && sent.Add(1) > most {
			select {
			case <-gate:
			case <-r.Context().Done():
			}
		}
		return false
	}
	server.Unlock()
	useHub(t, server.URL)
	start := time.Now()
	m := harness.MountSource(t, "hf://datasets/org/large", "--follow=off", "--cache-dir=off")
	t.Logf("mounted after %v and %d of %d pages", time.Since(start), sent.Load(), pages)
	names, err := os.ReadDir(m.Path("data/part-007"))
	if err != nil || len(names) != number/500 {
		t.Errorf("%d names, %v", len(names), err)
	}
	m.Shows(t, fmt.Sprintf("data/part-007/file-%06d.bin", number/2+7), fmt.Append(nil, number/2+7))
	open()
	harness.WaitUntil(t, "the import is complete", func() bool {
		var st syscall.Statfs_t
		return syscall.Statfs(m.Dir, &st) == nil && st.Files > uint64(number)
	})
	t.Logf("imported after %v, VmHWM %d MiB", time.Since(start), m.Status("VmHWM")>>20)
	if rss := m.Status("VmHWM"); rss > 128<<20 && !harness.RaceEnabled { // about 75 MiB
		t.Errorf("%d MiB of memory, at most 128 are allowed", rss>>20)
	}
	n := 0
	err = filepath.WalkDir(m.Dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			n++
		}
		return err
	})
	if n != number || err != nil {
		t.Errorf("%d files, %v", n, err)
	}
	if left := len(server.Requests("/tree/")); left > pages+10 {
		t.Errorf("%d requests for listings", left)
	}
}

// xetfs serve is a Hub. A repository of 11,478 files, of which a third is in git, equals the folder
// that was published. All of it needs few requests of the API: one for each folder until the import
// is complete, and the pages of the import.
func TestHubServedStore(t *testing.T) {
	harness.NeedFuse(t)
	const folders = 1 + 37 + 37*5
	number := 2000
	if *fullSize {
		number = 11_478
	}
	folder, store := t.TempDir(), filepath.Join(t.TempDir(), "store")
	for i := range number {
		size := 10 + i%240 // in git
		if i%3 > 0 {
			size = 300 + i%5000
		}
		harness.WriteFile(t, filepath.Join(folder, fmt.Sprintf("dir-%02d/sub-%d", i%37, i%5), fmt.Sprintf("file-%05d", i)), harness.Noise(uint64(i), size))
	}
	harness.Publish(t, store, "org/model", folder)
	served := serveHub(t, store)
	api := new(atomic.Int64)
	useHub(t, countAPI(t, served, api))
	m := harness.MountSource(t, "hf://org/model")
	for _, script := range []string{
		`cd "$1" && find . -printf '%y %s %p\n' | grep -v '^d' | sort`,
		`tar -C "$1" -c --sort=name --mtime=@0 --owner=0 --group=0 --mode=a=rX . | tar -t | sort`,
		`cd "$1" && find . -type f -print0 | sort -z | xargs -0 sha256sum`,
	} {
		want, got := shell(t, script, folder), shell(t, script, m.Dir)
		if got != want || strings.Count(got, "\n") < number {
			t.Errorf("%s: other output, of %d and %d bytes", script, len(got), len(want))
		}
	}
	t.Logf("%d files, %d requests of the API", number, api.Load())
	if n := api.Load(); n > folders+100 {
		t.Errorf("%d requests of the API, %d are allowed in five minutes", n, apiQuota)
	}
	m.Quiet()
}

// shell returns the output of a script with one argument.
func shell(t *testing.T, script, argument string) string {
	t.Helper()
	out, err := exec.Command("sh", "-c", script, "sh", argument).Output()
	if err != nil {
		t.Fatalf("%s: %s", script, harness.StderrOf(err))
	}
	return string(out)
}

// serveHub serves a store as the Hub until the end of the test, and returns the address.
func serveHub(t *testing.T, store string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "address")
	f, err := os.Create(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cmd := exec.Command(harness.Program(t), "serve", "--listen=127.0.0.1:0", store)
	cmd.Env, cmd.Stdout = harness.Environment(), f
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	address := ""
	harness.WaitUntil(t, "the server has an address", func() bool {
		b, _ := os.ReadFile(out)
		address, _, _ = strings.Cut(string(b), "\n")
		return strings.HasPrefix(address, "http://") && strings.HasSuffix(address, "/")
	})
	return strings.TrimSuffix(address, "/")
}

// apiQuota is the number of requests of the Hub API that a client without a token has in five minutes.
const apiQuota = 500

// countAPI returns the address of a proxy that counts the requests of the Hub API, and refuses those
// above apiQuota.
func countAPI(t *testing.T, address string, api *atomic.Int64) string {
	t.Helper()
	to, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host // the server names its Xet server so
	}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/api/") {
			n := api.Add(1)
			w.Header().Set("RateLimit", fmt.Sprintf(`"api";r=%d;t=300`, max(0, apiQuota-n)))
			w.Header().Set("RateLimit-Policy", fmt.Sprintf(`"fixed window";"api";q=%d;w=300`, apiQuota))
			if n > apiQuota {
				http.Error(w, "too many requests", http.StatusTooManyRequests)
				return
			}
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// A mounted repository whose Hub fails later shows its names, and content that was read. Other
// content is an input/output error.
func TestHubFailsLater(t *testing.T) {
	harness.NeedFuse(t)
	tests := []struct {
		name   string
		change func(s *hubtest.Server)
		log    string // part of the error in the log
	}{
		{"deleted revision", func(s *hubtest.Server) {
			s.Codes, s.ErrorCodes = map[string]int{"/": 404}, map[string]string{"/": "RevisionNotFound"}
		}, "no branch, tag or commit main"},
		{"deleted repository", func(s *hubtest.Server) {
			s.Codes, s.ErrorCodes = map[string]int{"/": 404}, map[string]string{"/": "RepoNotFound"}
		}, "no such repository"},
		{"removed token", func(s *hubtest.Server) { s.Token = "hf_other" }, "the Hub refuses the token (401); renew it with hf auth login, or correct HF_TOKEN"},
		{"gated", func(s *hubtest.Server) {
			s.Codes, s.ErrorCodes = map[string]int{"/": 403}, map[string]string{"/": "GatedRepo"}
		}, "it is gated: request access at"},
		{"403", func(s *hubtest.Server) { s.Codes = map[string]int{"/": 403} }, "403 Forbidden; check the permissions of the token"},
		{"500", func(s *hubtest.Server) { s.Codes = map[string]int{"/": 500} }, "500 Internal Server Error"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			server := hubtest.New(t)
			server.Commit("model/org/m", "main", hubtest.File{Path: "seen", Content: []byte("seen")}, hubtest.File{Path: "other", Content: []byte("other")})
			server.Lock()
			server.Token = canaryToken
			server.Unlock()
			useHub(t, server.URL)
			t.Setenv("HF_TOKEN", canaryToken)
			m := harness.MountSource(t, "hf://org/m", "--follow=100ms")
			m.Shows(t, "seen", []byte("seen"))
			server.Lock()
			tt.change(server)
			server.Unlock()
			if _, ok := m.Log.Wait(harness.MountLimit, harness.Event("follow_failed")); !ok {
				t.Errorf("no event follow_failed:\n%s", m.Log)
			}
			m.Shows(t, "seen", []byte("seen"))
			_, err := os.ReadFile(m.Path("other"))
			if err == nil || !strings.Contains(err.Error(), "input/output error") && !strings.Contains(err.Error(), "permission denied") {
				t.Errorf("a file that was not read: %v", err)
			}
			t.Logf("%v", err)
			if log := m.Log.String(); !strings.Contains(log, tt.log) || strings.Contains(log, canaryToken) {
				t.Errorf("log without %q:\n%s", tt.log, log)
			}
			server.Lock()
			server.Codes, server.Token = nil, canaryToken
			server.Unlock()
			harness.WaitUntil(t, "the Hub has returned", func() bool {
				b, err := os.ReadFile(m.Path("other"))
				return err == nil && string(b) == "other"
			})
		})
	}
}

var realHub = flag.String("hub", "", "an hf:// address of a small public repository of the real Hub, for TestRealHub")

// A repository of the real Hub is read whole. Each file in it equals its SHA-256 or its git hash.
func TestRealHub(t *testing.T) {
	if *realHub == "" {
		t.Skip("needs a network: -hub=hf://OWNER/NAME")
	}
	harness.NeedFuse(t)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	m := harness.MountSource(t, *realHub)
	t.Log(shell(t, `cd "$1" && find . -type f -print0 | sort -z | xargs -0 sha256sum && getfattr -R -n user.xet.verified .`, m.Dir))
	m.Quiet()
}

// A mount that may open 30 files has fewer connections. Its 16 readers get no error.
func TestHubFewDescriptors(t *testing.T) {
	harness.NeedFuse(t)
	const folders, files, readers = 40, 50, 16
	folder, store := t.TempDir(), filepath.Join(t.TempDir(), "store")
	path := func(i int) string { return filepath.Join(fmt.Sprint(i%folders), fmt.Sprint(i)) }
	content := func(i int) []byte { return harness.Noise(uint64(i), 3000+i) }
	for i := range folders * files {
		harness.WriteFile(t, filepath.Join(folder, path(i)), content(i))
	}
	harness.Publish(t, store, "org/model", folder)
	useHub(t, serveHub(t, store))
	const source = "hf://org/model"
	dir := filepath.Join(t.TempDir(), "mnt")
	limited := append([]string{"-c", `ulimit -n 30; exec "$@"`, "sh", harness.Program(t)}, harness.MountArgs(source, dir, "--cache-dir=off")...)
	cmd := exec.Command("sh", limited...)
	cmd.Env = harness.Environment()
	m := harness.MountCommand(t, cmd, source, dir)
	harness.Parallel(readers, func(reader int) {
		for _, i := range rand.New(rand.NewPCG(1, uint64(reader))).Perm(folders * files)[:400] {
			if got, err := os.ReadFile(m.Path(path(i))); err != nil || !bytes.Equal(got, content(i)) {
				t.Errorf("file %d: %d bytes, %v", i, len(got), err)
				return
			}
		}
	})
	m.Quiet()
}
