package hubserve

import (
	"net/http"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/cache/origin/hub"
)

// A name that is also a verb belongs to a repository of two segments where that makes a route.
func TestParseRoute(t *testing.T) {
	tests := []struct {
		path string
		want route // zero: none
	}{
		{"/api/models/a/b", route{hub.RepoID{Type: hub.Model, Name: "a/b"}, verbInfo, "", ""}},
		{"/api/models/a/b/revision/x%2Fy", route{hub.RepoID{Type: hub.Model, Name: "a/b"}, verbInfo, "x/y", ""}},
		{"/api/models/tree/tree/tree/tree/tree", route{hub.RepoID{Type: hub.Model, Name: "tree/tree"}, verbTree, "tree", "tree"}},
		{"/api/models/a/tree/refs/x", route{hub.RepoID{Type: hub.Model, Name: "a"}, verbTree, "refs", "x"}},
		{"/api/models/a/tree/refs/pr/1/x", route{hub.RepoID{Type: hub.Model, Name: "a"}, verbTree, "refs/pr/1", "x"}},
		{"/api/spaces/a/refs", route{hub.RepoID{Type: hub.Space, Name: "a"}, verbRefs, "", ""}},
		{"/api/models/a/b/c", route{}},
		{"/api/models/a/b/tree", route{}},
		{"/api/models/a/b/refs/x", route{}},
		{"/api/models/a%2Fb", route{}},
		{"/api/models//b", route{}},
		{"/api/models/a/b/revision/", route{}},
		{"/api/buckets/a/b/tree", route{}},
		{"/a/b/resolve/main/x/y", route{hub.RepoID{Type: hub.Model, Name: "a/b"}, verbResolve, "main", "x/y"}},
		{"/models/a/b/resolve/main/x", route{hub.RepoID{Type: hub.Model, Name: "a/b"}, verbResolve, "main", "x"}},
		{"/datasets/a/b/raw/main/x", route{hub.RepoID{Type: hub.Dataset, Name: "a/b"}, verbRaw, "main", "x"}},
		{"/a/resolve/resolve/x", route{hub.RepoID{Type: hub.Model, Name: "a"}, verbResolve, "resolve", "x"}},
		{"/a/b/resolve/main//x", route{}},
		{"/a/b/resolve/main/x/", route{}},
		{"/a/b/blob/main/x", route{}},
		{"/a/b%zz/resolve/main/x", route{}},
	}
	for _, tt := range tests {
		got, ok := parseRoute(tt.path)
		if ok != (tt.want != route{}) || ok && got != tt.want {
			t.Errorf("parseRoute(%s) = %+v, %t, want %+v", tt.path, got, ok, tt.want)
		}
	}
}

// The second segment of a repository may be a verb of a request that changes repositories. The path of such a
// request for a repository of one segment remains one.
func TestVerbsAsNames(t *testing.T) {
	f := newFixture(t)
	repos := fakeRepos{{Type: hub.Model, Name: "acme"}: f.commit}
	for _, v := range repoVerbs {
		repos[hub.RepoID{Type: hub.Model, Name: "acme/" + v}] = f.commit
	}
	f.Handler = NewHandler(HandlerOptions{Repos: repos, Content: f.content, Tokens: fakeTokens{}})
	const read, write = http.StatusOK, http.StatusForbidden // the handler is read-only
	for _, v := range repoVerbs {
		repo := "/api/models/acme/" + v
		for _, tt := range []struct {
			method, target string
			want           int
		}{
			{"GET", repo, read},
			{"HEAD", repo, read},
			{"GET", repo + "/revision/main", read},
			{"GET", repo + "/tree/main?recursive=true", read},
			{"POST", repo + "/paths-info/main", read},
			{"GET", repo + "/refs", read},
			{"GET", repo + "/xet-read-token/main", read},
			{"GET", "/acme/" + v + "/resolve/main/config.json", read},
			{"POST", repo + "/main", write},
			{"POST", repo + "/refs", write},
			{"POST", repo + "/commit/main", write},
		} {
			if w := f.do(tt.method, tt.target, "", ""); w.Code != tt.want {
				t.Errorf("%s %s: status %d, want %d: %s", tt.method, tt.target, w.Code, tt.want, w.Body)
			}
		}
	}
	for _, tt := range []struct{ method, target string }{
		{"POST", "/api/models/acme/discussions"},
		{"GET", "/api/models/acme/xet-write-token/main"},
		{"GET", "/api/models/acme/tree/xet-write-token/main"},
	} {
		if w := f.do(tt.method, tt.target, "", ""); w.Code != write {
			t.Errorf("%s %s: status %d, want %d: %s", tt.method, tt.target, w.Code, write, w.Body)
		}
	}
}

// FuzzParseRoute checks that no path makes a panic, and that parts of a route lead nowhere else.
// The address of a token leads back to the repository.
func FuzzParseRoute(f *testing.F) {
	for _, s := range []string{"/api/models/a/b/tree/main/x", "/a/resolve/main/x", "/api/datasets/%2e%2e/x", "/datasets/a/raw/refs/pr/1/%00", "", "/api", "/api/models", "//"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		rt, ok := parseRoute(path)
		if !ok {
			return
		}
		for _, s := range []string{rt.repo.Name, rt.revision, rt.path} {
			for part := range strings.SplitSeq(s, "/") {
				if part == "." || part == ".." || part == "" && s != "" || strings.Contains(part, "\x00") {
					t.Errorf("%q: %+v", path, rt)
				}
			}
		}
		again, ok := parseRoute(apiPath(rt.repo, verbToken, testCommit))
		if !ok || again.repo != rt.repo || again.revision != testCommit {
			t.Errorf("%q: %+v, written and parsed again %+v", path, rt, again)
		}
	})
}
