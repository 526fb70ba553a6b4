package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/xetfs/xetfs/cache/origin/cas"
	"github.com/xetfs/xetfs/codec/names"
)

// startServe runs xetfs serve on a free port until the test ends. It returns its address, without
// the slash at the end.
func startServe(t *testing.T, args ...string) string {
	t.Helper()
	address, _ := startServeUntil(t, args...)
	return address
}

// startServeUntil is startServe. The function that it returns ends the server.
func startServeUntil(t *testing.T, args ...string) (address string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	var stderr bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, append([]string{"serve", "--listen=127.0.0.1:0"}, args...), nil, in, &stderr)
		in.Close()
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		if status := <-ended; status != 0 {
			t.Errorf("serve %q: status %d, %s", args, status, &stderr)
		}
	})
	t.Cleanup(stop)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("serve %q: %v", args, err)
	}
	return strings.TrimSuffix(line, "/\n"), stop
}

// get sends a request with a token, which may be "". It returns the status, the error code and
// the body.
func get(t *testing.T, address, token string) (status int, header http.Header, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, answer.Header, string(b)
}

// commitOf returns the commit of a revision.
func commitOf(t *testing.T, address, repo, revision string) string {
	t.Helper()
	_, _, body := get(t, address+"/api/"+repo+"/revision/"+revision, "")
	var info struct{ SHA string }
	if err := json.Unmarshal([]byte(body), &info); err != nil {
		t.Fatalf("%s@%s: %q: %v", repo, revision, body, err)
	}
	return info.SHA
}

