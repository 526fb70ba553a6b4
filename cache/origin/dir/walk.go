package dir

import (
	"context"
	"errors"
	iofs "io/fs"
	"os"
	"path"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/names"
)

// A walker lists the regular files below a folder of a root. It opens each folder once, and looks up
// each file by its name in the open folder.
type walker struct {
	root *os.Root

	// skip is called with each folder below the first one before it is opened. The walk leaves out
	// the folders for which it returns true. nil: none is left out.
	skip func(dir string, info *unix.Stat_t) bool

	// file is called with each file.
	file func(item origin.Item)

	// left is called after the last file of each folder, except the first one and those that skip
	// left out. info is older than its files. nil: no call.
	left func(dir string, info *unix.Stat_t, hasFolders bool)
}

// walk lists the files at or below dir, which may be absent, by path. A folder or file that vanishes
// meanwhile is not listed. Errors have the path.
func (w *walker) walk(ctx context.Context, dir string) error {
	return w.list(ctx, dir, nil)
}

// list is walk. found describes dir in the folder above it; nil: it is the first one, which left leaves
// out. A folder that vanished or was replaced meanwhile is left out, too: it may be there again later.
func (w *walker) list(ctx context.Context, dir string, found *unix.Stat_t) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	// Without O_NONBLOCK a named pipe would wait for a writer.
	f, err := w.root.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if isGone(err) {
		return nil
	}
	if err != nil {
		return wrap(dir, err)
	}
	defer f.Close()
	var info unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &info); err != nil {
		return wrap(dir, err)
	}
	entries, err := f.Readdirnames(-1)
	isWhole := err == nil && found != nil && info.Dev == found.Dev && info.Ino == found.Ino
	if err != nil && !isGone(err) {
		return wrap(dir, err)
	}
	slices.Sort(entries)
	hasFolders := false
	for _, name := range entries {
		isFolder, err := w.visit(ctx, f, path.Join(dir, name), name)
		if err != nil {
			return err
		}
		hasFolders = hasFolders || isFolder
	}
	if isWhole && w.left != nil {
		w.left(dir, found, hasFolders)
	}
	return nil
}

// visit lists one name in an open folder.
func (w *walker) visit(ctx context.Context, f *os.File, p, name string) (isFolder bool, err error) {
	var info unix.Stat_t
	err = statIn(f, name, &info)
	if isGone(err) {
		return false, nil
	}
	if err != nil {
		return false, wrap(p, &iofs.PathError{Op: "stat", Path: p, Err: err})
	}
	switch info.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		if w.skip != nil && w.skip(p, &info) {
			return true, nil
		}
		return true, w.list(ctx, p, &info)
	case unix.S_IFREG:
		w.file(origin.Item{Key: names.Key(p), Size: info.Size, Modified: time.Unix(info.Mtim.Unix())})
	}
	return false, nil
}

// statIn describes a name in an open folder. It does not follow a link.
func statIn(f *os.File, name string, info *unix.Stat_t) error {
	for {
		err := unix.Fstatat(int(f.Fd()), name, info, unix.AT_SYMLINK_NOFOLLOW) // the kernel's descriptors fit an int
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// isGone reports whether an error means that a path does not exist, or not as a folder.
func isGone(err error) bool {
	return errors.Is(err, iofs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}
