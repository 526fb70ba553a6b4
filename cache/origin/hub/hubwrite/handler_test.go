package hubwrite

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	iofs "io/fs"
	"iter"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin/hub"
	"github.com/xetfs/xetfs/cache/origin/hub/hubserve"
)

const testCommit = "0123456789abcdef0123456789abcdef01234567"

// A fakeRepos is one model, owner/name. It records the changes.
type fakeRepos struct {
	files   map[string]hubserve.File
	objects map[[32]byte]string

	mu   sync.Mutex
	log  []string      // guarded by mu
	wait chan struct{} // Commit waits for it; nil: not
}

var _ Repos = (*fakeRepos)(nil)

func (f *fakeRepos) record(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = append(f.log, fmt.Sprintf(format, args...))
}

// check returns the error for a repository: one that is foreign, absent, or none.
func (*fakeRepos) check(id hub.RepoID) error {
	switch {
	case strings.HasPrefix(id.Name, "foreign/"):
		return &hubserve.Refusal{Status: http.StatusForbidden, Text: "the token may not change this repository"}
	case id.Name != "owner/name":
		return fmt.Errorf("secret: %w", hub.ErrRepoNotFound)
	}
	return nil
}

func (f *fakeRepos) Create(_ context.Context, id hub.RepoID) error {
	f.record("create %s %s", id.Type, id.Name)
	if id.Name == "owner/name" {
		return ErrRepoExists
	}
	return nil
}

func (f *fakeRepos) Delete(_ context.Context, id hub.RepoID) error {
	f.record("delete %s %s", id.Type, id.Name)
	return f.check(id)
}

func (f *fakeRepos) Move(_ context.Context, from, to hub.RepoID) error {
	f.record("move %s %s", from.Name, to.Name)
	return f.check(from)
}

func (f *fakeRepos) Head(_ context.Context, id hub.RepoID) (hubserve.Commit, error) {
	return fakeCommit{f.files}, f.check(id)
}

func (*fakeRepos) Ignores(_ context.Context, _ hubserve.Commit, patterns *string) (func(string) bool, error) {
	return func(p string) bool { return patterns != nil && strings.HasSuffix(p, *patterns) }, nil
}

func (f *fakeRepos) WriteToken(_ context.Context, id hub.RepoID) (WriteToken, error) {
	return WriteToken{"hf_token", time.Unix(2_000_000_000, 0), "session"}, f.check(id)
}

func (f *fakeRepos) HasObjects(_ context.Context, _ hub.RepoID, objects []Object) ([]bool, error) {
	has := make([]bool, len(objects))
	for i, o := range objects {
		content, ok := f.objects[o.SHA256]
		has[i] = ok && int64(len(content)) == o.Size
	}
	return has, nil
}

func (*fakeRepos) ObjectToken(_ context.Context, _ hub.RepoID, o Object) (string, time.Time, error) {
	if o.Size > 1<<40 {
		return "", time.Time{}, &hubserve.Refusal{Status: http.StatusRequestEntityTooLarge, Text: "at most 1 TiB"}
	}
	return fmt.Sprintf("put+%d", o.Size), time.Now().Add(time.Hour), nil
}

func (f *fakeRepos) PutObject(_ context.Context, token string, id hub.RepoID, sum [32]byte, content io.Reader) error {
	b, err := io.ReadAll(content)
	if err != nil {
		return bodyError(err)
	}
	if token != fmt.Sprintf("put+%d", len(b)) {
		return &hubserve.Refusal{Status: http.StatusForbidden, Text: "the token is not valid"}
	}
	if sha256.Sum256(b) != sum {
		return refuse("the content has another SHA-256")
	}
	f.objects[sum] = string(b)
	return f.check(id)
}

func (f *fakeRepos) Commit(ctx context.Context, id hub.RepoID, c *Commit) (string, error) {
	if f.wait != nil {
		<-f.wait
	}
	ops := ""
	for op, err := range c.Operations {
		if err != nil {
			return "", err
		}
		ops += fmt.Sprintf(" %s %s", op.Kind, op.Path)
	}
	f.record("commit %s: %s:%s", id.Name, c.Title, ops)
	return testCommit, f.check(id)
}

