package hubserve

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
)

const form = "Content-Type: application/x-www-form-urlencoded"

// Every route has its status, its error code and a part of its body. Each row is a request that
// real clients send, or one that must not have an answer by accident.
func TestRoutes(t *testing.T) {
	repo, file := "/api/models/owner/name", "/owner/name/resolve/main/"
	tests := []struct {
		name, method, target, header, body string
		status                             int
		code, contains                     string
	}{
		{"info", "GET", repo, "", "", 200, "", `"sha":"` + testCommit + `"`},
		{"info of a revision", "GET", repo + "/revision/main", "", "", 200, "", `"siblings":[{"rfilename":"config.json"}`},
		{"info of an escaped revision", "GET", repo + "/revision/a%2Fb", "", "", 200, "", `"id":"owner/name"`},
		{"info of a revision with slashes", "GET", repo + "/revision/refs/pr/1", "", "", 200, "", `"modelId":"owner/name"`},
		{"info without files", "GET", repo + "?expand=sha&expand=tags", "", "", 200, "", `"gated":false`},
		{"info with blobs", "GET", repo + "?blobs=True", "", "", 200, "", `"blobId":"0967ef424bce6791893e9a57bb952f80fd536e93"`},
		{"info that did not change", "GET", repo, `If-None-Match: "` + testCommit + `"`, "", 304, "", ""},
		{"info, head", "HEAD", repo, "", "", 200, "", ""},
		{"info of a model of one segment", "GET", "/api/models/gpt2", "", "", 200, "", `"id":"gpt2"`},
		{"info of a dataset of one segment", "GET", "/api/datasets/squad/revision/main", "", "", 200, "", `"id":"squad"`},
		{"info of a space", "GET", "/api/spaces/owner/app", "", "", 200, "", `"author":"owner"`},
		{"repository of another type", "GET", "/api/datasets/owner/name", "", "", 404, "RepoNotFound", "Repository not found"},
		{"repository in capitals", "GET", "/api/models/Owner/name", "", "", 404, "RepoNotFound", ""},
		{"absent repository", "GET", "/api/models/owner/other/tree/main", "", "", 404, "RepoNotFound", ""},
		{"gated repository", "GET", "/api/models/owner/gated", "", "", 403, "GatedRepo", ""},
		{"absent revision", "GET", repo + "/revision/next", "", "", 404, "RevisionNotFound", ""},
		{"refs", "GET", repo + "/refs", "", "", 200, "", `"tags":[{"name":"v1","ref":"refs/tags/v1"`},
		{"refs of an absent repository", "GET", "/api/models/owner/other/refs", "", "", 404, "RepoNotFound", ""},
		{"tree", "GET", repo + "/tree/main", "", "", 200, "", `"path":"sub"`},
		{"tree with a final slash", "GET", repo + "/tree/main/", "", "", 200, "", `"path":"sub"`},
		{"tree of a folder", "GET", repo + "/tree/a%2Fb/sub?recursive=false&expand=false", "", "", 200, "", `"path":"sub/deep"`},
		{"tree of a ref", "GET", repo + "/tree/refs/pr/1/sub", "", "", 200, "", `"path":"sub/deep"`},
		{"tree with commits", "GET", repo + "/tree/main?expand=True", "", "", 200, "", `"lastCommit":{"id":"` + testCommit + `","title":"a title","date":"2023-11-14T22:13:20.000Z"}`},
		{"tree of a file", "GET", repo + "/tree/main/empty", "", "", 404, "EntryNotFound", ""},
		{"tree of an absent folder", "GET", repo + "/tree/main/other", "", "", 404, "EntryNotFound", ""},
		{"tree with an invalid limit", "GET", repo + "/tree/main?limit=0", "", "", 400, "", ""},
		{"tree with a cursor of another folder", "GET", repo + "/tree/main/sub?cursor=large.bin", "", "", 400, "", ""},
		{"tree with a cursor upwards", "GET", repo + "/tree/main?cursor=../x", "", "", 400, "", ""},
		{"paths in a form", "POST", repo + "/paths-info/main", form, "paths=config.json&paths=sub&paths=other&expand=False", 200, "", `[{"type":"file","oid":"0967ef424bce6791893e9a57bb952f80fd536e93","size":3,"path":"config.json"},{"type":"directory"`},
		{"paths in JSON", "POST", repo + "/paths-info/a%2Fb", "Content-Type: application/json", `{"paths":["empty"],"expand":true}`, 200, "", `"lastCommit"`},
		{"paths in broken JSON", "POST", repo + "/paths-info/main", "Content-Type: application/json", `{"paths":`, 400, "", ""},
		{"paths without a body", "POST", repo + "/paths-info/main", form, "", 200, "", "[]"},
		{"too many paths", "POST", repo + "/paths-info/main", form, strings.Repeat("paths=a&", 9001), 400, "", "at most 9000 paths"},
		{"many paths", "POST", repo + "/paths-info/main", form, strings.Repeat("paths=absent&", 9000) + "expand=False", 200, "", ""},
		{"a body that is too large", "POST", repo + "/paths-info/main", form, "paths=" + strings.Repeat("a", 2<<20), 400, "", ""},
		{"paths, another method", "GET", repo + "/paths-info/main", "", "", 405, "", ""},
		{"token", "GET", repo + "/xet-read-token/main", "", "", 200, "", `{"accessToken":"hf_owner/name@` + testCommit + `","exp":2000000000,"casUrl":"http://hub.test"}`},
		{"token of a ref", "GET", repo + "/xet-read-token/refs%2Fpr%2F1", "", "", 200, "", "accessToken"},
		{"token of an absent repository", "GET", "/api/models/owner/other/xet-read-token/main", "", "", 404, "RepoNotFound", ""},
		{"write token", "GET", repo + "/xet-write-token/main", "", "", 403, "", "read-only"},
		{"user", "GET", "/api/whoami-v2", "Authorization: Bearer me", "", 200, "", `"name":"me"`},
		{"user without a token", "GET", "/api/whoami-v2", "", "", 401, "", ""},
		{"file", "GET", file + "config.json", "", "", 200, "", "{}\n"},
		{"file of a dataset", "GET", "/datasets/squad/resolve/main/config.json", "", "", 200, "", "{}\n"},
		{"file of a space", "GET", "/spaces/owner/app/resolve/main/sub/deep/a", "", "", 200, "", "a"},
		{"file of a model of one segment", "GET", "/gpt2/resolve/main/config.json", "", "", 200, "", "{}\n"},
		{"file with a query", "GET", file + "config.json?download=true", "", "", 200, "", "{}\n"},
		{"file with an escaped name", "GET", file + "sub/%C3%BCn%C3%AFcode%20%23%25%3F.txt", "", "", 200, "", "u"},
		{"file with an escaped slash", "GET", file + "sub%2Fdeep%2Fa", "", "", 200, "", "a"},
		{"file of an escaped revision", "GET", "/owner/name/resolve/a%2Fb/config.json", "", "", 200, "", "{}\n"},
		{"raw file", "GET", "/owner/name/raw/main/config.json", "", "", 200, "", "{}\n"},
		{"raw pointer", "GET", "/owner/name/raw/main/large.bin", "", "", 200, "", "version https://git-lfs.github.com/spec/v1\noid sha256:"},
		{"a folder", "GET", file + "sub", "", "", 404, "EntryNotFound", ""},
		{"an absent file", "HEAD", file + "other", "", "", 404, "EntryNotFound", ""},
		{"a file in a file", "GET", file + "config.json/x", "", "", 404, "EntryNotFound", ""},
		{"a file of an absent revision", "HEAD", "/owner/name/resolve/next/config.json", "", "", 404, "RevisionNotFound", ""},
		{"a file of an absent repository", "HEAD", "/owner/other/resolve/main/config.json", "", "", 404, "RepoNotFound", ""},
		{"a file, another method", "PUT", file + "config.json", "", "", 405, "", ""},
		{"no file", "GET", "/owner/name/resolve/main/", "", "", 404, "", "no such path"},
		{"S13 upwards", "GET", file + "../config.json", "", "", 404, "", "no such path"},
		{"S13 upwards, escaped", "GET", file + "%2e%2e/config.json", "", "", 404, "", "no such path"},
		{"S13 zero byte", "GET", file + "config.json%00", "", "", 404, "", "no such path"},
		{"S13 repository upwards", "GET", "/api/models/owner/..", "", "", 404, "", "no such path"},
		{"S13 newline in a repository", "GET", "/api/models/owner/na%0Ame", "", "", 404, "", "no such path"},
		{"S13 newline in a revision", "GET", repo + "/revision/ma%0Ain", "", "", 404, "", "no such path"},
		{"S13 revision upwards", "GET", repo + "/revision/%2e%2e", "", "", 404, "", "no such path"},
		{"S13 number sign in a revision", "GET", repo + "/revision/main%23", "", "", 404, "RevisionNotFound", ""},
		{"S13 question mark in a revision", "GET", repo + "/revision/main%3Fx=", "", "", 404, "RevisionNotFound", ""},
		{"S13 long revision", "GET", repo + "/revision/" + strings.Repeat("a", 10_000), "", "", 404, "", "no such path"},
		{"upload", "POST", repo + "/preupload/main", "", "{}", 403, "", "a mirror takes none"},
		{"commit", "POST", repo + "/commit/main", "", "{}", 403, "", "a mirror takes none"},
		{"probe of huggingface_hub", "GET", "/api/agent-harnesses", "", "", 404, "", "no such path"},
		{"git", "GET", "/owner/name.git/info/refs", "", "", 404, "", "no such path"},
		{"the top", "GET", "/", "", "", 404, "", "no such path"},
		{"the API", "GET", "/api/", "", "", 404, "", "no such path"},
		{"all models", "GET", "/api/models", "", "", 200, "", `"id":"gpt2"`},
		{"all models by POST", "POST", "/api/models", "", "{}", 404, "", "no such path"},
		{"all models of no tag", "GET", "/api/models?filter=x", "", "", 200, "", "[]"},
		{"all models with a bad limit", "GET", "/api/models?limit=x", "", "", 400, "", "limit"},
		{"all models behind a bad cursor", "GET", "/api/models?cursor=..", "", "", 400, "", "cursor"},
	}
	f := newFixture(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := f.do(tt.method, tt.target, tt.header, tt.body)
			if w.Code != tt.status || w.Header().Get("X-Error-Code") != tt.code || !strings.Contains(w.Body.String(), tt.contains) {
				t.Errorf("status %d, code %q, %.300q; want %d, %q, %q", w.Code, w.Header().Get("X-Error-Code"), w.Body, tt.status, tt.code, tt.contains)
			}
			if tt.method != http.MethodGet {
				return
			}
			head := f.do(http.MethodHead, tt.target, tt.header, "")
			n := head.Header().Get("Content-Length")
			if head.Code != tt.status || head.Body.Len() > 0 || n != "" && n != strconv.Itoa(w.Body.Len()) {
				t.Errorf("HEAD has status %d, length %q and a body of %d bytes; GET has %d and %d bytes", head.Code, n, head.Body.Len(), w.Code, w.Body.Len())
			}
			if strings.Contains(w.Body.String(), "secret") {
				t.Errorf("the answer has the text of an inner error: %q", w.Body)
			}
			if w.Code == 405 && w.Header().Get("Allow") == "" {
				t.Error("no header Allow")
			}
		})
	}
}

