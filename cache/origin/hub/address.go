package hub

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Scheme begins the address of a repository.
const Scheme = "hf://"

// An Address names a repository, a revision of it and a folder in that.
type Address struct {
	Type     RepoType
	Owner    string
	Name     string
	Revision string // branch, tag or commit; "main" without one; "" of a bucket
	Path     string // of the folder; "": all
}

var (
	namePart     = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`)
	revisionText = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._/+=@-]*$`)
	escapedSlash = strings.NewReplacer("%2F", "/", "%2f", "/")
)

// ParseAddress parses the address of a repository. A slash in a revision is written %2F, except
// in refs/KIND/NAME. Only plain characters are allowed, because names and revisions become parts
// of URLs.
func ParseAddress(text string) (Address, error) {
	rest, ok := strings.CutPrefix(text, Scheme)
	if !ok {
		return Address{}, errors.New("an address of the Hub begins with " + Scheme)
	}
	a := Address{Type: Model}
	if first, more, _ := strings.Cut(rest, "/"); typeFolders[first] != "" {
		a.Type, rest = typeFolders[first], more
	}
	a.Owner, rest, _ = strings.Cut(rest, "/")
	name := rest
	if i := strings.IndexAny(rest, "/@"); i >= 0 {
		name, rest = rest[:i], rest[i:]
	} else {
		rest = ""
	}
	a.Name = name
	if err := a.checkName(); err != nil {
		return Address{}, err
	}
	if err := a.parseRevision(&rest); err != nil {
		return Address{}, err
	}
	a.Path = strings.Trim(rest, "/")
	return a, checkPath(a.Path)
}

// ParseOwner parses the address of all repositories of an owner, hf://owner. It returns false for
// another address.
func ParseOwner(text string) (owner string, ok bool) {
	owner, ok = strings.CutPrefix(text, Scheme)
	owner = strings.TrimSuffix(owner, "/")
	_, isType := typeFolders[owner]
	return owner, ok && !isType && len(owner) < maxRepoID && areNameParts(owner)
}

// parseRevision removes the revision from the start of rest.
func (a *Address) parseRevision(rest *string) error {
	text, found := strings.CutPrefix(*rest, "@")
	switch {
	case found && a.Type == Bucket:
		return errors.New("a bucket has no revisions; remove the part from @ on")
	case !found && a.Type != Bucket:
		a.Revision = "main"
	}
	if !found {
		return nil
	}
	parts := 1
	if strings.HasPrefix(text, "refs/") {
		parts = 3
	}
	words := strings.SplitN(text, "/", parts+1)
	a.Revision, *rest = strings.Join(words[:min(parts, len(words))], "/"), strings.Join(words[min(parts, len(words)):], "/")
	a.Revision = escapedSlash.Replace(a.Revision)
	return checkRevision(a.Revision)
}

// checkName returns an error unless the Hub allows the name.
func (a *Address) checkName() error {
	id := a.ID()
	switch {
	case a.Owner == "" || a.Name == "":
		return errors.New("the form is hf://[datasets/|spaces/|buckets/]owner/name[@revision][/path]")
	case len(id) > maxRepoID:
		return fmt.Errorf("the name of a repository has at most %d bytes, this one has %d", maxRepoID, len(id))
	case !areNameParts(a.Owner, a.Name):
		return fmt.Errorf("%.100q is no name of a repository: it has letters, digits, and inside also . _ -", id)
	}
	return nil
}

// areNameParts reports whether the Hub allows the parts of a name.
func areNameParts(parts ...string) bool {
	return !slices.ContainsFunc(parts, func(p string) bool { return !namePart.MatchString(p) || strings.Contains(p, "..") })
}

func checkRevision(text string) error {
	if len(text) > MaxRevision {
		return fmt.Errorf("a revision of %d bytes, at most %d are allowed", len(text), MaxRevision)
	}
	if !revisionText.MatchString(text) || strings.Contains(text, "..") || strings.Contains(text, "//") || strings.HasSuffix(text, "/") {
		return fmt.Errorf("%.100q is no revision: it has letters, digits, and inside also . _ + = @ - and %%2F", text)
	}
	return nil
}

func checkPath(path string) error {
	if len(path) > MaxPath {
		return fmt.Errorf("a path of %d bytes, at most %d are allowed", len(path), MaxPath)
	}
	if path == "" {
		return nil
	}
	for part := range strings.SplitSeq(path, "/") {
		if part == "" || part == "." || part == ".." || strings.ContainsFunc(part, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return fmt.Errorf("%.100q is no path in a repository", path)
		}
	}
	return nil
}

// String returns the address in its usual form.
func (a Address) String() string {
	text := Scheme
	if a.Type != Model {
		text += a.Type.Folder() + "/"
	}
	text += a.ID()
	if a.Revision != "" && a.Revision != "main" {
		text += "@" + escapeRevision(a.Revision)
	}
	if a.Path != "" {
		text += "/" + a.Path
	}
	return text
}

// escapeRevision is the inverse of parseRevision.
func escapeRevision(revision string) string {
	prefix := ""
	if parts := strings.SplitN(revision, "/", 3); len(parts) == 3 && parts[0] == "refs" {
		prefix, revision = "refs/"+parts[1]+"/", parts[2]
	}
	return prefix + strings.ReplaceAll(revision, "/", "%2F")
}

// ID returns owner/name.
func (a Address) ID() string { return a.Owner + "/" + a.Name }

// Symbol returns the symbol of the repository in a catalog: type/owner/name.
func (a Address) Symbol() string { return string(a.Type) + "/" + a.ID() }

// IsCommit reports whether the revision is a commit, which never changes.
func (a Address) IsCommit() bool { return IsCommitID(a.Revision) }

// repo returns the repository.
func (a Address) repo() RepoID { return RepoID{a.Type, a.ID()} }

// resolve returns the path of the content of a file.
func (a Address) resolve(commit, path string) string {
	if a.Type == Bucket {
		return a.repo().Page() + "/resolve/" + escapePath(path)
	}
	return a.repo().Page() + "/resolve/" + url.PathEscape(commit) + "/" + escapePath(path)
}
