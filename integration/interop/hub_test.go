package interop

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/xetfs/xetfs/integration/internal/harness"
)

// The programs for the Hub that the script run has installed.
const (
	hubEnv    = "XETFS_INTEROP_HUB"     // a virtual environment with the newest huggingface_hub and hf_xet
	hubOldEnv = "XETFS_INTEROP_HUB_OLD" // the same with the first versions that know Xet
)

// A hub is one xetfs serve behind a proxy that records requests.
type hub struct {
	*httptest.Server
	folder string // the files of the repositories

	mu       sync.Mutex
	requests []string // "METHOD route status"; guarded by mu
}

// hubRoutes are the requests that real clients send, with the answers that they may get. A request
// that is missing here has an answer by accident.
var hubRoutes = map[string][]int{
	"GET /api/TYPE/REPO":                    {200, 401, 404},
	"GET /api/TYPE/REPO/revision/REV":       {200, 401, 404},
	"GET /api/TYPE/REPO/refs":               {200},
	"GET /api/TYPE/REPO/tree/REV":           {200, 401},
	"POST /api/TYPE/REPO/paths-info/REV":    {200},
	"GET /api/TYPE/REPO/xet-read-token/REV": {200},
	"GET /api/whoami-v2":                    {200, 401},
	"GET /api/agent-harnesses":              {404}, // newest huggingface_hub, once per process
	"HEAD /REPO/resolve/REV/FILE":           {200, 304, 401, 404},
	"GET /REPO/resolve/REV/FILE":            {200, 206, 304, 404, 416},
	"HEAD /REPO/raw/REV/FILE":               {200, 404},
	"GET /v1/reconstructions/HASH":          {200},
	"GET /v2/reconstructions/HASH":          {200},
	"GET /reconstruction/HASH":              {200}, // hf_xet 0.1
	"GET /v1/transfer/default/HASH":         {200, 206},
	"POST /v1/telemetry":                    {404}, // hf_xet
	"GET /-/store/xetfs.list":               {200},

	"GET /api/TYPE/REPO/commits/REV":         {200},
	"POST /api/repos/create":                 {200, 409},
	"POST /api/TYPE/REPO/preupload/REV":      {200},
	"GET /api/TYPE/REPO/xet-write-token/REV": {200},
	"POST /api/TYPE/REPO/commit/REV":         {200, 412},
	"POST /REPO.git/info/lfs/objects/batch":  {200},
	"PUT /REPO.git/info/lfs/objects/HASH":    {200},
	"POST /api/validate-yaml":                {200},
	"GET /v1/chunks/default/HASH":            {200, 404},
	"POST /v1/xorb-grants/default/HASH":      {404},
	"POST /v1/xorbs/default/HASH":            {200},
	"POST /v1/shards":                        {200},
	"POST /v2/shards":                        {200},
}

// Patterns of routes, in the order in which they are applied.
var hubPatterns = []struct{ pattern, route string }{
	{`[0-9a-f]{64}`, "HASH"},
	{`^/api/(models|datasets|spaces)/[^/]+/[^/]+`, "/api/TYPE/REPO"},
	{`^(/datasets|/spaces)?/[^/]+/[^/]+\.git/`, "/REPO.git/"},
	{`/(revision|tree|paths-info|xet-read-token|xet-write-token|preupload|commit|commits)/.+$`, "/$1/REV"},
	{`^(/datasets|/spaces)?/[^/]+/[^/]+/(resolve|raw)/[^/]+/(?s:.+)$`, "/REPO/$2/REV/FILE"},
}

// routeOf returns the route of a path.
func routeOf(path string) string {
	for _, p := range hubPatterns {
		path = regexp.MustCompile(p.pattern).ReplaceAllString(path, p.route)
	}
	return path
}

// startHub publishes a folder as the model org/model, with the tag v1, and as the dataset org/data,
// and serves the store. At the end of the test it compares all requests with hubRoutes.
func startHub(t *testing.T, flags ...string) *hub {
	t.Helper()
	folder := hubFolder(t)
	store := filepath.Join(t.TempDir(), "store")
	xetfs(t, "publish", "--label", "tag=v1", store, "org/model", folder)
	xetfs(t, "publish", store, "datasets/org/data", folder)
	target, _ := startServe(t, nil, append(flags, store)...)
	return recordHub(t, folder, target)
}

// recordHub returns a proxy of a server that compares all requests with hubRoutes in the end.
func recordHub(t *testing.T, folder string, target *url.URL) *hub {
	t.Helper()
	h := &hub{folder: folder}
	proxy := &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.Host = r.In.Host },
		ModifyResponse: h.record,
		FlushInterval:  -1,
	}
	h.Server = httptest.NewServer(harness.FullDuplex(proxy))
	t.Cleanup(func() {
		h.Close()
		h.checkRequests(t)
	})
	return h
}

