package upload

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
)

// A SessionID names one client: all requests with tokens that were made for one secret and one
// repository. It is opaque, and is never logged.
type SessionID string

// A Content is a stored file that a commit may name.
type Content struct {
	ID     codec.FileID // with the stored shard; zero: the empty file
	SHA256 [32]byte     // computed from the content
	Size   int64        // bytes
	Chunks int
}

// Errors that a caller can act on. Their texts are sentences for the user of a client.
var (
	// ErrRefused means that a body violates the format or disagrees with the stored data. The
	// error in the chain says how.
	ErrRefused = errors.New("refused")

	// ErrTooLarge means that a body exceeds its limit.
	ErrTooLarge = errors.New("too large")

	// ErrBusy means that too many uploads run; the client should try again later.
	ErrBusy = errors.New("too many uploads run at the moment; try again later")

	// ErrFull means that the store or its disk has no room.
	ErrFull = errors.New("the store is full")
)

// A LeaseError reports that data of files no longer exists, because a lease expired and a sweep
// deleted the data. The client must upload the files again.
type LeaseError struct{ Files []Content }

// Error implements error.
func (e *LeaseError) Error() string {
	return fmt.Sprintf("data of %d files was deleted since the upload; upload these files again", len(e.Files))
}

// A Guard protects objects from a sweep while it holds.
type Guard interface {
	// Protect protects objects, and returns those that do not exist. An object that exists after
	// the call continues to exist while the guard holds.
	Protect(ctx context.Context, keys ...names.Key) (missing []names.Key, err error)
}

// Options describe a Store. Zero values of limits mean their defaults.
type Options struct {
	Leases Guard // holds for some time after each call; required

	// Readable returns the file with a SHA-256 that a session may read, or origin.ErrNotFound. nil:
	// a session finds only what it uploaded.
	Readable func(ctx context.Context, sess SessionID, sum [32]byte) (Content, error)
}

// A Store checks bodies and stores objects. It is safe for concurrent use.
type Store struct {
	store origin.WriteStore
	o     Options
}

// Open returns the upload Store of s.
func Open(_ context.Context, s origin.WriteStore, o Options) (*Store, error) {
	return &Store{store: s, o: o}, nil
}

// Close ends background work and removes scratch files.
func (*Store) Close() error { return nil }

// errNotReady is the error of all methods until they are complete.
var errNotReady = fmt.Errorf("uploads: %w", errors.ErrUnsupported)

// PutXorb checks a body against its hash and stores the xorb. It reports whether the store lacked
// the xorb. length is that of the body in bytes, or negative if unknown.
func (*Store) PutXorb(ctx context.Context, sess SessionID, name codec.Hash, body io.Reader, length int64) (inserted bool, err error) {
	return false, errNotReady
}

// PutShard checks a shard against the stored xorbs and stores it. It returns the files of the
// shard in its order. It calls progress, if not nil, at least every few seconds, from one goroutine
// at a time. Stages are "validating" and "committing"; done and total are bytes of content.
func (*Store) PutShard(ctx context.Context, sess SessionID, body io.Reader, length int64, progress func(stage string, done, total int64)) ([]Content, error) {
	return nil, errNotReady
}

// Dedup returns a shard that locates a chunk and its neighbours, or origin.ErrNotFound.
func (*Store) Dedup(ctx context.Context, sess SessionID, chunk codec.Hash) (shard []byte, err error) {
	return nil, errNotReady
}

// FileBySHA256 returns a file that the session uploaded or may read, or origin.ErrNotFound.
func (*Store) FileBySHA256(ctx context.Context, sess SessionID, sum [32]byte) (Content, error) {
	return Content{}, errNotReady
}

// PutContents reads files to their ends, one after the other, and stores them in common xorbs and
// shards. It returns one Content per file, in order.
func (*Store) PutContents(ctx context.Context, sess SessionID, files ...io.Reader) ([]Content, error) {
	return nil, errNotReady
}

// Commit checks that all data of files exists, and protects it by the guard of a publish
// (writer.Session) until that has ended. It is called between Begin and Update. *LeaseError names
// files to upload again.
func (*Store) Commit(ctx context.Context, files []Content, by Guard) error {
	return errNotReady
}
