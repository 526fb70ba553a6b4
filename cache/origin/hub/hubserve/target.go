package hubserve

import (
	"net/http"
	"slices"
	"strings"

	"github.com/xetfs/xetfs/cache/origin/hub"
)

// The verbs of requests that change repositories.
const (
	VerbCreate     = "create"    // POST /api/repos/create
	VerbDelete     = "delete"    // DELETE /api/repos/delete
	VerbMove       = "move"      // POST /api/repos/move
	VerbYAML       = "yaml"      // POST /api/validate-yaml
	VerbPreupload  = "preupload" // POST, the kind of each file
	VerbCommit     = "commit"    // POST, one commit
	VerbWriteToken = "xet-write-token"
	VerbLFS        = "lfs"         // the API of git-lfs
	VerbBranch     = "branch"      // POST and DELETE
	VerbTag        = "tag"         // POST and DELETE
	VerbDiscuss    = "discussions" // POST, also for pull requests
)

// A Target is the parsed path of a request that changes repositories.
type Target struct {
	Verb     string
	Repo     hub.RepoID // zero for the first four verbs
	Revision string     // of preupload, commit and xet-write-token
	Path     string     // of lfs: batch, or the SHA-256 of an object
}

// serverVerbs are the verbs of paths without a repository.
var serverVerbs = map[string]string{
	"/api/repos/create": VerbCreate, "/api/repos/delete": VerbDelete, "/api/repos/move": VerbMove, "/api/validate-yaml": VerbYAML,
}

// repoVerbs are the verbs behind the name of a repository.
var repoVerbs = []string{VerbPreupload, VerbCommit, VerbWriteToken, VerbBranch, VerbTag, VerbDiscuss}

// writeTarget parses the path of a request. It returns false for a path that changes nothing.
func writeTarget(r *http.Request) (Target, bool) {
	escaped := r.URL.EscapedPath()
	if v, ok := serverVerbs[escaped]; ok {
		return Target{Verb: v}, true
	}
	segments, ok := segmentsOf(escaped)
	if !ok {
		return Target{}, false
	}
	if segments[0] != "api" {
		return lfsTarget(segments)
	}
	if len(segments) < 4 {
		return Target{}, false
	}
	t, ok := typeFolders[segments[1]]
	for n := 2; ok && n > 0; n-- {
		rest := segments[2:]
		if len(rest) <= n || !slices.Contains(repoVerbs, rest[n]) || !isRepoName(rest[:n]) {
			continue
		}
		revision := strings.Join(rest[n+1:], "/")
		if rest[n] == VerbDiscuss || isRevision(revision) {
			return Target{Verb: rest[n], Repo: hub.RepoID{Type: t, Name: strings.Join(rest[:n], "/")}, Revision: revision}, true
		}
	}
	return Target{}, false
}

// lfsTarget parses [TYPE/]REPO.git/info/lfs/objects/NAME.
func lfsTarget(segments []string) (Target, bool) {
	t := hub.Model
	if folder, ok := typeFolders[segments[0]]; ok {
		t, segments = folder, segments[1:]
	}
	n := len(segments) - 4 // of the name
	if n != 1 && n != 2 || !slices.Equal(segments[n:n+3], []string{"info", "lfs", "objects"}) {
		return Target{}, false
	}
	repo, ok := strings.CutSuffix(strings.Join(segments[:n], "/"), ".git")
	if !ok || !isRepoName(strings.Split(repo, "/")) {
		return Target{}, false
	}
	return Target{Verb: VerbLFS, Repo: hub.RepoID{Type: t, Name: repo}, Path: segments[n+3]}, true
}

// IsRepoName reports whether s can be the name of a repository, of one or two segments.
func IsRepoName(s string) bool {
	segments := strings.Split(s, "/")
	return len(segments) <= 2 && isRepoName(segments)
}
