package interop

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/cache/origin/s3"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog/writer"
	"github.com/xetfs/xetfs/integration/internal/harness"
)

// hubBeforeEnv is a virtual environment with the newest huggingface_hub whose upload_folder makes
// one commit. It has upload_large_folder, too.
const hubBeforeEnv = "XETFS_INTEROP_HUB_BEFORE"

var (
	uploadFiles  = flag.Int("upload-files", 400, "small files of TestHubUpload")
	uploadFloats = flag.Int("upload-floats", 0, "numbers in a file of floats of TestHubUpload; 0: without the file")
)

// uploadTree makes a folder with files: empty, one byte, texts, floats, and many with odd names.
func uploadTree(t *testing.T, files int) string {
	t.Helper()
	folder := t.TempDir()
	write := func(name string, content []byte) { writeFile(t, filepath.Join(folder, name), content) }
	dice := rand.NewChaCha8([32]byte{1})
	noise := func(n int) []byte {
		b := make([]byte, n)
		_, _ = dice.Read(b) // never fails
		return b
	}
	write("empty", nil)
	write("one", []byte("1"))
	write("config.json", []byte(`{"a": 1}`))
	write("README.md", bytes.Repeat([]byte("# A text\n"), 1000))
	write("floats.bin", noise(12<<20))
	write("deep/a/b/c/d/e/f/ünï + %41 & #?.txt", bytes.Repeat([]byte("odd\n"), 100))
	write("deep/new\nline", []byte("odd"))
	for i := range files {
		name := fmt.Sprintf("many/%d/%d", i%7, i)
		if i%3 == 0 {
			write(name+".bin", noise(i%5000))
			continue
		}
		write(name+".txt", bytes.Repeat([]byte(fmt.Sprintf("%d\n", i)), i%500))
	}
	return folder
}

// A writable is a xetfs serve --writable behind a proxy that records requests.
type writable struct {
	*hub
	store string
}

// startWritable serves a new store.
func startWritable(t *testing.T, folder string, flags ...string) *writable {
	t.Helper()
	store := filepath.Join(t.TempDir(), "store")
	target, _ := startServe(t, nil, append(append([]string{"--writable", "--cache-dir=off"}, flags...), store)...)
	return &writable{recordHub(t, folder, target), store}
}

// count returns the number of recorded requests that begin with a text.
func (w *writable) count(text string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.requests {
		if strings.HasPrefix(r, text) {
			n++
		}
	}
	return n
}

// uploaded is what an upload prints.
type uploaded struct {
	Commit string
	Stale  int
}

// upload runs a job of hubupload.py.
func (w *writable) upload(t *testing.T, venv string, job map[string]any, more ...string) (u uploaded) {
	t.Helper()
	in, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	out := command(t, w.env(t.TempDir(), more...), in, filepath.Join(venv, "bin/python3"), "hubupload.py")
	if err := json.Unmarshal(out[bytes.LastIndexByte(bytes.TrimSpace(out), '\n')+1:], &u); err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	return u
}

// uploadJS runs hubupload.cjs.
func (w *writable) uploadJS(t *testing.T, repo, folder string, xet bool) (u uploaded) {
	t.Helper()
	in, err := json.Marshal(map[string]any{"endpoint": w.URL, "repo": repo, "folder": folder, "xet": xet})
	if err != nil {
		t.Fatal(err)
	}
	out := command(t, nil, in, "node", "hubupload.cjs", need(t, nodeEnv))
	if err := json.Unmarshal(out, &u); err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	return u
}

// isSound checks the catalog and all data of the store.
func (w *writable) isSound(t *testing.T) {
	t.Helper()
	xetfs(t, "catalog", "check", w.store)
	xetfs(t, "verify", w.store)
}

