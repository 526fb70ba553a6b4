package stack

import (
	"path/filepath"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/mirror"
	"github.com/xetfs/xetfs/codec/merkle"
)

// MirrorName is the folder for copies of shards and sorted runs of chunks, in the folder of all
// caches.
const MirrorName = "shards"

// newMirror returns copies of the shards of a remote store. It returns nil for a local store, and
// without a folder of all caches.
func newMirror(s origin.Store, remote Remote) mirror.Mirror {
	if origin.Local(s) || remote.CacheDir == "" {
		return nil
	}
	return mirror.New(s, mirrorFolder(remote), remote.Note)
}

// newIndexed returns newMirror for a remote STORE. For a local one it returns a Mirror without
// copies, for the sorted runs of its chunks. Two paths of one store have runs of their own.
func newIndexed(s origin.Store, path string, remote Remote) mirror.Mirror {
	if !origin.Local(s) || remote.CacheDir == "" {
		return newMirror(s, remote)
	}
	real, err := filepath.EvalSymlinks(path)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		return nil
	}
	return mirror.NewLocal(s, mirrorFolder(remote), merkle.Chunk([]byte(real)).String(), remote.Note)
}

func mirrorFolder(remote Remote) *mirror.Folder {
	return mirror.OpenFolder(filepath.Join(remote.CacheDir, MirrorName), mirrorSize(remote.CacheDir))
}

// mirrorSize returns the limit of the copies in bytes: that of the disk cache.
func mirrorSize(folder string) int64 {
	total, err := FileSystemSize(folder)
	if err != nil {
		return defaultCacheSize
	}
	return max(MinCacheSize, min(defaultCacheSize, total/defaultCachePart))
}
