package hubserve

import (
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/xetfs/xetfs/cache/origin/hub"
)

// A verb is the part of a path that says what is read of a repository.
type verb string

// The verbs of the API and of files.
const (
	verbInfo    verb = "revision" // also without a verb
	verbRefs    verb = "refs"
	verbTree    verb = "tree"
	verbPaths   verb = "paths-info"
	verbToken   verb = "xet-read-token"
	verbResolve verb = "resolve"
	verbRaw     verb = "raw"
	verbCommits verb = "commits"
)

// A route is the parsed path of a request.
type route struct {
	repo     hub.RepoID
	verb     verb
	revision string // "": the newest
	path     string // "": the root
}

// maxRepoName bounds the name of a repository in a path, in bytes.
const maxRepoName = 200

// typeFolders are the first segments of paths by type. Models need none for files.
var typeFolders = map[string]hub.RepoType{"models": hub.Model, "datasets": hub.Dataset, "spaces": hub.Space}

// RepoOf returns the repository in the escaped path of a request. It returns false for a path that is
// no route of a repository.
func RepoOf(escaped string) (hub.RepoID, bool) {
	rt, ok := parseRoute(escaped)
	return rt.repo, ok
}

// parseRoute parses the escaped path of a request. It returns false for a path that is no route
// of a repository.
func parseRoute(escaped string) (route, bool) {
	segments, ok := segmentsOf(escaped)
	if !ok {
		return route{}, false
	}
	if segments[0] == "api" {
		return parseAPI(segments[1:])
	}
	t := hub.Model
	if folder, ok := typeFolders[segments[0]]; ok {
		t, segments = folder, segments[1:]
	}
	return parseRepo(t, segments, verbResolve, verbRaw)
}

// segmentsOf returns the segments of an escaped path, at least one. It returns false for an invalid path.
func segmentsOf(escaped string) ([]string, bool) {
	segments := strings.Split(strings.TrimPrefix(escaped, "/"), "/")
	if len(segments) > hub.MaxPath {
		return nil, false
	}
	for i, s := range segments {
		unescaped, err := url.PathUnescape(s)
		if err != nil {
			return nil, false
		}
		segments[i] = unescaped
	}
	return segments, true
}

// parseAPI parses the segments behind /api.
func parseAPI(segments []string) (route, bool) {
	if len(segments) < 2 {
		return route{}, false
	}
	t, ok := typeFolders[segments[0]]
	if segments = segments[1:]; !ok {
		return route{}, false
	}
	if rt, ok := parseRepo(t, segments, verbInfo, verbRefs, verbTree, verbPaths, verbToken, verbCommits); ok {
		return rt, true
	}
	if len(segments) > 2 {
		return route{}, false
	}
	rt := route{repo: hub.RepoID{Type: t, Name: strings.Join(segments, "/")}, verb: verbInfo}
	return rt, isRepoName(segments)
}

// parseRepo parses a repository, a verb and its arguments. A repository has two segments or, if
// that makes no route, one.
func parseRepo(t hub.RepoType, segments []string, verbs ...verb) (route, bool) {
	for _, n := range []int{2, 1} {
		if len(segments) <= n || !slices.Contains(verbs, verb(segments[n])) || !isRepoName(segments[:n]) {
			continue
		}
		rt := route{repo: hub.RepoID{Type: t, Name: strings.Join(segments[:n], "/")}, verb: verb(segments[n])}
		if rt.parseArguments(segments[n+1:]) {
			return rt, true
		}
	}
	return route{}, false
}

// parseArguments parses the segments behind the verb.
func (rt *route) parseArguments(segments []string) bool {
	n := len(segments) // of the revision
	switch rt.verb {
	case verbRefs:
		return n == 0
	case verbTree, verbResolve, verbRaw:
		n = min(n, 1)
		if len(segments) > 2 && segments[0] == "refs" { // refs/pr/1, not escaped
			n = 3
		}
	}
	rt.revision, rt.path = strings.Join(segments[:n], "/"), strings.Join(segments[n:], "/")
	if rt.verb == verbTree {
		rt.path = strings.TrimSuffix(rt.path, "/")
	} else if rt.path == "" && (rt.verb == verbResolve || rt.verb == verbRaw) {
		return false
	}
	return isRevision(rt.revision) && isPath(rt.path)
}

// isRepoName reports whether segments can be the name of a repository.
func isRepoName(segments []string) bool {
	length := 0
	for _, s := range segments {
		if length += len(s) + 1; !isSegment(s) || strings.Contains(s, "/") || !isText(s) {
			return false
		}
	}
	return length <= maxRepoName
}

// isRevision reports whether s can be a branch, a tag or a commit hash.
func isRevision(s string) bool {
	return len(s) <= hub.MaxRevision && s != "" && isText(s) && areSegments(s)
}

// isPath reports whether s can be the path of a file or the root.
func isPath(s string) bool {
	return len(s) <= hub.MaxPath && (s == "" || areSegments(s)) && strings.IndexByte(s, 0) < 0
}

func areSegments(s string) bool {
	for part := range strings.SplitSeq(s, "/") {
		if !isSegment(part) {
			return false
		}
	}
	return true
}

func isSegment(s string) bool { return s != "" && s != "." && s != ".." }

// isText reports whether s is UTF-8 without control characters.
func isText(s string) bool { return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl) }

// apiPath returns the escaped path of a route of the API.
func apiPath(id hub.RepoID, v verb, revision string) string {
	return id.API() + "/" + string(v) + "/" + url.PathEscape(revision)
}