// Each client uploads the same tree into a repository of its own. Downloads by other clients and by
// xetfs are the same as the source, and so is a mount that follows the store. The second upload sends
// no xorb and makes no version.
func TestHubUpload(t *testing.T) {
	folder := uploadTree(t, *uploadFiles)
	if *uploadFloats > 0 {
		dice := rand.New(rand.NewPCG(1, 2))
		b := make([]byte, 0, 4**uploadFloats)
		for range *uploadFloats {
			b = binary.LittleEndian.AppendUint32(b, 0x3c000000+dice.Uint32N(0x2000000))
		}
		writeFile(t, filepath.Join(folder, "weights.bin"), b)
	}
	w := startWritable(t, folder)
	dir := filepath.Join(t.TempDir(), "mnt")
	m := harness.MountCommand(t, exec.Command(need(t, xetfsEnv), harness.MountArgs(w.store, dir, "--follow=200ms")...), w.store, dir)
	newest, before := need(t, hubEnv), need(t, hubBeforeEnv)
	hf := func(args ...string) {
		command(t, w.env(t.TempDir()), nil, filepath.Join(newest, "bin/hf"), args...)
	}
	uploads := []struct {
		name string
		run  func(repo string)
	}{
		{"folder", func(repo string) { w.upload(t, newest, map[string]any{"do": "folder", "repo": repo, "folder": folder}) }},
		{"before", func(repo string) { w.upload(t, before, map[string]any{"do": "folder", "repo": repo, "folder": folder}) }},
		{"large", func(repo string) { w.upload(t, before, map[string]any{"do": "large", "repo": repo, "folder": folder}) }},
		{"hf", func(repo string) { hf("upload", repo, folder) }},
		{"js", func(repo string) { w.uploadJS(t, repo, folder, true) }},
		{"plain", func(repo string) {
			w.upload(t, newest, map[string]any{"do": "folder", "repo": repo, "folder": folder}, "HF_HUB_DISABLE_XET=1")
		}},
	}
	for _, up := range uploads {
		t.Run(up.name, func(t *testing.T) {
			repo := "org/" + up.name
			up.run(repo)
			want := filesOf(t, folder)
			harness.WaitUntil(t, "the mount shows the commit", func() bool {
				_, err := os.Stat(m.Path(repo))
				return err == nil && maps.Equal(filesOf(t, m.Path(repo)), want)
			})
			versions := strings.Count(string(xetfs(t, "history", w.store, repo)), "\n")
			xorbs := w.count("POST /v1/xorbs")
			up.run(repo)
			if n := w.count("POST /v1/xorbs") - xorbs; n != 0 {
				t.Errorf("the second upload sent %d xorbs", n)
			}
			if n := strings.Count(string(xetfs(t, "history", w.store, repo)), "\n"); n != versions {
				t.Errorf("the second upload made %d versions", n-versions)
			}
			to := t.TempDir()
			xetfs(t, "get", w.store, repo, to)
			w.isTree(t, to)
			var s snapshot
			hubPython(t, newest, w.env(t.TempDir()), map[string]any{"do": "snapshot", "repo": repo}, &s)
			w.isTree(t, s.Path)
		})
	}
	w.isSound(t)
}

