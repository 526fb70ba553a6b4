package stack

import (
	"io"
	"os"
	"path/filepath"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
)

// A WriteStore is an open STORE for changes.
type WriteStore interface {
	origin.WriteStore
	io.Closer
}

// openStore opens a STORE for changes: a folder, which is created if necessary, or a bucket.
func openStore(store string, remote Remote) (WriteStore, error) {
	switch {
	case isBucket(store):
		if err := checkAddress(store); err != nil {
			return nil, err
		}
		return openBucket(store, remote)
	case IsAddress(store):
		return nil, checkLocal(store)
	}
	return dir.Open(store)
}

// OpenKeys opens a STORE that lists all its keys, a folder or a bucket, for reading.
func OpenKeys(store string, remote Remote) (ReadStore, error) {
	if isBucket(store) {
		return OpenRemote(store, remote)
	}
	if err := checkStore(store); err != nil {
		return nil, err
	}
	return dir.OpenReadOnly(store)
}

// tempFolder returns the folder for the temporary files of a writer to STORE, and its mode less
// the umask. A store is for the users that the umask allows, a cache for one user.
func tempFolder(store string, remote Remote) (string, os.FileMode) {
	switch {
	case !IsAddress(store):
		return filepath.Join(store, "tmp"), 0o777
	case remote.CacheDir != "":
		return filepath.Join(remote.CacheDir, "tmp"), 0o700
	}
	return os.TempDir(), 0o700
}