// A file in Xet has the headers that huggingface_hub, hf_xet and huggingface.js read. A small
// file has the ETag of git and no Xet headers.
func TestFileHeaders(t *testing.T) {
	f := newFixture(t)
	large := f.commit.files["large.bin"]
	hash, sum := large.ID.File.String(), fmt.Sprintf("%x", *large.SHA256)
	auth := "http://hub.test/api/models/owner/name/xet-read-token/" + testCommit
	links := "<" + auth + `>; rel="xet-auth", <http://hub.test/v1/reconstructions/` + hash + `>; rel="xet-reconstruction-info"`
	noSum := f.commit.files["no sum/large.bin"].ID.File.String()
	tests := []struct {
		path string
		want map[string]string // "": absent
	}{
		{"large.bin", map[string]string{
			"X-Xet-Hash": hash, "X-Xet-Refresh-Route": auth, "Link": links, "X-Linked-Size": "300000", "X-Linked-Etag": `"` + sum + `"`,
			"Etag": `"` + sum + `"`, "X-Repo-Commit": testCommit, "Accept-Ranges": "bytes", "Content-Length": "300000", "Vary": "Accept",
		}},
		{"no%20sum/large.bin", map[string]string{"X-Xet-Hash": noSum, "X-Linked-Etag": `"xet-` + noSum + `"`, "Etag": `"xet-` + noSum + `"`}},
		{"config.json", map[string]string{
			"X-Xet-Hash": "", "Link": "", "X-Linked-Size": "", "X-Linked-Etag": "", "Etag": `"0967ef424bce6791893e9a57bb952f80fd536e93"`,
			"X-Repo-Commit": testCommit, "Content-Length": "3",
		}},
		{"empty", map[string]string{"Etag": `"e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"`, "Content-Length": "0", "Content-Range": ""}},
		{"absent", map[string]string{"X-Repo-Commit": testCommit, "X-Error-Code": "EntryNotFound", "Etag": "", "Link": ""}},
	}
	for _, tt := range tests {
		for _, revision := range []string{"main", testCommit} {
			head := f.do("HEAD", "/owner/name/resolve/"+revision+"/"+tt.path, "", "").Header()
			for name, want := range tt.want {
				if got := head.Get(name); got != want {
					t.Errorf("%s@%s: %s: %q, want %q", tt.path, revision, name, got, want)
				}
			}
			if tt.path != "absent" {
				if got, want := head.Get("Cache-Control") == "no-cache", revision == "main"; got != want {
					t.Errorf("%s@%s: Cache-Control: %s", tt.path, revision, head.Get("Cache-Control"))
				}
			}
		}
	}
}