// A fakeCommit is the files of a tree.
type fakeCommit struct{ files map[string]hubserve.File }

func (fakeCommit) ID() string      { return testCommit }
func (fakeCommit) Time() time.Time { return time.Time{} }
func (fakeCommit) Title() string   { return "" }

func (c fakeCommit) Lookup(_ context.Context, p string) (hubserve.File, error) {
	f, ok := c.files[p]
	if !ok {
		return f, iofs.ErrNotExist
	}
	return f, nil
}

func (fakeCommit) List(context.Context, string, string) iter.Seq2[hubserve.File, error] { return nil }

// A fixture is a Hub with one model.
type fixture struct {
	http.Handler
	repos *fakeRepos
}

func newFixture(t *testing.T, o Options) *fixture {
	t.Helper()
	sum := [32]byte{1}
	repos := &fakeRepos{files: map[string]hubserve.File{
		"large.bin": {Path: "large.bin", Size: 1000, SHA256: &sum}, "git.txt": {Path: "git.txt", Size: 1000, SHA256: &sum, GitOID: testCommit},
		"tiny": {Path: "tiny", Size: 3, Inline: []byte("{}\n")}, "dir": {Path: "dir", IsDir: true},
	}, objects: map[[32]byte]string{{1}: "abc"}}
	o.Repos = repos
	return &fixture{hubserve.NewHandler(hubserve.HandlerOptions{Writes: NewHandler(o)}), repos}
}

func (f *fixture) do(method, target string, body io.Reader) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://hub.test"+target, body)
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	return w
}

// A new repository is private if clients need a token, whatever the client requests.
func TestCreatePrivate(t *testing.T) {
	for _, isPrivate := range []bool{false, true} {
		f := newFixture(t, Options{Private: isPrivate})
		for _, body := range []string{`{"name":"new","private":true}`, `{"name":"new","private":false}`} {
			if w := f.do("POST", "/api/repos/create", strings.NewReader(body)); !strings.Contains(w.Body.String(), fmt.Sprintf(`"private":%t`, isPrivate)) {
				t.Errorf("private %t: %s gets %s", isPrivate, body, w.Body)
			}
		}
	}
}