// record is called for each answer.
func (h *hub) record(answer *http.Response) error {
	r := answer.Request
	h.mu.Lock()
	defer h.mu.Unlock()
	h.requests = append(h.requests, fmt.Sprintf("%s %s %d", r.Method, routeOf(r.URL.Path), answer.StatusCode))
	return nil
}

// checkRequests compares the requests with hubRoutes, and logs how often each was sent.
func (h *hub) checkRequests(t *testing.T) {
	t.Helper()
	count := map[string]int{}
	for _, r := range h.requests {
		count[r]++
	}
	for _, r := range slices.Sorted(maps.Keys(count)) {
		t.Logf("%4d %s", count[r], r)
		var status int
		i := strings.LastIndexByte(r, ' ')
		if _, err := fmt.Sscan(r[i:], &status); err != nil || !slices.Contains(hubRoutes[r[:i]], status) {
			t.Errorf("no row for this answer: %s", r)
		}
	}
}

// contents returns how many requests for the content of files were sent so far.
func (h *hub) contents() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.requests {
		if strings.HasPrefix(r, "GET /REPO/resolve") || strings.Contains(r, "/reconstruction") || strings.Contains(r, "/transfer/") {
			n++
		}
	}
	return n
}

// writeFile writes a file, and makes its folders.
func writeFile(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
}

// hubFolder makes a folder with files of all kinds: empty, small, large, with odd names.
func hubFolder(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	write := func(name string, content []byte) { writeFile(t, filepath.Join(folder, name), content) }
	for _, path := range corpus(t) {
		write(filepath.Join("data", filepath.Base(path)), read(t, path))
	}
	write("config.json", []byte("{\"a\": 1}\n"))
	write("README.md", []byte("# A model\n"))
	write("sub/deep/ünï code & +.txt", []byte("odd"))
	return folder
}

// startServe runs xetfs serve until the test ends or stop is called.
func startServe(t *testing.T, env []string, args ...string) (address *url.URL, stop func()) {
	t.Helper()
	address, _, stop = startServeProcess(t, env, args...)
	return address, stop
}

