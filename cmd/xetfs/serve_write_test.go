package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/codec/names"
)

// send sends a request with a token, which may be "". It returns the status and the body.
func send(t *testing.T, method, address, token, body string) (status int, answer string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, string(b)
}

// commitBody returns a commit of one small file, or of a large one by its hash.
func commitBody(title, path, content string, isLarge bool) string {
	line := fmt.Sprintf(`{"key":"file","value":{"path":%q,"content":%q}}`, path, content)
	if isLarge {
		line = fmt.Sprintf(`{"key":"lfsFile","value":{"path":%q,"algo":"sha256","oid":"%x","size":%d}}`, path, sha256.Sum256([]byte(content)), len(content))
	}
	return fmt.Sprintf(`{"key":"header","value":{"summary":%q}}`+"\n", title) + line
}

// putLFS uploads content by the basic transfer of git-lfs. It returns the status of the batch if
// that is not 200, or that of the upload; 0: the object needed no upload.
func putLFS(t *testing.T, address, repo, token, content string) int {
	t.Helper()
	return putLFSPart(t, address, repo, token, content, len(content))
}

// putLFSPart is putLFS that sends only the first bytes of content.
func putLFSPart(t *testing.T, address, repo, token, content string, sent int) int {
	t.Helper()
	href, status := hrefLFS(t, address, repo, token, content)
	if href == "" {
		return status
	}
	status, _ = send(t, "PUT", href, "", content[:min(len(content), sent)])
	return status
}

// hrefLFS returns the address for the upload of content; "": it needs none, or status is that of the error.
func hrefLFS(t *testing.T, address, repo, token, content string) (href string, status int) {
	t.Helper()
	status, answer := send(t, "POST", address+"/"+repo+".git/info/lfs/objects/batch", token,
		fmt.Sprintf(`{"operation":"upload","transfers":["basic"],"objects":[{"oid":"%x","size":%d}]}`, sha256.Sum256([]byte(content)), len(content)))
	if status != 200 {
		return "", status
	}
	var batch struct {
		Objects []struct {
			Actions map[string]struct{ Href string }
		}
	}
	if err := json.Unmarshal([]byte(answer), &batch); err != nil || len(batch.Objects) != 1 {
		t.Fatalf("batch: %s", answer)
	}
	return batch.Objects[0].Actions["upload"].Href, 0
}

// The address for the upload of one object takes no other object of the same size.
func TestServePutOfOtherObject(t *testing.T) {
	t.Parallel()
	store, _ := hubStore(t)
	address := startServe(t, "--writable", "--cache-dir=off", store)
	const a, b = "content a", "content b"
	href, status := hrefLFS(t, address, "org/model", "", a)
	if href == "" {
		t.Fatalf("batch: status %d", status)
	}
	of := func(content string) string { return fmt.Sprintf("/%x", sha256.Sum256([]byte(content))) }
	elsewhere := strings.Replace(href, of(a), of(b), 1)
	if elsewhere == href {
		t.Fatalf("the address %s does not name the object", href)
	}
	for _, tt := range []struct {
		href, content string
		want          int
	}{{elsewhere, b, 403}, {href, b, 400}, {href, a, 200}} {
		if status, answer := send(t, "PUT", tt.href, "", tt.content); status != tt.want {
			t.Errorf("%q at %s: status %d, %s, want %d", tt.content, tt.href, status, answer, tt.want)
		}
	}
}