// Without a CAS API no file has Xet headers, and clients read files by resolve.
func TestNoTokens(t *testing.T) {
	f := newFixture(t)
	f.Handler.(*handler).o.Tokens = nil
	head := f.do("HEAD", "/owner/name/resolve/main/large.bin", "", "")
	if head.Code != 200 || head.Header().Get("X-Xet-Hash") != "" || head.Header().Get("Link") != "" {
		t.Errorf("status %d, headers %v", head.Code, head.Header())
	}
	if tree := f.do("GET", "/api/models/owner/name/tree/main", "", ""); strings.Contains(tree.Body.String(), "xetHash") {
		t.Errorf("tree: %s", tree.Body)
	}
	if token := f.do("GET", "/api/models/owner/name/xet-read-token/main", "", ""); token.Code != 404 {
		t.Errorf("token: status %d, want 404", token.Code)
	}
}

// A client in JavaScript receives the facts about a file in Xet instead of its content.
func TestXetInfo(t *testing.T) {
	f := newFixture(t)
	const accept = "Accept: application/vnd.xet-fileinfo+json, */*\nRange: bytes=0-0"
	w := f.do("GET", "/owner/name/resolve/main/large.bin", accept, "")
	if w.Code != 200 || w.Header().Get("Content-Type") != xetInfoType || w.Header().Get("X-Linked-Size") != "300000" || !json.Valid(w.Body.Bytes()) {
		t.Errorf("status %d, headers %v, body %q", w.Code, w.Header(), w.Body)
	}
	w = f.do("GET", "/owner/name/resolve/main/config.json", accept, "")
	if w.Code != 206 || w.Header().Get("Content-Range") != "bytes 0-0/3" || w.Body.String() != "{" {
		t.Errorf("small file: status %d, %s, body %q", w.Code, w.Header().Get("Content-Range"), w.Body)
	}
	w = f.do("GET", "/owner/name/resolve/main/empty", accept, "")
	if w.Code != 200 || w.Header().Get("Content-Range") != "bytes */0" || w.Body.Len() != 0 {
		t.Errorf("empty file: status %d, %s, body %q", w.Code, w.Header().Get("Content-Range"), w.Body)
	}
}

