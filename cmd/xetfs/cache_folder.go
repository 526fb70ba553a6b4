package main

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/disk"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
)

// diskName is the folder of the disk cache in cacheDir, which has other things in it, too.
const diskName = "disk"

// A cacheFolder is where a disk cache is, or is to be.
type cacheFolder struct {
	path    string // absolute, without links
	named   bool   // by the user, who then wants to know if it cannot be used
	options disk.Options
	ifBusy  string // what to do when another process writes to it, and Share is not set
	err     error  // why it cannot be used
}

// checkApart refuses a disk cache below the mount, which would wait for itself, and one in
// a folder with data.
func (f *cacheFolder) checkApart(source, mountpoint string) error {
	overlap := func(dir string) bool { return ui.Within(f.path, dir) || ui.Within(dir, f.path) }
	if mountpoint != "" && overlap(mountpoint) {
		return MountError{fmt.Errorf("disk cache %s: one of it and the mountpoint %s lies in the other, and the mount would wait for itself; name another with --cache-dir", f.path, mountpoint)}
	}
	if isWeb(source) {
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
		return MountError{fmt.Errorf("disk cache %s: one of it and the source %s lies in the other, and nothing is ever written to a source; name another with --cache-dir", f.path, source)}
	}
	return nil
}

// realPath follows the links in an absolute path of which only the beginning need be there.
func realPath(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err == nil || !errors.Is(err, iofs.ErrNotExist) || path == "/" {
		return real, err
	}
	parent, err := realPath(filepath.Dir(path))
	return filepath.Join(parent, filepath.Base(path)), err
}

// fileSystemSize returns the bytes of the file system that a path is on, or will be.
func fileSystemSize(path string) (int64, error) {
	st, err := fileSystem(path)
	return int64(st.Blocks) * st.Frsize, err //nolint:gosec // no file system has 2^63 bytes
}

// fileSystemFree returns how many of them users may still fill.
func fileSystemFree(path string) (int64, error) {
	st, err := fileSystem(path)
	return int64(st.Bavail) * st.Frsize, err //nolint:gosec // as above
}

func fileSystem(path string) (st unix.Statfs_t, err error) {
	err = unix.Statfs(path, &st)
	for errors.Is(err, unix.ENOENT) && path != "/" {
		path = filepath.Dir(path)
		err = unix.Statfs(path, &st)
	}
	return st, err
}
