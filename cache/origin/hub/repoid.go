package hub

import (
	"errors"
	"net/url"
	"regexp"
	"strings"
)

// A RepoType is a kind of repository.
type RepoType string

// The types of repositories. A bucket has no revisions, and only the client supports it.
const (
	Model   RepoType = "model"
	Dataset RepoType = "dataset"
	Space   RepoType = "space"
	Bucket  RepoType = "bucket"
)

// A RepoID names a repository. Name has one or two segments, like gpt2 or owner/name.
type RepoID struct {
	Type RepoType
	Name string
}

// Errors about a repository.
var (
	ErrRepoNotFound     = errors.New("repository not found")
	ErrRevisionNotFound = errors.New("revision not found")
	ErrRepoGated        = errors.New("access to the repository is restricted")
)

// Bounds of the parts of a path, in bytes.
const (
	maxRepoID   = 96 // of owner/name, by the Hub
	MaxRevision = 255
	MaxPath     = 4095 // of a file
)

// typeFolders are the types by their Folder.
var typeFolders = map[string]RepoType{"models": Model, "datasets": Dataset, "spaces": Space, "buckets": Bucket}

// Folder returns the first segment of paths: models for Model.
func (t RepoType) Folder() string { return string(t) + "s" }

// Page returns the escaped path of the repository's page in a browser. Paths of files begin with it, too.
func (id RepoID) Page() string {
	if id.Type == Model {
		return "/" + escapePath(id.Name)
	}
	return "/" + id.Type.Folder() + "/" + escapePath(id.Name)
}

// API returns the escaped path of the repository in the API.
func (id RepoID) API() string { return "/api/" + id.Type.Folder() + "/" + escapePath(id.Name) }

// Source returns the address of a repository on the branch main.
func (id RepoID) Source() string { return Scheme + id.Type.Folder() + "/" + id.Name }

// Check returns an error with the rule for names unless a path and an address can name a repository.
func (id RepoID) Check() error {
	parts := strings.Split(id.Name, "/")
	switch {
	case len(parts) > 2 || len(id.Name) > maxRepoID || !areNameParts(parts...):
		return errors.New("the name of a repository must be NAME or OWNER/NAME of letters, digits, and inside also . _ -, at most 96 bytes")
	case id.Type == Model && (parts[0] == "api" || typeFolders[parts[0]] != ""):
		return errors.New("the name of a model must not begin with api, models, datasets, spaces or buckets; choose another owner")
	}
	return nil
}

// commitText is the form of a commit hash.
var commitText = regexp.MustCompile(`^[0-9a-f]{40}$`)

// IsCommitID reports whether s can be a commit hash.
func IsCommitID(s string) bool { return commitText.MatchString(s) }

// escapePath escapes each segment of a path.
func escapePath(path string) string {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	return strings.Join(segments, "/")
}