// A commit is a version of a symbol, also after a restart of the server.
func TestServeWritable(t *testing.T) {
	t.Parallel()
	store := filepath.Join(t.TempDir(), "store")
	large := strings.Repeat("large content ", 50_000)
	address, stop := startServeUntil(t, "--writable", "--cache-dir=off", store)
	create := `{"name":"model","organization":"org","type":"model"}`
	for _, want := range []int{200, 409} {
		if status, answer := send(t, "POST", address+"/api/repos/create", "", create); status != want || !strings.Contains(answer, "/org/model") {
			t.Errorf("create: status %d, %s, want %d", status, answer, want)
		}
	}
	commit := address + "/api/models/org/model/commit/main"
	if status, answer := send(t, "POST", commit, "", commitBody("large", "large.bin", large, true)); status != 400 || !strings.Contains(answer, "was not uploaded") {
		t.Errorf("commit of content that was not uploaded: status %d, %s", status, answer)
	}
	if status := putLFS(t, address, "org/model", "", large); status != 200 {
		t.Errorf("upload: status %d", status)
	}
	var first struct{ CommitOid string }
	for i, body := range []string{
		commitBody("large", "large.bin", large, true), commitBody("small", "a/small.txt", strings.Repeat("text\n", 100), false),
		commitBody("tiny", "tiny", "1", false), commitBody("tiny", "tiny", "1", false),
	} {
		status, answer := send(t, "POST", commit, "", body)
		if status != 200 {
			t.Fatalf("commit %d: status %d, %s", i, status, answer)
		}
		if err := json.Unmarshal([]byte(answer), &first); err != nil || len(first.CommitOid) != 40 {
			t.Fatalf("commit %d: %s", i, answer)
		}
	}
	if status := putLFS(t, address, "org/model", "", large); status != 0 {
		t.Errorf("content that the repository has is uploaded again: status %d", status)
	}
	_, answer := send(t, "GET", address+"/api/models/org/model/tree/main?recursive=true", "", "")
	for _, want := range []string{
		fmt.Sprintf(`"lfs":{"oid":"%x"`, sha256.Sum256([]byte(large))), `"path":"a/small.txt"`,
	} {
		if !strings.Contains(answer, want) {
			t.Errorf("tree without %s: %s", want, answer)
		}
	}
	_, answer = send(t, "GET", address+"/api/models/org/model/commits/main?limit=2", "", "")
	if strings.Count(answer, `"title":"`) != 2 || !strings.Contains(answer, `"title":"tiny"`) || !strings.Contains(answer, `"user":"anonymous"`) {
		t.Errorf("commits: %s", answer)
	}
	for path, want := range map[string]string{"large.bin": large, "a/small.txt": strings.Repeat("text\n", 100), "tiny": "1"} {
		if _, got := send(t, "GET", address+"/org/model/resolve/main/"+path, "", ""); got != want {
			t.Errorf("%s: %d bytes that differ", path, len(got))
		}
	}
	stop()
	for prefix, want := range map[string]int{names.RefPrefix: 1, names.ShardPrefix: 2} {
		listing, err := os.ReadFile(filepath.Join(store, "xetfs.list"))
		if got := strings.Count(string(listing), "\n"+prefix); err != nil || got != want {
			t.Errorf("the listing has %d keys %s, %v, want %d: %s", got, prefix, err, want, listing)
		}
	}
	if out := mustRun(t, "history", store, "org/model"); strings.Count(out, "hub_commit=") != 3 {
		t.Errorf("history: %s", out)
	}
	mustRun(t, "catalog", "check", store)
	mustRun(t, "verify", store)
	address, stop = startServeUntil(t, "--writable", "--cache-dir=off", store)
	defer stop()
	status, answer := send(t, "POST", address+"/api/models/org/model/commit/main", "", commitBody("tiny", "tiny", "1", false))
	if status != 200 || !strings.Contains(answer, first.CommitOid) {
		t.Errorf("the same commit after a restart: status %d, %s", status, answer)
	}
	// A move is sent again after a lost answer. A repository that is created anew is another one.
	move := func() int {
		status, _ := send(t, "POST", address+"/api/repos/move", "", `{"fromRepo":"org/model","toRepo":"org/moved"}`)
		return status
	}
	if first, again := move(), move(); first != 200 || again != 200 {
		t.Errorf("move: status %d, again %d", first, again)
	}
	if status, _, text := get(t, address+"/org/moved/resolve/main/tiny", ""); status != 200 || text != "1" {
		t.Errorf("moved file: status %d, %q", status, text)
	}
	send(t, "POST", address+"/api/repos/create", "", create)
	if status := move(); status != 409 {
		t.Errorf("move to a name that is taken: status %d", status)
	}
	if status, _ := send(t, "DELETE", address+"/api/repos/delete", "", create); status != 200 {
		t.Errorf("delete: status %d", status)
	}
	if status, _, _ := get(t, address+"/api/models/org/model", ""); status != 404 {
		t.Errorf("deleted repository: status %d", status)
	}
}