// Each route answers as real clients expect, and refuses what does not exist here.
func TestRoutes(t *testing.T) {
	const repo, sums = "/api/models/owner/name", "/owner/name.git/info/lfs/objects/"
	commit := header + file("a")
	tests := []struct {
		name, method, target, body string
		status                     int
		contains, log              string
	}{
		{"create", "POST", "/api/repos/create", `{"name":"new","organization":"owner","type":"dataset"}`, 200, `"url":"http://hub.test/datasets/owner/new"`, "create dataset owner/new"},
		{"create without an owner", "POST", "/api/repos/create", `{"name":"new"}`, 200, `"url":"http://hub.test/new"`, "create model new"},
		{"create again", "POST", "/api/repos/create", `{"name":"name","organization":"owner","private":true}`, 409, `"url":"http://hub.test/owner/name"`, ""},
		{"create a bucket", "POST", "/api/repos/create", `{"name":"a","type":"bucket"}`, 400, "model, dataset or space", ""},
		{"create with files", "POST", "/api/repos/create", `{"name":"a","files":[{}]}`, 400, "files", ""},
		{"create upwards", "POST", "/api/repos/create", `{"name":"..","organization":"owner"}`, 400, "name of a repository", ""},
		{"create three segments", "POST", "/api/repos/create", `{"name":"a/b","organization":"c"}`, 400, "name of a repository", ""},
		{"create among the types", "POST", "/api/repos/create", `{"name":"x","organization":"datasets"}`, 400, "another owner", ""},
		{"create with a version", "POST", "/api/repos/create", `{"name":"x@1","organization":"owner"}`, 400, "name of a repository", ""},
		{"create in broken JSON", "POST", "/api/repos/create", `{`, 400, "JSON", ""},
		{"create a large body", "POST", "/api/repos/create", strings.Repeat(" ", 70<<10), 413, "bytes", ""},
		{"create by GET", "GET", "/api/repos/create", "", 405, "only POST", ""},
		{"delete", "DELETE", "/api/repos/delete", `{"name":"name","organization":"owner","type":"model"}`, 200, "success", "delete model owner/name"},
		{"delete an absent one", "DELETE", "/api/repos/delete", `{"name":"other","organization":"owner"}`, 404, "Repository not found", ""},
		{"delete a foreign one", "DELETE", "/api/repos/delete", `{"name":"other","organization":"foreign"}`, 403, "may not change", ""},
		{"move", "POST", "/api/repos/move", `{"fromRepo":"owner/name","toRepo":"owner/new","type":"model"}`, 200, "owner/new", "move owner/name owner/new"},
		{"move among the routes", "POST", "/api/repos/move", `{"fromRepo":"owner/name","toRepo":"api/new","type":"model"}`, 400, "another owner", ""},
		{"move away from a bad name", "POST", "/api/repos/move", `{"fromRepo":"owner/x:y","toRepo":"owner/new","type":"model"}`, 404, "Repository not found", ""},
		{"delete a bad name", "DELETE", "/api/repos/delete", `{"name":"x:y","organization":"owner"}`, 404, "Repository not found", ""},
		{"yaml", "POST", "/api/validate-yaml", `{"content":"---\na: b\n---\n","repoType":"model"}`, 200, `"errors":[]`, ""},
		{"token", "GET", repo + "/xet-write-token/main", "", 200, `"accessToken":"hf_token","casUrl":"http://hub.test","exp":2000000000`, ""},
		{"token of a foreign repository", "GET", "/api/models/foreign/name/xet-write-token/main", "", 403, "may not change", ""},
		{"token of a branch", "GET", repo + "/xet-write-token/dev", "", 404, "one branch", ""},
		{"token for a pull request", "GET", repo + "/xet-write-token/main?create_pr=1", "", 400, "no pull requests", ""},
		{"commit", "POST", repo + "/commit/main", commit, 200, `"commitOid":"` + testCommit + `","commitUrl":"http://hub.test/owner/name/commit/` + testCommit + `"`, "commit owner/name: a title: file a"},
		{"commit to a name among the routes", "POST", "/api/models/api/name/commit/main", commit, 400, "another owner", ""},
		{"commit to HEAD", "POST", repo + "/commit/refs%2Fheads%2Fmain", commit, 200, "success", "commit owner/name: a title: file a"},
		{"commit to a branch", "POST", repo + "/commit/dev", commit, 404, "one branch", ""},
		{"commit to a pull request", "POST", repo + "/commit/refs%2Fpr%2F1", commit, 404, "one branch", ""},
		{"commit as a pull request", "POST", repo + "/commit/main?create_pr=1", commit, 400, "no pull requests", ""},
		{"commit to an absent repository", "POST", "/api/models/owner/other/commit/main", commit, 404, "Repository not found", ""},
		{"hostile commit", "POST", repo + "/commit/main", header + file("../a"), 400, "line 2", ""},
		{"create a branch", "POST", repo + "/branch/dev", "{}", 400, "no branches", ""},
		{"delete a branch", "DELETE", repo + "/branch/dev", "", 400, "no branches", ""},
		{"delete a tag", "DELETE", repo + "/tag/v1", "", 400, "no branches", ""},
		{"create a tag", "POST", repo + "/tag/main", "{}", 400, "no branches", ""},
		{"open a pull request", "POST", repo + "/discussions", "{}", 400, "pull requests", ""},
		{"batch of another operation", "POST", sums + "batch", `{"operation":"download","objects":[]}`, 422, "no downloads", ""},
		{"batch of another hash", "POST", sums + "batch", `{"operation":"upload","hash_algo":"sha512"}`, 409, "sha256", ""},
		{"batch of a branch", "POST", sums + "batch", `{"operation":"upload","ref":{"name":"dev"}}`, 404, "one branch", ""},
		{"batch of no list", "POST", sums + "batch", `{"operation":"upload","objects":{}}`, 400, "JSON", ""},
		{"batch of null", "POST", sums + "batch", `{"operation":"upload","objects":null}`, 200, `"objects":[]`, ""},
		{"batch by GET", "GET", sums + "batch", "", 405, "only POST", ""},
		{"batch with a hash that is none", "POST", sums + "batch", `{"operation":"upload","objects":[{"oid":"x","size":1}]}`, 200, `"error":{"code":422`, ""},
		{"batch with a large object", "POST", sums + "batch", `{"operation":"upload","objects":[{"oid":"` + testOID + `","size":2199023255552}]}`, 200, `"error":{"code":413,"message":"at most 1 TiB"}`, ""},
		{"put under a name that is no hash", "PUT", sums + "x", "a", 400, "SHA-256", ""},
		{"put without a token", "PUT", sums + testOID, "a", 403, "not valid", ""},
		{"put of other content", "PUT", sums + testOID + "?token=put%2B1", "a", 400, "another SHA-256", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, Options{})
			w := f.do(tt.method, tt.target, strings.NewReader(tt.body))
			if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.contains) {
				t.Errorf("status %d, %s; want %d, %s", w.Code, w.Body, tt.status, tt.contains)
			}
			if got := strings.Join(f.repos.log, "; "); tt.log != "" && got != tt.log || tt.status == 400 && tt.log == "" && strings.Contains(got, "commit") {
				t.Errorf("changes %q, want %q", got, tt.log)
			}
			if strings.Contains(w.Body.String(), "secret") {
				t.Errorf("the answer is %s", w.Body)
			}
			if tt.status >= 400 && w.Header().Get("X-Error-Message") == "" {
				t.Error("no X-Error-Message")
			}
		})
	}
}

