package stack

import (
	"path/filepath"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/mirror"
)

// mirrorName is the folder for copies of shards in the folder of all caches.
const mirrorName = "shards"

// newMirror returns copies of the shards of a remote store. It returns nil for a local store, and
// without a folder of all caches.
func newMirror(s origin.Store, remote Remote) *mirror.Mirror {
	if origin.Local(s) || remote.CacheDir == "" {
		return nil
	}
	return mirror.New(s, mirror.OpenFolder(filepath.Join(remote.CacheDir, mirrorName), mirrorSize(remote.CacheDir)), remote.Note)
}

// mirrorSize returns the limit of the copies in bytes: that of the disk cache.
func mirrorSize(folder string) int64 {
	total, err := FileSystemSize(folder)
	if err != nil {
		return defaultCacheSize
	}
	return max(MinCacheSize, min(defaultCacheSize, total/defaultCachePart))
}
