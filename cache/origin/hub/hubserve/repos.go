package hubserve

import (
	"context"
	"iter"
	"time"

	"github.com/xetfs/xetfs/cache/origin/hub"
	"github.com/xetfs/xetfs/codec"
)

// Repos are the repositories that a handler shows. It is safe for concurrent use. The context is
// that of the request: an implementation may show a client fewer repositories than exist.
type Repos interface {
	// Resolve returns the commit of a revision: a branch, a tag or a commit hash. "" is the
	// newest commit. It returns hub.ErrRepoNotFound, hub.ErrRevisionNotFound or hub.ErrRepoGated.
	Resolve(ctx context.Context, id hub.RepoID, revision string) (Commit, error)

	// Refs returns the branches and tags of a repository, at most a few thousand.
	Refs(ctx context.Context, id hub.RepoID) (branches, tags []Ref, err error)
}

// A Ref is a branch or a tag.
type Ref struct {
	Name   string
	Commit string // 40 hex digits
}

// A Commit is one immutable tree of files. Paths have slashes and no leading slash; the root is
// "". It is safe for concurrent use.
type Commit interface {
	ID() string      // 40 hex digits
	Time() time.Time // of the publish
	Title() string   // one line; may be empty

	// Lookup returns the file or folder at a path, or io/fs.ErrNotExist.
	Lookup(ctx context.Context, path string) (File, error)

	// List yields the entries directly in dir whose names sort after a given one ("" for
	// all), in order. It yields io/fs.ErrNotExist if dir is no folder.
	List(ctx context.Context, dir, after string) iter.Seq2[File, error]
}

// A File is a file or a folder of a commit.
type File struct {
	Path   string
	IsDir  bool
	Size   int64        // bytes; 0 for a folder
	ID     codec.FileID // of content that is not inline
	InXet  bool         // ID.File is a Xet hash, so clients can read the file by the CAS API
	Inline []byte       // the whole content of a small file
	SHA256 *[32]byte    // of the content; nil: unknown
	GitOID string       // git's name of the content, 40 hex digits; "": derived from the other fields
}

// Content opens the bytes of files. It is safe for concurrent use.
type Content interface {
	// OpenFile opens a file with a size and without inline content. The caller closes it.
	OpenFile(ctx context.Context, f *File) (ContentReader, error)
}

// A ContentReader reads verified bytes of one file.
type ContentReader interface {
	// ReadAt fills p from offset off, or returns an error. It returns io.EOF with a short
	// count at the end of the file, and only there.
	ReadAt(ctx context.Context, p []byte, off int64) (int, error)
	Close() error
}

// Tokens makes tokens for the CAS API.
type Tokens interface {
	// ReadToken returns a token that reads the files of one commit, and the end of its
	// validity. Clients in JavaScript need tokens that begin with hf_.
	ReadToken(ctx context.Context, id hub.RepoID, c Commit) (token string, expires time.Time, err error)
}