// The mode of a file depends on its size, its first bytes, and on the file that it replaces.
func TestModes(t *testing.T) {
	sum := "01" + strings.Repeat("00", 31)
	tests := []struct {
		path, sample string
		size         int64
		mode, oid    string
	}{
		{"new.txt", "a text", 6, "regular", ""},
		{"empty", "", 0, "regular", ""},
		{"tiny.bin", "\x00\x01", 2, "regular", ""},
		{"small.bin", "\x00\x01", 300, "lfs", ""},
		{"small.txt", "é" + strings.Repeat("é", 255) + "\xc3", 1000, "regular", ""},
		{"latin.txt", "caf\xe9 ", 1000, "lfs", ""},
		{"long.txt", "a text", 65 << 10, "lfs", ""},
		{"large.bin", "a text", 1000, "lfs", sum},
		{"large.bin", "", 0, "regular", ""},
		{"git.txt", "a text", 1000, "regular", testCommit},
		{"git.txt", "\x00", 1000, "lfs", ""},
		{"tiny", "{}\n", 3, "regular", "0967ef424bce6791893e9a57bb952f80fd536e93"},
		{"dir", "a", 1, "regular", ""},
		{"sub/a.log", "a", 1, "regular", ""},
	}
	f := newFixture(t, Options{})
	var in struct {
		Files     []candidate `json:"files"`
		GitIgnore string      `json:"gitIgnore"`
	}
	in.GitIgnore = ".log"
	for _, tt := range tests {
		in.Files = append(in.Files, candidate{tt.path, tt.size, base64.StdEncoding.EncodeToString([]byte(tt.sample))})
	}
	body, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	w := f.do("POST", "/api/models/owner/name/preupload/main", strings.NewReader(string(body)))
	var out struct{ Files []mode }
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || len(out.Files) != len(tests) {
		t.Fatalf("status %d, %s", w.Code, w.Body)
	}
	for i, tt := range tests {
		m := out.Files[i]
		oid := ""
		if m.OID != nil {
			oid = *m.OID
		}
		if m.Path != tt.path || m.Mode != tt.mode || oid != tt.oid || m.Ignore != strings.HasSuffix(tt.path, ".log") {
			t.Errorf("%s, %d bytes: %+v, OID %q", tt.path, tt.size, m, oid)
		}
	}
}

