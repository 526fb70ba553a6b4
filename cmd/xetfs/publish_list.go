package main

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/codec/page"
)

// A lister goes through a folder in the order of keys: the entries of a folder, sorted
// by name, then what is below each of its folders, in the same order.
type lister struct {
	root   string // as the user calls it
	ignore *ignore
	own    []ownFolder   // that are left out
	owner  bool          // is kept
	madeUp *madeUp       // of the readers, too
	record *recordReader // of the last publish; nil: none
	note   func(string)
	out    func(*foundBatch) error // takes the batches

	batch    *foundBatch
	key      []byte // scratch
	excluded int64
}

// An ownFolder is a folder of xetfs itself.
type ownFolder struct {
	dev, inode uint64
	what       string
}

// versionsName is where old versions are found in a mounted tree.
const versionsName = ".versions"

// run lists the whole folder.
func (l *lister) run(ctx context.Context) error {
	fd, err := openAt(unix.AT_FDCWD, l.root, unix.O_DIRECTORY) // a link that is named is followed
	if err != nil {
		return fmt.Errorf("%s: %w", l.root, err)
	}
	root := newOpenFolder(fd, nil, "")
	defer root.release()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("%s: %w", l.root, err)
	}
	root.dev = uint64(st.Dev) //nolint:unconvert // an int32 on some machines
	l.batch = newFoundBatch()
	f := found{in: root, state: foundDone}
	fromStat(&f.entry, &st, l.owner)
	if err := l.add(f); err != nil {
		return err
	}
	if err := l.madeUp.check(root.dev, func(fs *unix.Statfs_t) error { return unix.Fstatfs(fd, fs) }); err != nil {
		return fmt.Errorf("%s: %w", l.root, err)
	}
	if err := l.folder(ctx, root); err != nil {
		return err
	}
	return l.out(l.batch)
}

// folder lists one folder and what is below.
func (l *lister) folder(ctx context.Context, d *openFolder) error {
	below, err := l.entries(ctx, d)
	if err != nil {
		return err
	}
	for _, name := range below {
		if err := l.below(ctx, d, name); err != nil {
			return err
		}
	}
	return nil
}

// entries lists what is in one folder, and returns the names of its folders.
func (l *lister) entries(ctx context.Context, d *openFolder) (below []string, err error) {
	list, err := readDirents(d.fd)
	if err != nil {
		if d.path == "" {
			return nil, fmt.Errorf("%s: %w", l.root, err)
		}
		return nil, l.add(l.emptied(d.path, err))
	}
	for name, kind := range list.all {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		isFolder, err := l.entry(d, string(name), kind)
		if err != nil {
			return nil, err
		}
		if isFolder {
			below = append(below, string(name))
		}
	}
	return below, nil
}

// entry lists one entry, and says whether it is a folder that is to be looked into.
func (l *lister) entry(d *openFolder, name string, kind byte) (isFolder bool, err error) {
	var st unix.Stat_t
	if kind == unix.DT_UNKNOWN || kind == unix.DT_DIR {
		if err := statAt(d.fd, name, &st); err != nil {
			return false, l.add(found{entry: page.Entry{Path: d.join(name)}, state: foundSkipped, why: err})
		}
		kind = byte(st.Mode & unix.S_IFMT >> 12) // that is how they are related
	}
	if l.ignore.excludes(d.names, name, kind == unix.DT_DIR) {
		l.excluded++
		return false, nil
	}
	if d.path == "" && name == versionsName {
		return false, fmt.Errorf("%s/%s: old versions are found under this name; --exclude /%s leaves it out", l.root, name, versionsName)
	}
	f := found{in: d, entry: page.Entry{Path: d.join(name)}}
	if err := page.CheckPath(f.entry.Path); err != nil {
		f.skip(err)
	}
	switch {
	case f.state == foundSkipped:
	case kind == unix.DT_DIR:
		if isFolder = l.enter(&f, name, &st); f.state == foundNamed {
			return false, nil
		}
	default:
		l.key = append(append(l.key[:0], d.prefix...), name...)
		f.known = l.record.find(l.key)
	}
	return isFolder, l.add(f)
}

// enter decides whether a folder is looked into. It leaves f as it is if the folder is
// left out without being told of as skipped.
func (l *lister) enter(f *found, name string, st *unix.Stat_t) bool {
	dev := uint64(st.Dev) //nolint:unconvert // an int32 on some machines
	for _, own := range l.own {
		if own.dev == dev && own.inode == st.Ino {
			l.note(fmt.Sprintf("%s/%s is %s, and is left out", l.root, f.entry.Path, own.what))
			return false
		}
	}
	if dev != f.in.dev {
		if err := l.checkDevice(f.in, name, dev); err != nil {
			f.skip(err)
			return false
		}
	}
	for {
		err := unix.Faccessat(f.in.fd, name, unix.R_OK|unix.X_OK, unix.AT_EACCESS)
		if errors.Is(err, unix.EACCES) {
			f.skip(err)
			return false
		}
		if !errors.Is(err, unix.EINTR) {
			break // any other error opening it will say, too
		}
	}
	fromStat(&f.entry, st, l.owner)
	f.state = foundDone
	return true
}

// checkDevice says whether a folder on another device than the one above has files.
func (l *lister) checkDevice(d *openFolder, name string, dev uint64) error {
	fd, err := openAt(d.fd, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	return l.madeUp.check(dev, func(fs *unix.Statfs_t) error { return unix.Fstatfs(fd, fs) })
}

// below lists what is below a folder in d.
func (l *lister) below(ctx context.Context, d *openFolder, name string) error {
	path := d.join(name)
	fd, err := openAt(d.fd, name, unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return l.add(l.emptied(path, err))
	}
	sub := newOpenFolder(fd, d, name)
	defer sub.release()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return l.add(l.emptied(path, err))
	}
	sub.dev = uint64(st.Dev) //nolint:unconvert // an int32 on some machines
	return l.folder(ctx, sub)
}

// emptied is a folder that is in the tree already and cannot be read after all.
func (l *lister) emptied(path string, err error) found {
	return found{entry: page.Entry{Path: path}, state: foundSkipped, why: fmt.Errorf("%w; it is empty in the tree", err)}
}

// add puts one thing into the open batch.
func (l *lister) add(f found) error {
	if l.batch.full() {
		if err := l.out(l.batch); err != nil {
			return err
		}
		l.batch = newFoundBatch()
	}
	l.batch.hold(f.in)
	l.batch.found = append(l.batch.found, f)
	return nil
}

// openAt opens something below an open folder to be read.
func openAt(dir int, name string, flags int) (fd int, err error) {
	for {
		fd, err = unix.Openat(dir, name, unix.O_RDONLY|unix.O_CLOEXEC|flags, 0)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// statAt is lstat below an open folder.
func statAt(dir int, name string, st *unix.Stat_t) error {
	for {
		err := unix.Fstatat(dir, name, st, unix.AT_SYMLINK_NOFOLLOW)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