// Pages are bounded. Following the links yields each entry once, in the order of one long page.
func TestTreePages(t *testing.T) {
	f := newFixture(t)
	for i := range 2500 {
		f.commit.add(fmt.Sprintf("many/%02d/%04d", i%10, i), []byte("x"), false)
	}
	for _, tt := range []struct {
		path, query string
		pages       int
		entries     int
	}{
		{"", "recursive=true", 3, 2520},
		{"", "recursive=true&limit=100000", 3, 2520},
		{"", "recursive=1&limit=7", 360, 2520},
		{"/many", "limit=3", 4, 10},
		{"/many", "recursive=True&limit=500", 6, 2510},
		{"", "recursive=false", 1, 6},
	} {
		seen := map[string]bool{}
		var order []string
		pages := 0
		for target := "/api/models/owner/name/tree/main" + tt.path + "?" + tt.query; target != ""; pages++ {
			w := f.do("GET", target, "", "")
			var entries []treeEntry
			if err := json.Unmarshal(w.Body.Bytes(), &entries); err != nil || w.Code != 200 {
				t.Fatalf("%s: status %d, %v", target, w.Code, err)
			}
			for _, e := range entries {
				if seen[e.Path] {
					t.Fatalf("%s: %s is there twice", target, e.Path)
				}
				seen[e.Path] = true
				order = append(order, e.Path)
			}
			target = next(t, w)
		}
		if pages != tt.pages || len(order) != tt.entries {
			t.Errorf("%s?%s: %d pages, %d entries; want %d, %d", tt.path, tt.query, pages, len(order), tt.pages, tt.entries)
		}
	}
}