// An object that the client may name needs no action. The others get one, which stores them.
func TestBatch(t *testing.T) {
	f := newFixture(t, Options{})
	content := "the content"
	sum := sha256.Sum256([]byte(content))
	body := fmt.Sprintf(`{"operation":"upload","transfers":["basic","multipart"],"hash_algo":"sha_256","ref":{"name":"main"},"objects":[`+
		`{"oid":"01%s","size":3},{"oid":"01%[1]s","size":4},{"oid":"%x","size":%d}]}`, strings.Repeat("00", 31), sum, len(content))
	var out struct {
		Transfer string
		Objects  []batchObject
	}
	batch := func(body string) {
		t.Helper()
		w := f.do("POST", "/owner/name.git/info/lfs/objects/batch", strings.NewReader(body))
		out.Objects = nil
		if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || w.Header().Get("Content-Type") != lfsType {
			t.Fatalf("status %d, %s", w.Code, w.Body)
		}
	}
	batch(body)
	if out.Transfer != "basic" || len(out.Objects) != 3 || out.Objects[0].Actions != nil || out.Objects[1].Actions == nil {
		t.Fatalf("%+v", out)
	}
	up := out.Objects[2].Actions["upload"]
	target, ok := strings.CutPrefix(up.Href, "http://hub.test")
	if !ok || up.ExpiresIn < 1000 {
		t.Fatalf("%+v", up)
	}
	if w := f.do("PUT", target, strings.NewReader(content)); w.Code != 200 || f.repos.objects[sum] != content {
		t.Errorf("status %d, %s", w.Code, w.Body)
	}
	batch(strings.Replace(body, `"multipart"`, `"xet"`, 1))
	up = out.Objects[1].Actions["upload"]
	if out.Transfer != "xet" || up.Href != "http://hub.test/api/models/owner/name/xet-write-token/main" || up.Header["X-Xet-Access-Token"] != "hf_token" ||
		up.Header["X-Xet-Cas-Url"] != "http://hub.test" || up.Header["X-Xet-Session-Id"] != "session" || up.Header["X-Xet-Token-Expiration"] != "2000000000" {
		t.Errorf("%+v", out)
	}
	if out.Objects[2].Actions != nil {
		t.Error("an object that was stored has an action")
	}
}