// A commit deletes, overwrites, copies and moves. A commit on an old parent is refused with 412.
func TestHubChange(t *testing.T) {
	folder := uploadTree(t, 20)
	w := startWritable(t, folder)
	newest := need(t, hubEnv)
	w.upload(t, newest, map[string]any{"do": "folder", "repo": "org/model", "folder": folder})
	if u := w.upload(t, newest, map[string]any{"do": "change", "repo": "org/model"}); u.Stale != http.StatusPreconditionFailed {
		t.Errorf("a commit on an old parent: status %d", u.Stale)
	}
	if u := w.uploadJS(t, "org/js", filepath.Join(folder, "deep"), true); u.Stale != http.StatusPreconditionFailed {
		t.Errorf("a commit of JavaScript on an old parent: status %d", u.Stale)
	}
	to := t.TempDir()
	xetfs(t, "get", w.store, "org/model", to)
	want := filesOf(t, folder)
	maps.DeleteFunc(want, func(name, _ string) bool { return name == "config.json" || strings.HasPrefix(name, "many/") })
	want["README.md"] = strings.Repeat("changed\n", 100)
	want["moved/floats.bin"] = want["floats.bin"]
	delete(want, "floats.bin")
	if got := filesOf(t, to); !maps.Equal(got, want) {
		t.Errorf("files %q, want %q", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
	w.upload(t, newest, map[string]any{"do": "push", "repo": "org/pushed"})
	w.isSound(t)
}

// A refused commit with a body of some MB shows its user the sentence of the server, not a broken
// connection. The client sends all of the body before it reads the answer. There is no proxy.
func TestHubRefused(t *testing.T) {
	dir := t.TempDir()
	tokens := filepath.Join(dir, "tokens")
	if err := os.WriteFile(tokens, []byte("hf_writer write\nhf_reader\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const files, size = 60, 60_000 // 4.8 MB in base64
	address, _ := startServe(t, nil, "--writable", "--cache-dir=off", "--token-file", tokens, "--quota=3MB", filepath.Join(dir, "store"))
	h := hubAt(address)
	in, err := json.Marshal(map[string]any{"do": "refused", "repo": "org/model", "writer": "hf_writer", "reader": "hf_reader", "files": files, "size": size})
	if err != nil {
		t.Fatal(err)
	}
	out := command(t, h.env(t.TempDir()), in, filepath.Join(need(t, hubEnv), "bin/python3"), "hubupload.py")
	var got struct{ Errors map[string]string }
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	const (
		mayOnlyRead = "the token may only read; the operator of the server can allow uploads with the word write behind it in the token file"
		isFull      = "the store is full: its quota is 3000000 bytes; delete versions and run xetfs catalog sweep"
	)
	for what, want := range map[string]string{
		"reader": mayOnlyRead, "reader commit": mayOnlyRead, "parent": "the parentCommit is not the newest commit", "quota": isFull,
	} {
		if !strings.Contains(got.Errors[what], want) {
			t.Errorf("%s: %q, want %q", what, got.Errors[what], want)
		}
		t.Logf("%s: %s", what, got.Errors[what])
	}
}

// sweptStore makes a store in a folder whose sweeps wait for seconds instead of days.
func sweptStore(t *testing.T) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "store")
	store, err := dir.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	initSwept(t, store)
	return folder
}

// sweptBucket makes such a store in a bucket. Its keys are in the environment until the test ends.
func sweptBucket(t *testing.T) string {
	t.Helper()
	server := origintest.ServeS3(t)
	for name, value := range server.Env() {
		t.Setenv(name, value)
	}
	address := "s3://" + server.Bucket() + "/store"
	store, err := s3.Open(address, s3.Options{Getenv: os.Getenv})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	initSwept(t, store)
	return address
}

func initSwept(t *testing.T, store origin.WriteStore) {
	t.Helper()
	settings := names.DefaultSettings("", time.Time{})
	settings.Window, settings.Grace = 2*time.Second, 3*time.Second
	if _, err := writer.Open(t.Context(), store, origin.Pages(store), writer.Options{Settings: settings}); err != nil {
		t.Fatal(err)
	}
}

// Clients upload to a store that is repacked and swept between and beside the uploads. No file is
// lost, commits keep their names, and a repository can be changed and downloaded as before.
func TestHubRepacked(t *testing.T) {
	folder := uploadTree(t, 100)
	store := sweptStore(t)
	target, _ := startServe(t, nil, "--writable", "--cache-dir=off", store)
	w := &writable{recordHub(t, folder, target), store}
	newest := need(t, hubEnv)
	first := w.upload(t, newest, map[string]any{"do": "folder", "repo": "org/kept", "folder": folder}).Commit
	w.upload(t, newest, map[string]any{"do": "folder", "repo": "org/model", "folder": folder})
	const rounds, count = 2, 4
	for round := range rounds {
		var wg sync.WaitGroup
		wg.Go(func() {
			w.upload(t, newest, map[string]any{"do": "commits", "repo": "org/model", "name": fmt.Sprint("c", round), "count": count})
		})
		wg.Go(func() { w.uploadJS(t, fmt.Sprint("org/js", round), folder, true) })
		for range 5 {
			xetfs(t, "catalog", "repack", "--max-unused=0%", store)
			time.Sleep(time.Duration(rand.IntN(500)) * time.Millisecond)
		}
		wg.Wait()
		xetfs(t, "catalog", "repack", "--max-unused=0%", store)
		time.Sleep(4 * time.Second) // the time of grace
		xetfs(t, "catalog", "sweep", store)
		w.isSound(t)
		var s snapshot
		hubPython(t, newest, w.env(t.TempDir()), map[string]any{"do": "snapshot", "repo": "org/kept", "revision": first}, &s)
		w.isTree(t, s.Path)
		to := t.TempDir()
		xetfs(t, "get", store, fmt.Sprint("org/js", round), to)
		w.isTree(t, to)
	}
	to := t.TempDir()
	xetfs(t, "get", store, "org/model", to)
	got := filesOf(t, to)
	for round := range rounds {
		for i := range count {
			name := fmt.Sprintf("c%d/%d", round, i)
			if got[name] != strings.Repeat(fmt.Sprintf("c%d %d\n", round, i), 100) {
				t.Errorf("%s differs", name)
			}
		}
	}
	if history := string(xetfs(t, "history", store, "org/model")); !strings.Contains(history, " repacks ") {
		t.Errorf("no repack in the history:\n%s", history)
	}
}

// Two clients commit to one repository at once. No commit is lost.
func TestHubTwoClients(t *testing.T) {
	const count = 20
	folder := uploadTree(t, 0)
	w := startWritable(t, folder)
	newest := need(t, hubEnv)
	w.upload(t, newest, map[string]any{"do": "folder", "repo": "org/model", "folder": folder})
	var wg sync.WaitGroup
	for _, name := range []string{"a", "b"} {
		wg.Go(func() {
			w.upload(t, newest, map[string]any{"do": "commits", "repo": "org/model", "name": name, "count": count})
		})
	}
	wg.Wait()
	to := t.TempDir()
	xetfs(t, "get", w.store, "org/model", to)
	got := filesOf(t, to)
	history := string(xetfs(t, "history", w.store, "org/model"))
	for _, name := range []string{"a", "b"} {
		for i := range count {
			if got[fmt.Sprintf("%s/%d", name, i)] != strings.Repeat(fmt.Sprintf("%s %d\n", name, i), 100) {
				t.Errorf("%s/%d differs", name, i)
			}
			if n := strings.Count(history, fmt.Sprintf("  %s %d  ", name, i)); n != 1 {
				t.Errorf("%d versions of commit %s %d", n, name, i)
			}
		}
	}
}

// One server of a store receives the content of uploads, and another one the commits. Each upload
// succeeds at the first attempt.
func TestHubTwoServers(t *testing.T) {
	folder := uploadTree(t, 100)
	store, key := filepath.Join(t.TempDir(), "store"), filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, bytes.Repeat([]byte("of both servers "), 4), 0o600); err != nil {
		t.Fatal(err)
	}
	var servers [2]*url.URL
	for i := range servers {
		servers[i], _ = startServe(t, nil, "--writable", "--cache-dir=off", "--signing-key="+key, store)
	}
	front := httptest.NewServer(harness.FullDuplex(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		to := servers[0]
		if r.In.Method == http.MethodPut || strings.HasPrefix(r.In.URL.Path, "/v") {
			to = servers[1]
		}
		r.SetURL(to)
		r.Out.Host = r.In.Host
	}}))
	defer front.Close()
	address, err := url.Parse(front.URL)
	if err != nil {
		t.Fatal(err)
	}
	w := &writable{recordHub(t, folder, address), store}
	for i, venv := range []string{need(t, hubEnv), need(t, hubBeforeEnv)} {
		for _, noXet := range []string{"0", "1"} {
			repo := fmt.Sprintf("org/model%d-%s", i, noXet)
			w.upload(t, venv, map[string]any{"do": "folder", "repo": repo, "folder": folder}, "HF_HUB_DISABLE_XET="+noXet)
			isUploaded(t, store, repo, folder)
		}
	}
	w.isSound(t)
}

