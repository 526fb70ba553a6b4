package stack

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/disk"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
)

// diskCacheName is the folder of the disk cache in the folder of all caches.
const diskCacheName = "disk"

// Default bounds of a disk cache.
const (
	MinCacheSize     = 16 << 20
	defaultCacheSize = 10 << 30
	defaultCachePart = 10 // at most a tenth of the file system
	defaultFreePart  = 20 // a twentieth of the file system stays free
)

// A CacheFolder is the folder of a disk cache, which need not exist yet.
type CacheFolder struct {
	Path    string // absolute, without links
	Named   bool   // by the user; a failure is then an error
	Options disk.Options
	IfBusy  string // advice for the user if another process writes to the folder and Share is not set
	Err     error  // why it cannot be used
}

// NamedCache returns the disk cache in a folder that the user names.
func NamedCache(path string) *CacheFolder {
	f := &CacheFolder{Path: path, Named: true}
	f.resolve()
	return f
}

// DefaultCache returns the disk cache in the folder of all caches.
func DefaultCache(caches string) *CacheFolder {
	f := &CacheFolder{Path: filepath.Join(caches, diskCacheName)}
	f.resolve()
	return f
}

// resolve removes the links from the path.
func (f *CacheFolder) resolve() {
	real, err := realPath(f.Path)
	if err != nil {
		f.Err = fmt.Errorf("disk cache %s: %w", f.Path, ui.Reason(err))
		return
	}
	f.Path = real
}

// SetLimits sets the size of the cache and the free space that it leaves. Both functions
// return a limit for a file system of total bytes. A nil function means the default.
func (f *CacheFolder) SetLimits(size, free func(total int64) int64) {
	total, err := FileSystemSize(f.Path)
	if err != nil {
		f.Err = fmt.Errorf("disk cache %s: %w", f.Path, err)
		return
	}
	f.Options.MaxBytes = max(MinCacheSize, min(defaultCacheSize, total/defaultCachePart))
	if size != nil {
		f.Options.MaxBytes = size(total)
	}
	f.Options.MinFree = total / defaultFreePart
	if free != nil {
		f.Options.MinFree = free(total)
	}
	if f.Options.MinFree == 0 {
		f.Options.MinFree = -1 // 0 would be the default of the store
	}
}

// Check returns an error if the folder cannot be made, or is not writable. It changes nothing.
func (f *CacheFolder) Check() error {
	if f.Err != nil {
		return f.Err
	}
	path := f.Path
	var st unix.Stat_t
	err := unix.Stat(path, &st)
	for errors.Is(err, unix.ENOENT) && path != "/" {
		path = filepath.Dir(path)
		err = unix.Stat(path, &st)
	}
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		err = unix.ENOTDIR
	}
	if err == nil {
		err = unix.Faccessat(unix.AT_FDCWD, path, unix.W_OK|unix.X_OK, unix.AT_EACCESS)
	}
	switch {
	case err == nil:
		return nil
	case path != f.Path:
		err = fmt.Errorf("%s: %w", path, err)
	}
	return fmt.Errorf("disk cache %s: %w", f.Path, err)
}

// CheckApart refuses a disk cache below the mount, which would deadlock, and one in a folder
// with data.
func (f *CacheFolder) CheckApart(source, mountpoint string) error {
	overlap := func(dir string) bool { return ui.Within(f.Path, dir) || ui.Within(dir, f.Path) }
	if mountpoint != "" && overlap(mountpoint) {
		return MountError{fmt.Errorf("disk cache %s: overlaps the mountpoint %s, and the mount would wait for itself; name another with --cache-dir", f.Path, mountpoint)}
	}
	if IsAddress(source) {
		return nil
	}
	real, err := filepath.EvalSymlinks(source)
	if err != nil {
		return fmt.Errorf("%s: %w", source, ui.Reason(err))
	}
	if real, err = filepath.Abs(real); err != nil {
		return err
	}
	if overlap(real) {
		return MountError{fmt.Errorf("disk cache %s: overlaps the source %s, and a source is never written to; name another with --cache-dir", f.Path, source)}
	}
	return nil
}

// realPath resolves the links in an absolute path. The end of the path need not exist.
func realPath(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err == nil || !errors.Is(err, iofs.ErrNotExist) || path == "/" {
		return real, err
	}
	parent, err := realPath(filepath.Dir(path))
	return filepath.Join(parent, filepath.Base(path)), err
}

// FileSystemSize returns the bytes of the file system of a path, which need not exist yet.
func FileSystemSize(path string) (int64, error) {
	st, err := FileSystem(path)
	return int64(st.Blocks) * st.Frsize, err //nolint:gosec // no file system has 2^63 bytes
}

// FileSystemFree returns the bytes of the file system that users may still fill.
func FileSystemFree(path string) (int64, error) {
	st, err := FileSystem(path)
	return int64(st.Bavail) * st.Frsize, err //nolint:gosec // as above
}

// FileSystem returns the file system of a path, which need not exist yet.
func FileSystem(path string) (st unix.Statfs_t, err error) {
	err = unix.Statfs(path, &st)
	for errors.Is(err, unix.ENOENT) && path != "/" {
		path = filepath.Dir(path)
		err = unix.Statfs(path, &st)
	}
	return st, err
}