// A list with more entries than a request may have is refused before they need memory.
func TestLongLists(t *testing.T) {
	f := newFixture(t, Options{})
	for _, tt := range []struct{ target, start string }{
		{"/api/models/owner/name/preupload/main", `{"files":[`},
		{"/owner/name.git/info/lfs/objects/batch", `{"operation":"upload","objects":[`},
	} {
		body := func(n int) string { return tt.start + strings.Repeat("{},", n-1) + "{}]}" }
		if w := f.do("POST", tt.target, strings.NewReader(body(maxListEntries))); w.Code == http.StatusRequestEntityTooLarge {
			t.Errorf("%s: status %d for %d entries", tt.target, w.Code, maxListEntries)
		}
		long := body(maxListBody/3 - 20)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		w := f.do("POST", tt.target, strings.NewReader(long))
		runtime.ReadMemStats(&after)
		if w.Code != http.StatusRequestEntityTooLarge || !strings.Contains(w.Body.String(), "at most 5000 entries") {
			t.Errorf("%s: status %d, %s", tt.target, w.Code, w.Body)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 8*maxListBody {
			t.Errorf("%s: %d bytes of memory for a body of %d bytes", tt.target, n, len(long))
		}
	}
}

// The number of lists in memory is bounded. Small bodies do not wait for them.
func TestManyLists(t *testing.T) {
	f := newFixture(t, Options{})
	h, ok := NewHandler(Options{Repos: f.repos, Wait: time.Millisecond}).(*handler)
	if !ok {
		t.Fatal("another handler")
	}
	for range maxLists {
		h.lists <- struct{}{}
	}
	f.Handler = hubserve.NewHandler(hubserve.HandlerOptions{Writes: h})
	for target, want := range map[string]int{
		"/api/models/owner/name/preupload/main":  http.StatusTooManyRequests,
		"/owner/name.git/info/lfs/objects/batch": http.StatusTooManyRequests,
		"/api/validate-yaml":                     http.StatusTooManyRequests,
		"/api/repos/move":                        http.StatusBadRequest,
	} {
		if w := f.do("POST", target, strings.NewReader("{}")); w.Code != want {
			t.Errorf("%s: status %d, want %d", target, w.Code, want)
		}
	}
	for range maxLists {
		<-h.lists
	}
	if w := f.do("POST", "/api/models/owner/name/preupload/main", strings.NewReader("{}")); w.Code != http.StatusOK || len(h.lists) != 0 {
		t.Errorf("status %d, %d slots are taken", w.Code, len(h.lists))
	}
}

// A commit that waits too long for its turn gets 429.
func TestBusy(t *testing.T) {
	f := newFixture(t, Options{})
	f.repos.wait = make(chan struct{})
	first := make(chan int)
	h := hubserve.NewHandler(hubserve.HandlerOptions{Writes: NewHandler(Options{Repos: f.repos, Commits: 1, Wait: 10 * time.Millisecond})})
	started := make(chan struct{})
	go func() {
		body := io.MultiReader(readerFunc(func([]byte) (int, error) { close(started); return 0, io.EOF }), strings.NewReader(header+file("a")))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("POST", "/api/models/owner/name/commit/main", body))
		first <- w.Code
	}()
	<-started
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("POST", "/api/models/owner/name/commit/main", strings.NewReader(header)))
	if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" {
		t.Errorf("status %d, %s", w.Code, w.Body)
	}
	close(f.repos.wait)
	if code := <-first; code != 200 {
		t.Errorf("the first commit has status %d", code)
	}
}

// A refused commit that still arrives keeps no slot.
func TestRefusedBodyKeepsNoSlot(t *testing.T) {
	f := newFixture(t, Options{Commits: 1, Wait: time.Minute})
	more, rest := make(chan struct{}), make(chan struct{})
	refused := make(chan int)
	go func() {
		body := io.MultiReader(strings.NewReader("nonsense\n"), readerFunc(func([]byte) (int, error) { close(more); <-rest; return 0, io.EOF }))
		refused <- f.do("POST", "/api/models/owner/name/commit/main", body).Code
	}()
	<-more
	if w := f.do("POST", "/api/models/owner/name/commit/main", strings.NewReader(header+file("a"))); w.Code != http.StatusOK {
		t.Errorf("status %d, %s", w.Code, w.Body)
	}
	close(rest)
	if code := <-refused; code != http.StatusBadRequest {
		t.Errorf("the refused commit has status %d", code)
	}
}

// The rest of a refused commit is read, so that the client reads the answer, but not all of a long one.
func TestRefusedBodyIsBounded(t *testing.T) {
	f := newFixture(t, Options{})
	for _, tt := range []struct{ length, want int }{{22 << 20, 22 << 20}, {400 << 20, maxDrained}} {
		read := 0
		rest := readerFunc(func(p []byte) (int, error) {
			n := min(len(p), tt.length-read)
			read += n
			if n == 0 {
				return 0, io.EOF
			}
			return n, nil
		})
		w := f.do("POST", "/api/models/owner/name/commit/main", io.MultiReader(strings.NewReader("nonsense\n"), rest))
		if w.Code != http.StatusBadRequest || read < tt.want || read > tt.want+1<<20 {
			t.Errorf("status %d after %d of %d bytes, want %d", w.Code, read, tt.length, tt.want)
		}
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// A client that sends nothing loses its connection after the idle time.
func TestIdleBody(t *testing.T) {
	f := newFixture(t, Options{Idle: 50 * time.Millisecond})
	server := httptest.NewServer(f)
	defer server.Close()
	pipe, w := io.Pipe()
	defer w.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/api/models/owner/name/commit/main", pipe)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return // the server has closed the connection
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusRequestTimeout {
		t.Errorf("status %d", answer.StatusCode)
	}
}
