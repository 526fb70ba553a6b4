package origin

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/xetfs/xetfs/codec/names"
)

// A Store stores objects under keys: a directory, a bucket or a web server. It is safe for
// concurrent use. ErrNotFound: the object is absent. ErrUnavailable: that cannot be determined.
type Store interface {
	// ReadAt fills p with the bytes of object k from off on. It returns an error if it cannot
	// fill all of p; the content of p is then undefined. Short reads do not exist.
	ReadAt(ctx context.Context, k names.Key, p []byte, off int64) error

	// Size returns the length of object k in bytes.
	Size(ctx context.Context, k names.Key) (int64, error)

	// Get returns a whole small object, or ErrUnchanged if its tag equals seen.
	Get(ctx context.Context, k names.Key, seen Tag) (value []byte, tag Tag, err error)

	// List yields the objects whose keys start with prefix and sort after a given
	// one, in order. A store that cannot list yields errors.ErrUnsupported.
	List(ctx context.Context, prefix string, after names.Key) iter.Seq2[Item, error]
}

// A WriteStore is a Store that accepts writes. ErrUnknown: the write may or may not have
// happened.
type WriteStore interface {
	Store

	// PutIfAbsent creates an object. ErrExists: the key has an object.
	PutIfAbsent(ctx context.Context, k names.Key, value []byte) (Tag, error)

	// PutIfMatch replaces an object with the given tag. ErrConflict: the object has another tag,
	// or is absent.
	PutIfMatch(ctx context.Context, k names.Key, value []byte, tag Tag) (Tag, error)

	// Delete removes an object. An absent object is no error.
	Delete(ctx context.Context, k names.Key) error

	// Sync returns when all earlier puts are durable.
	Sync(ctx context.Context) error
}

// FolderStates are the states of folders by their path, which is that of the keys in them.
type FolderStates map[string]string

// fullListing is the time after which all folders are listed again. A file may have changed in place,
// which changes no name.
const fullListing = 24 * time.Hour

// IsStale reports whether states cannot be used any more that are derived from a full listing.
func IsStale(full, now time.Time) bool { return full.After(now) || now.Sub(full) > fullListing }

// A ChangeLister is a Store that lists only folders that have changed.
type ChangeLister interface {
	// ListChanged is List for the whole of names.ShardPrefix or names.XorbPrefix. It leaves out the
	// folders that have the objects that they had with their state in seen, and calls same with
	// each of them. It adds the states of all folders to now, except of those that may change
	// without a new state.
	ListChanged(ctx context.Context, prefix string, seen, now FolderStates, same func(folder string)) iter.Seq2[Item, error]
}

// ListChanged calls ListChanged of s. It calls List if s is no ChangeLister.
func ListChanged(ctx context.Context, s Store, prefix string, seen, now FolderStates, same func(folder string)) iter.Seq2[Item, error] {
	if l, ok := s.(ChangeLister); ok {
		return l.ListChanged(ctx, prefix, seen, now, same)
	}
	return s.List(ctx, prefix, "")
}

// A CostReporter is a Store that reports its cost class. A Store without the method is remote.
type CostReporter interface {
	// Local reports whether a request costs no more than reading a local file.
	Local() bool
}

// Local calls Local of s. It returns false if s is no CostReporter.
func Local(s Store) bool {
	c, ok := s.(CostReporter)
	return ok && c.Local()
}

// A Matcher is a Store that compares an object with a value without reading the object.
type Matcher interface {
	// Matches reports whether object k has the value. False may also mean unknown.
	Matches(ctx context.Context, k names.Key, value []byte) (bool, error)
}

// An AllSyncer is a WriteStore whose Sync leaves out old names that other writers put.
type AllSyncer interface {
	// SyncAll makes the next Sync include the names of data that others put. A caller that
	// relies on such data calls it first.
	SyncAll()
}

// A StrayRemover is a WriteStore that may hold unfinished files or uploads of killed writers.
type StrayRemover interface {
	// RemoveStray removes the unfinished files that are older than some time, and returns
	// their number, also beside an error. Younger files may belong to a running writer.
	RemoveStray(ctx context.Context, older time.Duration) (removed int, err error)
}

// A Tag changes whenever the value of a key changes.
type Tag string

// An Item is one object in a list.
type Item struct {
	Key      names.Key
	Size     int64
	Modified time.Time // by the store's clock
}

// The kinds of errors of stores and sources.
var (
	ErrNotFound    = errors.New("no such object")
	ErrUnchanged   = errors.New("unchanged")
	ErrExists      = errors.New("exists already")
	ErrConflict    = errors.New("changed by another process")
	ErrUnknown     = errors.New("outcome unknown")
	ErrUnavailable = errors.New("origin unavailable") // after all retries
)

// A LocalError is an error of the local disk or file system of a store. Callers may treat it
// as ErrUnavailable.
type LocalError struct {
	Path string // in the store
	Err  error  // of the system call
}

// Error implements error.
func (e *LocalError) Error() string { return fmt.Sprintf("%q: %v", e.Path, e.Err) }

// Is makes it ErrUnavailable. There is no Unwrap: a lost xorb must not look like a name that
// does not exist (io/fs.ErrNotExist).
func (e *LocalError) Is(target error) bool { return target == ErrUnavailable } //nolint:errorlint // required by package errors

// A HintError is an error of a store with a hint for retries.
type HintError struct {
	Err   error
	After time.Duration // minimum pause before the next try; 0: the pause of the policy
	Tries int           // maximum number of tries; 0: the number of the policy
}

func (e *HintError) Error() string { return e.Err.Error() }

// Unwrap returns the error without the hint.
func (e *HintError) Unwrap() error { return e.Err }