// curl uploads a file as git-lfs does, and commits it.
func TestHubLFS(t *testing.T) {
	folder := uploadTree(t, 0)
	w := startWritable(t, folder)
	file := filepath.Join(folder, "floats.bin")
	content := read(t, file)
	curl := func(args ...string) string {
		t.Helper()
		return string(command(t, nil, nil, "curl", append([]string{"-sSf"}, args...)...))
	}
	curl("-d", `{"name":"model","organization":"org"}`, w.URL+"/api/repos/create")
	oid := fmt.Sprintf("%x", sha256.Sum256(content))
	batch := func() string {
		return curl("-H", "Content-Type: application/vnd.git-lfs+json", "-d",
			fmt.Sprintf(`{"operation":"upload","transfers":["basic"],"objects":[{"oid":"%s","size":%d}]}`, oid, len(content)),
			w.URL+"/org/model.git/info/lfs/objects/batch")
	}
	var answer struct {
		Objects []struct {
			Actions map[string]struct{ Href string }
		}
	}
	if err := json.Unmarshal([]byte(batch()), &answer); err != nil {
		t.Fatal(err)
	}
	curl("-T", file, answer.Objects[0].Actions["upload"].Href)
	curl("--data-binary", fmt.Sprintf(`{"key":"header","value":{"summary":"by curl"}}
{"key":"lfsFile","value":{"path":"floats.bin","algo":"sha256","oid":"%s","size":%d}}`, oid, len(content)), w.URL+"/api/models/org/model/commit/main")
	if again := batch(); strings.Contains(again, "actions") {
		t.Errorf("an object that exists has an action: %s", again)
	}
	if got := curl(w.URL + "/org/model/resolve/main/floats.bin"); got != string(content) {
		t.Errorf("%d bytes that differ", len(got))
	}
	w.isSound(t)
}