// next returns the target of the next page, or "".
func next(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	link := w.Header().Get("Link")
	if link == "" {
		return ""
	}
	address, ok := strings.CutSuffix(strings.TrimPrefix(link, "<"), `>; rel="next"`)
	u, err := url.Parse(address)
	if !ok || err != nil || u.Host != "hub.test" {
		t.Fatalf("Link: %s: %v", link, err)
	}
	return u.RequestURI()
}

// One page of a large tree reads only the folders that it shows.
func TestTreePageIsCheap(t *testing.T) {
	f := newFixture(t)
	for i := range 500 {
		f.commit.add(fmt.Sprintf("many/%03d/file", i), []byte("x"), false)
	}
	f.do("GET", "/api/models/owner/name/tree/main?recursive=true&limit=10&cursor=many/200/file", "", "")
	if f.commit.lists > 10 {
		t.Errorf("%d folders were listed for 10 entries", f.commit.lists)
	}
}

// A name that is no UTF-8 has no form in JSON. It is left out of listings, with one report for the commit, and can
// be read.
func TestNamesThatAreNotUTF8(t *testing.T) {
	targets := []string{"/api/models/owner/name", "/api/models/owner/name/tree/main", "/api/models/owner/name/tree/main?recursive=true&limit=3"}
	f := newFixture(t)
	for _, target := range targets {
		f.do("GET", target, "", "")
	}
	if n := f.reports.Load(); n != 0 {
		t.Errorf("%d reports about names that are UTF-8", n)
	}
	for _, first := range targets {
		f := newFixture(t)
		f.commit.add("caf\xe9", []byte("x"), false)
		f.commit.add("b\xff", []byte("x"), false)
		for _, target := range append([]string{first}, targets...) {
			if w := f.do("GET", target, "", ""); strings.Contains(w.Body.String(), "caf") {
				t.Errorf("%s: %s", target, w.Body)
			}
		}
		if n := f.reports.Load(); n != 1 {
			t.Errorf("%s: %d reports", first, n)
		}
	}
	f.commit.add("caf\xe9", []byte("x"), false)
	if w := f.do("GET", "/owner/name/resolve/main/caf%E9", "", ""); w.Code != 200 || w.Body.String() != "x" {
		t.Errorf("status %d, %q", w.Code, w.Body)
	}
}