// mustRun runs a command that succeeds, and returns its output.
func mustRun(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if status := run(context.Background(), args, nil, &out, &errs); status != 0 {
		t.Errorf("%q: status %d, %s", args, status, &errs)
	}
	return out.String()
}

// Tokens have scopes. A token without the right gets 401 or 403, whether or not the repository
// exists, and no output has a token.
func TestServeWriteTokens(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store, tokens := filepath.Join(dir, "store"), filepath.Join(dir, "tokens")
	const reader, writer, other, all = "hf_canary_reader", "hf_canary_writer", "hf_canary_other", "hf_canary_all"
	if err := os.WriteFile(tokens, []byte(reader+" read org/*\n"+writer+" write org/*\n"+other+" write else/*\n"+all+" write\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	address, stop := startServeUntil(t, "--writable", "--cache-dir=off", "--token-file", tokens, store)
	defer stop()
	create := func(name string) string { return fmt.Sprintf(`{"name":%q,"organization":"org"}`, name) }
	if status, answer := send(t, "POST", address+"/api/repos/create", writer, create("model")); status != 200 {
		t.Fatalf("create: status %d, %s", status, answer)
	}
	content := strings.Repeat("content of the writer ", 1000)
	if status := putLFS(t, address, "org/model", writer, content); status != 200 {
		t.Fatalf("upload: status %d", status)
	}
	var answers []string
	for _, name := range []string{"model", "absent"} {
		requests := []struct{ name, method, path, body string }{
			{"create", "POST", "/api/repos/create", create(name)},
			{"delete", "DELETE", "/api/repos/delete", create(name)},
			{"move", "POST", "/api/repos/move", `{"fromRepo":"org/` + name + `","toRepo":"org/new"}`},
			{"preupload", "POST", "/api/models/org/" + name + "/preupload/main", `{"files":[]}`},
			{"token", "GET", "/api/models/org/" + name + "/xet-write-token/main", ""},
			{"batch", "POST", "/org/" + name + ".git/info/lfs/objects/batch", `{"operation":"upload","objects":[]}`},
			{"commit", "POST", "/api/models/org/" + name + "/commit/main", commitBody("a", "a", "1", false)},
		}
		for _, r := range requests {
			for token, want := range map[string]int{"": 401, "hf_canary_unknown": 401, reader: 403, other: 403} {
				status, answer := send(t, r.method, address+r.path, token, r.body)
				says := map[string]string{reader: "may only read; the operator of the server can allow uploads with the word write", other: "may not change this repository"}
				if status != want || !strings.Contains(answer, says[token]) || name == "absent" && token == other && strings.Contains(answer, "ound") {
					t.Errorf("%s of %s with %q: status %d, %s, want %d", r.name, name, token, status, answer, want)
				}
				answers = append(answers, answer)
			}
		}
	}
	// The hash of content that another token has uploaded grants no access.
	for _, thief := range [][2]string{{other, "else/model"}, {all, "else/model"}, {all, "org/model"}} {
		token, repo := thief[0], thief[1]
		send(t, "POST", address+"/api/repos/create", token, `{"name":"model","organization":"else"}`)
		status, answer := send(t, "POST", address+"/api/models/"+repo+"/commit/main", token, commitBody("steal", "a", content, true))
		if status != 400 || !strings.Contains(answer, "was not uploaded by this client") {
			t.Errorf("content of another token: status %d, %s", status, answer)
		}
		answers = append(answers, answer)
	}
	if status, answer := send(t, "POST", address+"/api/models/org/model/commit/main", writer, commitBody("mine", "a", content, true)); status != 200 {
		t.Errorf("commit: status %d, %s", status, answer)
	}
	// A token that may read the repository may also name its content.
	for _, tt := range []struct {
		token string
		want  int
	}{{other, 400}, {all, 200}} {
		status, answer := send(t, "POST", address+"/api/models/else/model/commit/main", tt.token, commitBody("copy", "a", content, true))
		if status != tt.want {
			t.Errorf("content of a repository: status %d, %s, want %d", status, answer, tt.want)
		}
		answers = append(answers, answer)
	}
	_, header, _ := get(t, address+"/org/model/resolve/main/a", reader)
	_, token, _ := get(t, address+"/api/models/org/model/xet-write-token/main", writer)
	if status, _, body := get(t, address+"/v2/reconstructions/"+header.Get("X-Xet-Hash"), token.Get("X-Xet-Access-Token")); status != 200 {
		t.Errorf("a token for uploads reads with status %d: %s", status, body)
	}
	// Clients take a 404 for a server without grants, and upload plainly.
	if status, body := send(t, "POST", address+"/v1/xorb-grants/default/x", token.Get("X-Xet-Access-Token"), "{}"); status != 404 {
		t.Errorf("a grant: status %d, %s", status, body)
	}
	_, who := send(t, "GET", address+"/api/whoami-v2", writer, "")
	if !strings.Contains(who, `"role":"write"`) {
		t.Errorf("whoami: %s", who)
	}
	if text := strings.Join(append(answers, who), " "); strings.Contains(text, "canary") {
		t.Error("an answer has a token")
	}
}

// A file that git-lfs has sent need not be sent again after a restart of the server. A cut one is not stored.
func TestServeLFSAfterRestart(t *testing.T) {
	t.Parallel()
	store, _ := hubStore(t)
	content := strings.Repeat("content ", 20_000)
	shards := countObjects(t, store, names.ShardPrefix)
	for i, tt := range []struct{ sent, status, shards int }{
		{1000, 400, shards}, {len(content), 200, shards + 1}, {len(content), 0, shards + 1},
	} {
		address, stop := startServeUntil(t, "--writable", "--cache-dir=off", store)
		if status := putLFS(t, address, "org/model", "", ""); status != 0 {
			t.Errorf("the empty file is uploaded: status %d", status)
		}
		if status := putLFSPart(t, address, "org/model", "", content, tt.sent); status != tt.status {
			t.Errorf("upload %d: status %d, want %d", i, status, tt.status)
		}
		stop()
		if got := countObjects(t, store, names.ShardPrefix); got != tt.shards {
			t.Errorf("upload %d: %d shards, want %d", i, got, tt.shards)
		}
	}
}

// A damaged tree of one symbol does not block uploads to others.
func TestServeWritesBesideDamage(t *testing.T) {
	t.Parallel()
	store, _ := hubStore(t)
	pages := func() []string {
		t.Helper()
		files, err := filepath.Glob(filepath.Join(store, names.PagePrefix, "*", "*"))
		if err != nil || len(files) == 0 {
			t.Fatal("no pages of trees:", err)
		}
		return files
	}
	sound, folder := pages(), t.TempDir()
	for i := range 1000 { // more than one page
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprint(i)), []byte{byte(i)}, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	mustPublish(t, store, "else/damaged", folder)
	for _, file := range pages() {
		if slices.Contains(sound, file) {
			continue
		}
		if err := os.Chmod(file, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("damage"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	address := startServe(t, "--writable", store)
	if status, _, _ := get(t, address+"/api/models/else/damaged/tree/main", ""); status != 500 {
		t.Errorf("the damaged tree: status %d: the test shows nothing", status)
	}
	if status := putLFS(t, address, "org/model", "", "new content"); status != 200 {
		t.Errorf("an upload: status %d", status)
	}
}

// Behind a proxy, all addresses in answers begin with the public one.
func TestServePublicURL(t *testing.T) {
	t.Parallel()
	const public = "https://models.example.org:444"
	store, _ := hubStore(t)
	address := startServe(t, "--writable", "--public-url", public+"/", store)
	plan, token := "", ""
	addresses := regexp.MustCompile(`https?://[^]/">]*`)
	ask := func(method, path, body string) http.Header {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, address+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Host = "inner.example:8080"
		if path == plan {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		text, err := io.ReadAll(a.Body)
		if err != nil || a.StatusCode != 200 {
			t.Errorf("%s %s: status %d, %v: %s", method, path, a.StatusCode, err, text)
		}
		all := addresses.FindAllString(fmt.Sprint(a.Header, string(text)), -1)
		for _, found := range all {
			if found != public {
				t.Errorf("%s %s: address %s, want %s", method, path, found, public)
			}
		}
		if len(all) == 0 {
			t.Errorf("%s %s: no address: the test shows nothing", method, path)
		}
		return a.Header
	}
	const api = "/api/models/org/model"
	hash := ask("HEAD", "/org/model/resolve/main/large", "").Get("X-Xet-Hash")
	token = ask("GET", api+"/xet-read-token/main", "").Get("X-Xet-Access-Token")
	for _, plan = range []string{"/v1/reconstructions/" + hash, "/v2/reconstructions/" + hash} {
		ask("GET", plan, "")
	}
	ask("GET", api+"/tree/main?limit=1", "")
	ask("GET", api+"/commits/main?limit=1", "")
	ask("GET", api+"/xet-write-token/main", "")
	ask("POST", api+"/commit/main", commitBody("title", "new", "text", false))
	ask("POST", "/api/repos/create", `{"name":"new","organization":"org"}`)
	for _, transfer := range []string{"basic", "xet"} {
		ask("POST", "/org/model.git/info/lfs/objects/batch", fmt.Sprintf(
			`{"operation":"upload","transfers":[%q],"objects":[{"oid":"%x","size":9}]}`, transfer, sha256.Sum256([]byte("new object"))))
	}
}

// An address that answers cannot begin with is refused.
func TestServePublicURLUsage(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "models.example.org", "ftp://host", "https://", "https://:443", "https://user@host", "https://host?", "https://host/#x", "https://host/path",
	} {
		if u, err := parsePublicURL(text); err == nil {
			t.Errorf("%q is %v, want an error", text, u)
		}
	}
	var stderr strings.Builder
	status := run(t.Context(), []string{"serve", "--plain", "--public-url=https://host", t.TempDir()}, nil, io.Discard, &stderr)
	if status != exitUsage || !strings.Contains(stderr.String(), "--public-url: with --plain no answer has an address") {
		t.Errorf("--plain: status %d, %s", status, &stderr)
	}
}

// Flags that contradict --writable are refused.
func TestServeWritableFlags(t *testing.T) {
	t.Parallel()
	store := filepath.Join(t.TempDir(), "store")
	for _, tt := range []struct {
		args     []string
		contains string
	}{
		{[]string{"--writable", "--public", store}, "--token-file"},
		{[]string{"--writable", "--plain", store}, "--plain"},
		{[]string{"--writable", "--bare", store}, "--bare"},
		{[]string{"--writable", "hf://org/model"}, "local folder or a bucket is needed"},
		{[]string{"--writable", "http://localhost:1/"}, "local folder or a bucket is needed"},
		{[]string{"--quota", "1GB", store}, "--writable"},
	} {
		var errs bytes.Buffer
		if status := run(t.Context(), append([]string{"serve"}, tt.args...), nil, io.Discard, &errs); status != 2 || !strings.Contains(errs.String(), tt.contains) {
			t.Errorf("%q: status %d, %s", tt.args, status, &errs)
		}
	}
	if _, err := os.Stat(store); err == nil {
		t.Error("a refused command has made the store")
	}
}

// A token file without the word write is named at the start, if the server accepts uploads.
func TestServeWriteNotice(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tokens := filepath.Join(dir, "tokens")
	if err := os.WriteFile(tokens, []byte("hf_canary read\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const want = "xetfs serve: --token-file TOKENS: no line has the word write, so every upload is refused; add it behind a token, like: TOKEN write owner/*\n"
	for _, flag := range []string{"--writable", "--writable=false"} {
		ctx, cancel := context.WithCancel(t.Context())
		var errs bytes.Buffer
		address := writerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil })
		status := run(ctx, []string{"serve", "--listen=127.0.0.1:0", flag, "--cache-dir=off", "--token-file", tokens, filepath.Join(dir, "store")}, nil, address, &errs)
		first, _, _ := strings.Cut(strings.ReplaceAll(errs.String(), tokens, "TOKENS"), "xetfs serve: 0 requests")
		if status != 0 || (first == want) != (flag == "--writable") {
			t.Errorf("%s: status %d, %s", flag, status, &errs)
		}
	}
}

// A writerFunc is an io.Writer.
type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