// startServeProcess is startServe. It also returns the process.
func startServeProcess(t *testing.T, env []string, args ...string) (address *url.URL, server *os.Process, stop func()) {
	t.Helper()
	cmd := exec.Command(need(t, xetfsEnv), append([]string{"serve", "--listen=127.0.0.1:0"}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	address, err := startServer(cmd)
	if err != nil {
		t.Fatalf("serve: %v", err)
	}
	stop = sync.OnceFunc(func() {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	t.Cleanup(stop)
	return address, cmd.Process, stop
}

// startServer starts a server and returns the address that it prints.
func startServer(cmd *exec.Cmd) (*url.URL, error) {
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, errors.Join(err, cmd.Wait())
	}
	return url.Parse(strings.TrimSuffix(line, "\n"))
}

// filesOf returns the regular files of a folder by their path. Links are followed, and the
// private folder of huggingface_hub is left out.
func filesOf(t *testing.T, folder string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err == nil && d.IsDir() && name == ".cache" {
			return fs.SkipDir
		}
		if err == nil && !d.IsDir() {
			files[name] = string(read(t, path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// isTree compares a folder with that of the repositories.
func (h *hub) isTree(t *testing.T, folder string) {
	t.Helper()
	want, got := filesOf(t, h.folder), filesOf(t, folder)
	if !slices.Equal(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got))) {
		t.Errorf("the files are %q, want %q", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
	for name, content := range want {
		if got[name] != content {
			t.Errorf("%s: %d bytes that differ from the %d of the source", name, len(got[name]), len(content))
		}
	}
}

// env returns the environment of a client in Python with its files below home.
func (h *hub) env(home string, more ...string) []string {
	return append([]string{
		"HF_ENDPOINT=" + h.URL, "HF_HOME=" + home, "HF_HUB_DISABLE_TELEMETRY=1", "HF_XET_TELEMETRY_ENABLED=0",
		"HF_HUB_DISABLE_PROGRESS_BARS=1", "HF_TOKEN=", "HF_XET_CLIENT_RETRY_BASE_DELAY=100ms", "HF_XET_CLIENT_RETRY_MAX_ATTEMPTS=2",
	}, more...)
}

// hubPython runs hub.py of a virtual environment and decodes what it prints.
func hubPython(t *testing.T, venv string, env []string, job map[string]any, answer any) {
	t.Helper()
	in, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	out := command(t, env, in, filepath.Join(venv, "bin/python3"), "hub.py")
	if err := json.Unmarshal(out, answer); err != nil {
		t.Fatalf("%q: %v", out, err)
	}
}

// hubPythons returns the virtual environments by the age of their packages.
func hubPythons(t *testing.T) map[string]string {
	t.Helper()
	return map[string]string{"newest": need(t, hubEnv), "oldest": need(t, hubOldEnv)}
}

type snapshot struct{ Path, Commit string }

// huggingface_hub downloads a whole repository, with hf_xet and without. A second download
// transfers no content, and one without a network finds everything.
func TestHubSnapshot(t *testing.T) {
	h := startHub(t)
	for age, venv := range hubPythons(t) {
		for _, xet := range []string{"0", "1"} {
			t.Run(age+"/HF_HUB_DISABLE_XET="+xet, func(t *testing.T) {
				env := h.env(t.TempDir(), "HF_HUB_DISABLE_XET="+xet)
				job := map[string]any{"do": "snapshot", "repo": "org/model"}
				var first, second, offline snapshot
				hubPython(t, venv, env, job, &first)
				h.isTree(t, first.Path)
				if !regexp.MustCompile("^[0-9a-f]{40}$").MatchString(first.Commit) {
					t.Errorf("commit %q", first.Commit)
				}
				before := h.contents()
				hubPython(t, venv, env, job, &second)
				if n := h.contents() - before; n != 0 || second != first {
					t.Errorf("the second download sent %d requests for content, into %v, want %v", n, second, first)
				}
				hubPython(t, venv, append(env, "HF_HUB_OFFLINE=1", "HF_ENDPOINT=http://127.0.0.1:1"), job, &offline)
				if offline != first {
					t.Errorf("without a network: %v, want %v", offline, first)
				}
			})
		}
	}
}

// A dataset is downloaded into a folder, at a tag and at a commit. The API has the same facts as
// the folder.
func TestHubFacts(t *testing.T) {
	h := startHub(t)
	for age, venv := range hubPythons(t) {
		t.Run(age, func(t *testing.T) {
			home, to := t.TempDir(), t.TempDir()
			var s snapshot
			hubPython(t, venv, h.env(home), map[string]any{"do": "snapshot", "repo": "org/data", "type": "dataset", "to": to}, &s)
			h.isTree(t, to)
			var facts struct {
				ID, Commit                     string
				Siblings, Branches, Tags, Some []string
				Xet                            []string
				Tree                           map[string]int
				LFS                            map[string]string
				Exists, Absent                 bool
			}
			hubPython(t, venv, h.env(home), map[string]any{"do": "facts", "repo": "org/model"}, &facts)
			want := filesOf(t, h.folder)
			names := slices.Sorted(maps.Keys(want))
			if !slices.Equal(facts.Siblings, names) || !slices.Equal(slices.Sorted(maps.Keys(facts.Tree)), names) {
				t.Errorf("files %q and %v, want %q", facts.Siblings, facts.Tree, names)
			}
			for name, content := range want {
				_, isLFS := facts.LFS[name]
				if large := len(content) > 256; facts.Tree[name] != len(content) || isLFS != large || slices.Contains(facts.Xet, name) != (large && age == "newest") {
					t.Errorf("%s: size %d, LFS %t, want %d bytes", name, facts.Tree[name], isLFS, len(content))
				}
			}
			if facts.ID != "org/model" || !slices.Equal(facts.Branches, []string{"main"}) || !slices.Equal(facts.Tags, []string{"v1"}) || len(facts.Some) != 3 || !facts.Exists || facts.Absent {
				t.Errorf("facts: %+v", facts)
			}
			for _, revision := range []string{"v1", facts.Commit} {
				var one snapshot
				hubPython(t, venv, h.env(home), map[string]any{"do": "file", "repo": "org/model", "path": "data/text", "revision": revision}, &one)
				if string(read(t, one.Path)) != want["data/text"] {
					t.Errorf("%s: the file differs", revision)
				}
			}
			var errors []string
			hubPython(t, venv, h.env(home), map[string]any{"do": "errors", "repo": "org/model"}, &errors)
			entry := "EntryNotFoundError"
			if age == "newest" {
				entry = "RemoteEntryNotFoundError"
			}
			if wanted := []string{"RepositoryNotFoundError", "RevisionNotFoundError", entry, "RepositoryNotFoundError"}; !slices.Equal(errors, wanted) {
				t.Errorf("errors %q, want %q", errors, wanted)
			}
		})
	}
}

// The command hf downloads a repository and single files.
func TestHubCommand(t *testing.T) {
	h := startHub(t)
	hf, home, to := filepath.Join(need(t, hubEnv), "bin/hf"), t.TempDir(), t.TempDir()
	command(t, h.env(home), nil, hf, "download", "org/model", "--local-dir", to)
	h.isTree(t, to)
	one := t.TempDir()
	command(t, h.env(home), nil, hf, "download", "--repo-type", "dataset", "org/data", "data/floats", "config.json", "--revision", "main", "--local-dir", one)
	if got := filesOf(t, one); len(got) != 2 || got["data/floats"] != string(read(t, filepath.Join(h.folder, "data/floats"))) {
		t.Errorf("the files are %q", slices.Sorted(maps.Keys(got)))
	}
}

// A client with a token reads, one without does not.
func TestHubToken(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte("hf_first org/*\nhf_second datasets/*/*\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := startHub(t, "--token-file", tokens)
	for age, venv := range hubPythons(t) {
		t.Run(age, func(t *testing.T) {
			home := t.TempDir()
			var s snapshot
			hubPython(t, venv, h.env(home, "HF_TOKEN=hf_first"), map[string]any{"do": "snapshot", "repo": "org/model"}, &s)
			h.isTree(t, s.Path)
			for token, want := range map[string]string{"": "RepositoryNotFoundError", "hf_second": "RepositoryNotFoundError", "hf_wrong": "HfHubHTTPError"} {
				var errors []string
				hubPython(t, venv, h.env(t.TempDir(), "HF_TOKEN="+token), map[string]any{"do": "errors", "repo": "org/model"}, &errors)
				if !slices.Equal(errors, slices.Repeat([]string{want}, 4)) {
					t.Errorf("token %q: errors %q, want %s", token, errors, want)
				}
			}
		})
	}
}

// @huggingface/hub downloads a repository, files with Xet and without, and ranges.
func TestHubJavaScript(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte("hf_token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := startHub(t, "--token-file", tokens)
	want := filesOf(t, h.folder)
	type file struct {
		Path   string   `json:"path"`
		Ranges [][2]int `json:"ranges"`
	}
	var files []file
	for _, name := range []string{"config.json", "data/text", "data/floats", "data/constant", "data/twice", "data/small"} {
		files = append(files, file{name, someRanges(int64(len(want[name])))})
	}
	to := t.TempDir()
	in, err := json.Marshal(map[string]any{"endpoint": h.URL, "repo": "org/model", "token": "hf_token", "to": to, "cache": t.TempDir(), "files": files})
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Snapshot, User, Info string
		Tree                 map[string]int
		Some                 []string
		Exists               bool
		Absent               any
	}
	out := command(t, nil, in, "node", "hub.cjs", need(t, nodeEnv))
	if err := json.Unmarshal(out, &answer); err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	h.isTree(t, answer.Snapshot)
	for i, f := range files {
		for _, suffix := range []string{"", ".plain"} {
			if got := string(read(t, filepath.Join(to, fmt.Sprint(i)+suffix))); got != want[f.Path] {
				t.Errorf("%s%s: %d bytes that differ", f.Path, suffix, len(got))
			}
		}
		for j, r := range f.Ranges {
			if got := string(read(t, filepath.Join(to, fmt.Sprintf("%d.%d", i, j)))); got != want[f.Path][r[0]:r[1]] {
				t.Errorf("%s: bytes %v differ", f.Path, r)
			}
		}
	}
	if len(answer.Tree) != len(want) || !slices.Equal(answer.Some, []string{"config.json"}) || !answer.Exists || answer.Absent != nil ||
		answer.User == "" || filepath.Base(answer.Snapshot) != answer.Info {
		t.Errorf("answer: %+v", answer)
	}
}

// curl reads whole files, one range, several ranges and the rest of a file, and nothing that it has.
func TestHubCurl(t *testing.T) {
	h := startHub(t)
	want := string(read(t, filepath.Join(h.folder, "data/noise")))
	address := h.URL + "/org/model/resolve/main/data/noise"
	curl := func(args ...string) string {
		t.Helper()
		return string(command(t, nil, nil, "curl", append([]string{"-sSf"}, args...)...))
	}
	if curl(address) != want {
		t.Error("the whole file differs")
	}
	if curl("-r", "1000000-1999999", address) != want[1_000_000:2_000_000] {
		t.Error("a range differs")
	}
	several := curl("-r", "0-9,3000000-3000009", address)
	if strings.Count(several, "Content-Range: bytes ") != 2 || !strings.Contains(several, want[:10]) || !strings.Contains(several, want[3_000_000:3_000_010]) {
		t.Errorf("two ranges: %d bytes", len(several))
	}
	part := filepath.Join(t.TempDir(), "part")
	if err := os.WriteFile(part, []byte(want[:1_234_567]), 0o644); err != nil {
		t.Fatal(err)
	}
	if curl("-C", "-", "-o", part, address); string(read(t, part)) != want {
		t.Error("the continued file differs")
	}
	etag := filepath.Join(t.TempDir(), "etag")
	curl("--etag-save", etag, "-o", part, address)
	if status := curl("--etag-compare", etag, "-o", part, "-w", "%{http_code}", address); status != "304" {
		t.Errorf("an unchanged file: status %s", status)
	}
	if false {
		t.Error("a tag of another repository has a file")
	}
}