// An error of the store has a status before the first byte. Behind it the connection is aborted,
// so that no short answer looks complete. Each error is reported once.
func TestErrors(t *testing.T) {
	tests := []struct {
		name, target string
		failAt       int64 // of the content
		listErr      error
		status       int // 0: the connection is aborted
	}{
		{"first byte", "/owner/name/resolve/main/large.bin", 0, nil, 503},
		{"first byte of a range", "/owner/name/resolve/main/large.bin", 0, nil, 503},
		{"middle", "/owner/name/resolve/main/large.bin", 200_000, nil, 0},
		{"tree", "/api/models/owner/name/tree/main", 0, origin.ErrUnavailable, 503},
		{"names of files", "/api/models/owner/name", 0, origin.ErrUnavailable, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t)
			f.content.err, f.content.failAt = fmt.Errorf("secret: %w", origin.ErrUnavailable), tt.failAt
			f.commit.err = tt.listErr
			server := httptest.NewServer(f)
			defer server.Close()
			defer func() {
				if n := f.reports.Load(); n != 1 {
					t.Errorf("%d reports", n)
				}
			}()
			answer, err := http.Get(server.URL + tt.target)
			if err != nil {
				if tt.status != 0 {
					t.Error(err)
				}
				return
			}
			defer answer.Body.Close()
			body, err := io.ReadAll(answer.Body)
			switch {
			case tt.status == 0 && err == nil:
				t.Errorf("an answer of %d bytes looks complete", len(body))
			case tt.status != 0 && (err != nil || answer.StatusCode != tt.status || answer.Header.Get("Retry-After") != "1"):
				t.Errorf("status %d, %v, want %d", answer.StatusCode, err, tt.status)
			}
			for _, name := range []string{"Etag", "Link", "Content-Range"} {
				if tt.status != 0 && answer.Header.Get(name) != "" {
					t.Errorf("the error has %s: %s", name, answer.Header.Get(name))
				}
			}
			if strings.Contains(string(body), "secret") {
				t.Errorf("the answer is %q", body)
			}
		})
	}
}

// The content is opened for its first byte: an answer without a body needs the listing alone. An error of
// the open has a status of its own.
func TestOpensContentOnce(t *testing.T) {
	f := newFixture(t)
	tag := strings.Trim(f.do("HEAD", "/owner/name/resolve/main/large.bin", "", "").Header().Get("ETag"), `"`)
	tests := []struct {
		name, method, header string
		status, length       int
		opens                int // 0: also while the content cannot be opened
	}{
		{"HEAD", "HEAD", "", 200, 300_000, 0},
		{"HEAD of a range", "HEAD", "Range: bytes=5-9", 206, 5, 0},
		{"HEAD of a range behind the end", "HEAD", "Range: bytes=300000-", 416, 0, 0},
		{"known content", "GET", `If-None-Match: "` + tag + `"`, 304, 0, 0},
		{"one of known contents", "GET", `If-None-Match: "x", W/"` + tag + `"`, 304, 0, 0},
		{"range of known content", "GET", "Range: bytes=5-9\nIf-None-Match: *", 304, 0, 0},
		{"other content", "GET", `If-Match: "x"`, 412, 0, 0},
		{"new content", "GET", `If-None-Match: "x"`, 200, 300_000, 1},
		{"range", "GET", "Range: bytes=5-9", 206, 5, 1},
		{"ranges", "GET", "Range: bytes=5-9,200000-200009", 206, 0, 1},
		{"range of other content", "GET", "Range: bytes=5-9\nIf-Range: \"x\"", 200, 300_000, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, openErr := range []error{nil, fmt.Errorf("secret: %w", origin.ErrUnavailable)} {
				f := newFixture(t)
				f.content.openErr = openErr
				w := f.do(tt.method, "/owner/name/resolve/main/large.bin", tt.header, "")
				want := tt.status
				if openErr != nil && tt.opens > 0 {
					want = 503
				}
				if w.Code != want || f.content.opens != tt.opens {
					t.Errorf("with error %v: status %d, want %d; %d opens, want %d", openErr, w.Code, want, f.content.opens, tt.opens)
				}
				if n := w.Header().Get("Content-Length"); want < 300 && tt.length > 0 && n != strconv.Itoa(tt.length) {
					t.Errorf("length %s, want %d", n, tt.length)
				}
				if want < 500 && w.Header().Get("ETag") != `"`+tag+`"` && want != 416 {
					t.Errorf("ETag %s", w.Header().Get("ETag"))
				}
				if want == 503 && (w.Header().Get("ETag") != "" || w.Header().Get("Content-Range") != "" || f.reports.Load() != 1) {
					t.Errorf("headers of the error: %v, %d reports", w.Header(), f.reports.Load())
				}
			}
		})
	}
}

