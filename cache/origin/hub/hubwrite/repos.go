package hubwrite

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/xetfs/xetfs/cache/origin/hub"
	"github.com/xetfs/xetfs/cache/origin/hub/hubserve"
)

// ErrRepoExists means that a repository with this name exists.
var ErrRepoExists = errors.New("the repository exists")

// Repos are the repositories that a handler changes. It is safe for concurrent use. The context is
// that of the request. Each method returns a *hubserve.Refusal with status 403 if the client may not
// change the repository, whether or not that exists. Otherwise an absent repository is
// hub.ErrRepoNotFound.
type Repos interface {
	// Create makes a repository without files, or returns ErrRepoExists.
	Create(ctx context.Context, id hub.RepoID) error

	// Delete removes a repository.
	Delete(ctx context.Context, id hub.RepoID) error

	// Move renames a repository. It returns ErrRepoExists if the new name is taken.
	Move(ctx context.Context, from, to hub.RepoID) error

	// Head returns the newest commit.
	Head(ctx context.Context, id hub.RepoID) (hubserve.Commit, error)

	// Ignores returns a function that reports whether a path is excluded, by patterns like those
	// of a .gitignore. nil: by the file .gitignore of the commit, if there is one.
	Ignores(ctx context.Context, c hubserve.Commit, patterns *string) (func(path string) bool, error)

	// WriteToken returns a token for uploads by the CAS API.
	WriteToken(ctx context.Context, id hub.RepoID) (WriteToken, error)

	// HasObjects reports for each object whether a commit of this client may name it without an upload.
	HasObjects(ctx context.Context, id hub.RepoID, objects []Object) ([]bool, error)

	// ObjectToken returns a token for PutObject, which may be a part of an address. It is valid
	// for one object of this client. A *hubserve.Refusal is about this object.
	ObjectToken(ctx context.Context, id hub.RepoID, o Object) (token string, expires time.Time, err error)

	// PutObject stores the content of an object, whose hash and size it checks. The client has no
	// other token than this one.
	PutObject(ctx context.Context, token string, id hub.RepoID, sum [32]byte, content io.Reader) error

	// Commit makes one commit, all of it or nothing. It returns the hash of the commit, also for
	// a commit that was made before and for one without changes.
	Commit(ctx context.Context, id hub.RepoID, c *Commit) (oid string, err error)
}

// A WriteToken allows uploads by the CAS API.
type WriteToken struct {
	Token   string
	Expires time.Time
	Session string // for logs of the client; not secret
}

// An Object is a file by its SHA-256.
type Object struct {
	SHA256 [32]byte
	Size   int64 // bytes
}