// Each answer of the server is lost once. The client succeeds or reports the failure, and a second
// attempt succeeds. No version is doubled.
func TestHubLostAnswers(t *testing.T) {
	folder := uploadTree(t, 5)
	w := startWritable(t, folder)
	target, err := url.Parse(w.URL)
	if err != nil {
		t.Fatal(err)
	}
	var left atomic.Int64 // answers before the one that is lost
	var lost atomic.Value
	proxy := httptest.NewServer(harness.FullDuplex(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.Host = r.In.Host },
		ModifyResponse: func(r *http.Response) error {
			if left.Add(-1) == -1 {
				lost.Store(r.Request.Method + " " + routeOf(r.Request.URL.Path))
				return http.ErrAbortHandler
			}
			return nil
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}))
	defer proxy.Close()
	front := &hub{Server: proxy}
	for n := 0; ; n++ {
		repo := fmt.Sprintf("org/lost%d", n)
		lost.Store("")
		attempt := func() error { return front.attempt(t.Context(), t, repo, folder) }
		left.Store(int64(n))
		first := attempt()
		if lost.Load() == "" {
			t.Logf("%d answers", n)
			break
		}
		if first != nil {
			if err := attempt(); err != nil {
				t.Errorf("%v lost: the second attempt failed, too: %v", lost.Load(), err)
			}
		}
		t.Logf("%v lost: %v", lost.Load(), first)
		isUploaded(t, w.store, repo, folder)
		if h := string(xetfs(t, "history", w.store, repo)); strings.Count(h, "a folder") != 1 || strings.Count(h, "\n") != 2 {
			t.Errorf("%v lost: the history is\n%s", lost.Load(), h)
		}
	}
	w.isSound(t)
}