// A refusal of the upstream and lost content have a status of their own, and each is reported. Clients
// must not take them for a file that the commit does not have, so they have no code.
func TestContentErrors(t *testing.T) {
	tests := []struct {
		name   string
		err    error
		status int
		text   string
	}{
		{"refused token", fmt.Errorf("secret: the Hub refuses the token: %w", iofs.ErrPermission), 403, "the upstream refuses the token of this server"},
		{"lost content", fmt.Errorf("secret: %w", origin.ErrNotFound), 404, "the store no longer has the content"},
		{"no token for a deleted repository", fmt.Errorf("%w: secret: %w", iofs.ErrPermission, origin.ErrNotFound), 404, "the store no longer has the content"},
		{"part that the upstream lacks", fmt.Errorf("%w: secret: %v", origin.ErrUnavailable, origin.ErrNotFound), 503, "the store cannot be read just now"},
		{"both", fmt.Errorf("%w: secret: %w", origin.ErrUnavailable, origin.ErrNotFound), 503, "the store cannot be read just now"},
		{"damage", errors.New("secret: chunk 3 is corrupt"), 500, "it cannot be read"},
	}
	for _, tt := range tests {
		for _, header := range []string{"", "Range: bytes=1-2", "Range: bytes=1-2,5-9"} {
			f := newFixture(t)
			f.content.openErr = tt.err
			w := f.do("GET", "/owner/name/resolve/main/large.bin", header, "")
			doc := fmt.Sprintf(`{"error":%q,"message":%[1]q}`, tt.text)
			if w.Code != tt.status || w.Header().Get("X-Error-Message") != tt.text || w.Header().Get("X-Error-Code") != "" || w.Body.String() != doc {
				t.Errorf("%s, open with %q: status %d, %v, %q", tt.name, header, w.Code, w.Header(), w.Body)
			}
			if n := f.reports.Load(); n != 1 {
				t.Errorf("%s, open with %q: %d reports", tt.name, header, n)
			}
		}
		f := newFixture(t)
		f.content.err = tt.err
		if w := f.do("GET", "/owner/name/resolve/main/large.bin", "", ""); w.Code != tt.status || w.Header().Get("X-Error-Message") != tt.text || f.reports.Load() != 1 {
			t.Errorf("%s, read: status %d, %v, %d reports", tt.name, w.Code, w.Header(), f.reports.Load())
		}
	}
}

// Damage is an error of the server, without its text.
func TestCorrupt(t *testing.T) {
	f := newFixture(t)
	f.content.err = errors.New("secret: chunk 3 is corrupt")
	if w := f.do("GET", "/owner/name/resolve/main/large.bin", "", ""); w.Code != 500 || strings.Contains(w.Body.String(), "secret") {
		t.Errorf("status %d, %q", w.Code, w.Body)
	}
}