// hubStore makes a store with several symbols. The folder has the files of the newest version of
// org/model.
func hubStore(t *testing.T) (store, folder string) {
	t.Helper()
	store, folder = filepath.Join(t.TempDir(), "store"), t.TempDir()
	write := func(name, content string) {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{
		"link": "sub/file", "sub/up": "../config.json", "dangling": "nowhere", "out": "../../etc/passwd",
		"absolute": "/etc/passwd", "loop": "loop", "folder": "sub",
	} {
		if err := os.MkdirAll(filepath.Join(folder, "sub"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, filepath.Join(folder, link)); err != nil {
			t.Fatal(err)
		}
	}
	write("config.json", "{}\n")
	write("sub/file", "first")
	write("large", string(noisy(300_000)))
	mustPublish(t, "--label", "tag=v1", store, "org/model", folder)
	write("sub/file", "second")
	mustPublish(t, "--label", "stage=test", "--message", "a message\nmore", store, "org/model", folder)
	write("sub/file", "third")
	mustPublish(t, "--label", "git_commit=0123456789abcdef0123456789abcdef01234567", store, "org/model", folder)
	for _, symbol := range []string{"gpt2", "datasets/org/data", "datasets/squad", "spaces/org/app", "models/org/explicit", "a/b/c"} {
		mustPublish(t, store, symbol, folder)
	}
	return store, folder
}

// Symbols are repositories, versions are commits, and labels and snapshots are tags.
func TestServeRepositories(t *testing.T) {
	store, folder := hubStore(t)
	if status := run(t.Context(), []string{"snapshot", "create", store, "release", "org/model@1"}, nil, io.Discard, os.Stderr); status != 0 {
		t.Fatal("snapshot: status", status)
	}
	address := startServe(t, store)
	first, second := commitOf(t, address, "models/org/model", "v1"), commitOf(t, address, "models/org/model", "stage=test")
	const newest = "0123456789abcdef0123456789abcdef01234567"
	tests := []struct {
		path     string
		status   int
		code     string
		contains string
	}{
		{"/api/models/org/model", 200, "", `"sha":"` + newest + `"`},
		{"/api/models/org/model/revision/HEAD", 200, "", `"sha":"` + newest + `"`},
		{"/api/models/org/model/revision/refs%2Fheads%2Fmain", 200, "", `"sha":"` + newest + `"`},
		{"/api/models/org/model/revision/" + newest, 200, "", `"sha":"` + newest + `"`},
		{"/api/models/org/model/revision/refs%2Ftags%2Fv1", 200, "", `"sha":"` + first + `"`},
		{"/api/models/org/model/revision/release", 200, "", `"sha":"` + second + `"`},
		{"/api/models/org/model/revision/" + newest[:39], 404, "RevisionNotFound", ""},
		{"/api/models/org/model/revision/0", 404, "RevisionNotFound", ""},
		{"/api/models/org/model/refs", 200, "", `{"name":"v1","ref":"refs/tags/v1","targetCommit":"` + first + `"}`},
		{"/api/models/org/model/refs", 200, "", `{"name":"release","ref":"refs/tags/release","targetCommit":"` + second + `"}`},
		{"/api/models/org/model/tree/stage=test?expand=1", 200, "", `"title":"a message"`},
		{"/api/models/gpt2", 200, "", `"id":"gpt2"`},
		{"/api/models/org/explicit", 200, "", `"id":"org/explicit"`},
		{"/api/datasets/org/data", 200, "", `"id":"org/data"`},
		{"/api/datasets/squad", 200, "", `"id":"squad"`},
		{"/api/spaces/org/app", 200, "", `"id":"org/app"`},
		{"/api/models/datasets/squad", 404, "RepoNotFound", ""},
		{"/api/models/models/gpt2", 404, "RepoNotFound", ""},
		{"/api/datasets/org/model", 404, "RepoNotFound", ""},
		{"/api/models/Org/model", 404, "RepoNotFound", ""},
		{"/api/models/org/%2a", 404, "RepoNotFound", ""},
		{"/org/model/resolve/main/sub/file", 200, "", "third"},
		{"/org/model/resolve/v1/sub/file", 200, "", "first"},
		{"/org/model/resolve/" + first + "/link", 200, "", "first"},
		{"/org/model/resolve/" + second + "/sub/file", 200, "", "second"},
		{"/org/model/resolve/main/sub/up", 200, "", "{}\n"},
		{"/org/model/resolve/main/dangling", 404, "EntryNotFound", ""},
		{"/org/model/resolve/main/out", 404, "EntryNotFound", ""},
		{"/org/model/resolve/main/absolute", 404, "EntryNotFound", ""},
		{"/org/model/resolve/main/loop", 404, "EntryNotFound", ""},
		{"/org/model/resolve/main/folder", 404, "EntryNotFound", ""},
		{"/org/model/resolve/main/folder/file", 404, "EntryNotFound", ""},
		{"/org/model/resolve/main/large", 200, "", string(noisy(300_000))},
		{"/datasets/org/data/resolve/main/config.json", 200, "", "{}\n"},
		{"/datasets/squad/resolve/main/config.json", 200, "", "{}\n"},
		{"/-/store/" + string(names.SettingsKey()), 200, "", `"format"`},
		{"/" + string(names.SettingsKey()), 200, "", `"format"`},
		{"/-/store/xetfs.list", 200, "", ""},
		{"/xetfs.list", 200, "", ""},
		{"/-/store/config.json", 404, "", ""},
		{"/-/stats", 200, "", `"requests"`},
		{"/", 404, "", ""},
	}
	for _, tt := range tests {
		status, header, body := get(t, address+tt.path, "")
		if code := header.Get("X-Error-Code"); status != tt.status || code != tt.code || !strings.Contains(body, tt.contains) {
			t.Errorf("%s: status %d, code %q, %.200q; want %d, %q, %.200q", tt.path, status, code, body, tt.status, tt.code, tt.contains)
		}
	}
	_, _, tree := get(t, address+"/api/models/org/model/tree/main?recursive=true", "")
	for _, link := range []string{"dangling", "out", "absolute", "loop", "folder"} {
		if strings.Contains(tree, `"`+link+`"`) {
			t.Errorf("%s is in the tree: %s", link, tree)
		}
	}

	// A new version moves the branch, and a deleted one is no longer found.
	if err := os.WriteFile(filepath.Join(folder, "sub/file"), []byte("fourth"), 0o644); err != nil {
		t.Fatal(err)
	}
	mustPublish(t, store, "org/model", folder)
	if status := run(t.Context(), []string{"delete", store, "org/model@0", "org/model@1"}, nil, io.Discard, os.Stderr); status != 0 {
		t.Fatal("delete: status", status)
	}
	for path, want := range map[string]int{
		"/org/model/resolve/v1/sub/file": 404, "/org/model/resolve/" + first + "/sub/file": 404,
		"/org/model/resolve/release/sub/file": 200, "/org/model/resolve/" + newest + "/sub/file": 200,
	} {
		if status, _, _ := get(t, address+path, ""); status != want {
			t.Errorf("after the deletion, %s: status %d, want %d", path, status, want)
		}
	}
	if _, _, body := get(t, address+"/org/model/resolve/main/sub/file", ""); body != "fourth" {
		t.Errorf("the branch has %q", body)
	}
}

// A token reads the symbols of its patterns, and others do not exist for it. The plain layout and
// the statistics need a token for everything.
func TestServeTokens(t *testing.T) {
	store, _ := hubStore(t)
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte("hf_all\nhf_org org/* models/org/*\nhf_data datasets/*/*\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	address := startServe(t, "--token-file", tokens, store)
	settings := "/" + string(names.SettingsKey())
	tests := []struct {
		path, token string
		status      int
	}{
		{"/api/models/org/model", "hf_all", 200},
		{"/api/models/org/model", "hf_org", 200},
		{"/api/models/org/explicit", "hf_org", 200},
		{"/api/models/org/model", "hf_data", 404},
		{"/api/models/org/model", "hf_other", 401},
		{"/api/models/org/model", "", 401},
		{"/org/model/resolve/main/config.json", "hf_org", 200},
		{"/org/model/resolve/main/config.json", "hf_data", 404},
		{"/org/model/resolve/main/config.json", "", 401},
		{"/datasets/org/data/resolve/main/config.json", "hf_data", 200},
		{"/datasets/org/data/resolve/main/config.json", "hf_org", 404},
		{"/api/models/gpt2", "hf_org", 404},
		{"/api/whoami-v2", "hf_org", 200},
		{"/api/whoami-v2", "", 401},
		{"/-/store" + settings, "hf_all", 200},
		{"/-/store" + settings, "hf_org", 403},
		{"/-/store" + settings, "", 401},
		{settings, "hf_all", 200},
		{settings, "hf_org", 403},
		{"/-/stats", "hf_all", 200},
		{"/-/stats", "hf_org", 403},
		{"/-/stats", "", 401},
	}
	for _, tt := range tests {
		if status, _, body := get(t, address+tt.path, tt.token); status != tt.status {
			t.Errorf("%s with %q: status %d, want %d: %.200s", tt.path, tt.token, status, tt.status, body)
		}
	}
	for password, want := range map[string]int{"hf_org": 200, "hf_data": 404, "hf_other": 401} { // as git-lfs sends it
		at := strings.Replace(address, "//", "//user:"+password+"@", 1) + "/api/models/org/model"
		if status, _, body := get(t, at, ""); status != want {
			t.Errorf("with the password %q: status %d, want %d: %.200s", password, status, want, body)
		}
	}
}

// Answers that need a token are not for shared caches.
func TestServeCaching(t *testing.T) {
	store, _ := hubStore(t)
	xorbs, err := filepath.Glob(filepath.Join(store, names.XorbPrefix, "*", "*"))
	if err != nil || len(xorbs) == 0 {
		t.Fatal(xorbs, err)
	}
	key, err := filepath.Rel(store, xorbs[0])
	if err != nil {
		t.Fatal(err)
	}
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte("hf_all\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		args []string
		path string
		want string
	}{
		{nil, "/", "public, max-age=31536000, immutable"},
		{[]string{"--token-file", tokens}, "/", "private, max-age=31536000, immutable"},
		{[]string{"--token-file", tokens}, "/-/store/", "private, max-age=31536000, immutable"},
		{[]string{"--token-file", tokens, "--plain"}, "/", "private, max-age=31536000, immutable"},
	}
	for _, tt := range tests {
		status, header, _ := get(t, startServe(t, append(tt.args, store)...)+tt.path+key, "hf_all")
		if got := header.Get("Cache-Control"); status != http.StatusOK || got != tt.want {
			t.Errorf("%q: %s%s has status %d, Cache-Control: %s, want %s", tt.args, tt.path, key, status, got, tt.want)
		}
	}
}

// A token for the CAS API reads the files of one version of one symbol. Servers with the same key
// accept each other's tokens.
func TestServeReadTokens(t *testing.T) {
	store, folder := hubStore(t)
	if err := os.WriteFile(filepath.Join(folder, "large"), noisy(400_000), 0o644); err != nil {
		t.Fatal(err)
	}
	mustPublish(t, store, "other/model", folder)
	dir := t.TempDir()
	key, tokens := filepath.Join(dir, "key"), filepath.Join(dir, "tokens")
	for path, text := range map[string]string{key: strings.Repeat("k", 32), tokens: "hf_all\nhf_org org/*\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"--token-file", tokens, "--signing-key", key, store}
	address, second, foreign := startServe(t, args...), startServe(t, args...), startServe(t, "--token-file", tokens, store)
	_, header, body := get(t, address+"/api/models/org/model/xet-read-token/main", "hf_org")
	token := header.Get("X-Xet-Access-Token")
	if !strings.HasPrefix(token, "hf_") || !strings.Contains(body, token) || header.Get("X-Xet-Cas-Url") != address || header.Get("Cache-Control") != "no-store" {
		t.Fatalf("token %q, headers %v, %s", token, header, body)
	}
	hash := func(repo string) string {
		_, header, _ := get(t, address+"/"+repo+"/resolve/main/large", "hf_all")
		return header.Get("X-Xet-Hash")
	}
	ours, theirs := hash("org/model"), hash("other/model")
	tests := []struct {
		address, file, token string
		status               int
	}{
		{address, ours, token, 200},
		{second, ours, token, 200},
		{foreign, ours, token, 401},
		{address, theirs, token, 403},
		{address, strings.Repeat("0", 63) + "1", token, 403},
		{address, ours, "", 401},
		{address, ours, "hf_all", 401},
		{address, ours, token[:20] + "xyz" + token[23:], 401},
	}
	for _, tt := range tests {
		for _, plans := range []string{"/v1/reconstructions/", "/v2/reconstructions/", "/reconstructions/", "/reconstruction/"} {
			if status, _, body := get(t, tt.address+plans+tt.file, tt.token); status != tt.status {
				t.Errorf("%s%s with %.10q…: status %d, want %d: %.200s", plans, tt.file, tt.token, status, tt.status, body)
			}
		}
	}
	for path, want := range map[string]int{"/api/models/other/model/xet-read-token/main": 404, "/api/models/org/model/xet-read-token/next": 404} {
		if status, _, _ := get(t, address+path, "hf_org"); status != want {
			t.Errorf("%s: status %d, want %d", path, status, want)
		}
	}
}

// A token of a branch is for all live versions, since its client may still read an older one. A
// token of a commit is for that commit, unless every client may read everything.
func TestServeTokenOfBranch(t *testing.T) {
	store, folder := hubStore(t)
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte("hf_all\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	address, private := startServe(t, store), startServe(t, "--token-file", tokens, store)
	commit := commitOf(t, address, "models/gpt2", "main")
	_, header, _ := get(t, address+"/gpt2/resolve/main/large", "")
	older := header.Get("X-Xet-Hash")
	if err := os.WriteFile(filepath.Join(folder, "large"), noisy(400_000), 0o644); err != nil {
		t.Fatal(err)
	}
	mustPublish(t, store, "gpt2", folder)
	_, header, _ = get(t, address+"/gpt2/resolve/main/large", "")
	newer := header.Get("X-Xet-Hash")
	for _, tt := range []struct {
		revision, file string
		status         int
	}{{"main", older, 200}, {"main", newer, 200}, {commit, older, 200}, {commit, newer, 403}} {
		for server, want := range map[string]int{private: tt.status, address: 200} {
			_, header, _ := get(t, server+"/api/models/gpt2/xet-read-token/"+tt.revision, "hf_all")
			if status, _, body := get(t, server+"/v2/reconstructions/"+tt.file, header.Get("X-Xet-Access-Token")); status != want {
				t.Errorf("%s: status %d, want %d: %.200s", tt.revision, status, want, body)
			}
		}
	}
	if status := run(t.Context(), []string{"delete", store, "gpt2@0"}, nil, io.Discard, os.Stderr); status != 0 {
		t.Fatal("delete: status", status)
	}
	_, header, _ = get(t, private+"/api/models/gpt2/xet-read-token/main", "hf_all")
	if status, _, _ := get(t, private+"/v2/reconstructions/"+older, header.Get("X-Xet-Access-Token")); status != 403 {
		t.Errorf("a deleted version: status %d", status)
	}
}

// oidsOf returns git's names of the files of org/model. Folders have generated names.
func oidsOf(t *testing.T, address string) map[string]string {
	t.Helper()
	_, _, body := get(t, address+"/api/models/org/model/tree/main?recursive=true", "")
	var entries []struct{ Type, Path, OID string }
	if err := json.Unmarshal([]byte(body), &entries); err != nil {
		t.Fatal(err)
	}
	oids := map[string]string{}
	for _, e := range entries {
		if e.Type == "file" {
			oids[e.Path] = e.OID
		}
	}
	return oids
}

// A mirror serves a repository of the Hub, and what it has read also without the Hub. It fetches
// nothing again.
func TestServeMirror(t *testing.T) {
	store, folder := hubStore(t)
	upstream, stop := startServeUntil(t, store)
	t.Setenv("HF_ENDPOINT", upstream)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	mirror := startServe(t, "hf://org/model")
	read := func() {
		t.Helper()
		for _, name := range []string{"config.json", "large", "sub/file"} {
			want, err := os.ReadFile(filepath.Join(folder, name))
			if err != nil {
				t.Fatal(err)
			}
			if status, _, body := get(t, mirror+"/org/model/resolve/main/"+name, ""); status != 200 || body != string(want) {
				t.Errorf("%s: status %d, %d bytes, want %d", name, status, len(body), len(want))
			}
		}
	}
	read()
	dataBytes := func() (n int64) {
		var stats struct {
			DataBytes int64 `json:"data_bytes"`
		}
		_, _, body := get(t, upstream+"/-/stats", "")
		if err := json.Unmarshal([]byte(body), &stats); err != nil {
			t.Fatal(err)
		}
		return stats.DataBytes
	}
	first := dataBytes()
	read()
	if again := dataBytes(); first < 300_000 || first > 310_000 || again != first {
		t.Errorf("%d bytes of xorbs were fetched, later %d", first, again)
	}
	if got, want := commitOf(t, mirror, "models/org/model", "main"), commitOf(t, upstream, "models/org/model", "main"); got != want {
		t.Errorf("commit %s, want %s", got, want)
	}
	for path, want := range map[string]int{
		"/api/models/org/explicit": 404, "/api/datasets/org/model": 404, "/-/store/" + string(names.SettingsKey()): 404,
		"/org/model/resolve/main/absent": 404, "/org/model/resolve/v1/sub/file": 404,
	} {
		if status, _, _ := get(t, mirror+path, ""); status != want {
			t.Errorf("%s: status %d, want %d", path, status, want)
		}
	}
	if got, want := oidsOf(t, mirror), oidsOf(t, upstream); !maps.Equal(got, want) {
		t.Errorf("git's names are %v, want %v", got, want)
	}
	stop()
	read()
	_, header, _ := get(t, mirror+"/org/model/resolve/main/large", "")
	_, token, _ := get(t, mirror+"/api/models/org/model/xet-read-token/main", "")
	status, _, body := get(t, mirror+"/v2/reconstructions/"+header.Get("X-Xet-Hash"), token.Get("X-Xet-Access-Token"))
	if plan, err := cas.DecodeV2([]byte(body)); status != 200 || err != nil || plan.Size() != 300_000 {
		t.Errorf("status %d, %v: %s", status, err, body)
	}
}

// A token leads to the file of a tree that no client has listed, in another process.
func TestServeSearchesTree(t *testing.T) {
	store, _ := hubStore(t)
	first := startServe(t, store)
	_, header, _ := get(t, first+"/org/model/resolve/main/large", "")
	second := startServe(t, store)
	_, token, _ := get(t, second+"/api/models/org/model/xet-read-token/main", "")
	if status, _, body := get(t, second+"/v2/reconstructions/"+header.Get("X-Xet-Hash"), token.Get("X-Xet-Access-Token")); status != 200 {
		t.Errorf("status %d: %s", status, body)
	}
}

// An address that other machines can reach needs a token or --public, and a token needs TLS.
func TestServeAccess(t *testing.T) {
	store, _ := hubStore(t)
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte("hf_a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--listen=:0", "--writable", store}, "every client that can reach this address could change everything; add --token-file"},
		{[]string{"--listen=:0", store}, "every client that can reach this address could read everything; add --token-file, or --public to allow it"},
		{[]string{"--listen=0.0.0.0:0", store}, "add --token-file, or --public"},
		{[]string{"--listen=:0", "--token-file", tokens, store}, "without TLS the tokens would cross the network as plain text"},
		{[]string{"--public", "--token-file", tokens, store}, "--public and --token-file"},
		{[]string{"--plain", "--cache-size=1GiB", store}, "--plain stores nothing"},
		{[]string{"--cache-size=1GiB", store}, "--cache-size: there is no disk cache"},
	} {
		var stderr strings.Builder
		status := run(t.Context(), append([]string{"serve"}, tt.args...), nil, io.Discard, &stderr)
		if status != exitUsage || !strings.Contains(stderr.String(), tt.want) || strings.Count(stderr.String(), "\n") != 1 {
			t.Errorf("serve %q: status %d, %q, want %q", tt.args, status, stderr.String(), tt.want)
		}
	}
	if err := os.WriteFile(tokens, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	if status := run(t.Context(), []string{"serve", "--signing-key", tokens, store}, nil, io.Discard, &stderr); status != exitUsage || !strings.Contains(stderr.String(), "5 bytes are too few for a key") {
		t.Errorf("a short key: status %d, %s", status, &stderr)
	}
	public := startServe(t, "--public", "--listen=0.0.0.0:0", store)
	if status, _, _ := get(t, public+"/api/models/gpt2", ""); status != 200 {
		t.Errorf("--public: status %d", status)
	}
}

// A folder without a catalog has no repositories. Its objects are served.
func TestServeBare(t *testing.T) {
	store, _ := hubStore(t)
	address := startServe(t, "--bare", store)
	for path, want := range map[string]int{"/api/models/gpt2": 404, "/-/store/xetfs.list": 200, "/xetfs.list": 200} {
		if status, _, body := get(t, address+path, ""); status != want {
			t.Errorf("%s: status %d, want %d: %s", path, status, want, body)
		}
	}
}
