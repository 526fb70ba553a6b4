package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ignore"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/statcache"
	"github.com/xetfs/xetfs/codec/page"
)

// A lister goes through a folder in the order of keys: the entries of a folder, sorted
// by name, then what is below each of its folders, in the same order. publish and pack
// use it.
type lister struct {
	root       string // as the user calls it
	ignore     *ignore.Matcher
	own        []ownFolder             // that are left out
	owner      bool                    // is kept
	noVersions bool                    // refuse a versionsName at the top
	files      *walkFiles              // of the readers, too
	known      *statcache.File         // of the last publish; nil: none
	out        func(*foundBatch) error // takes the batches

	begun    bool // the folder could be opened
	batch    *foundBatch
	depth    int    // folders that lead to the one that is listed
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
	root, st, err := l.openRoot(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", l.root, err)
	}
	defer root.release()
	l.begun, l.batch = true, newFoundBatch()
	f := found{in: root, state: foundDone}
	fromStat(&f.entry, st, l.owner)
	if err := l.add(f); err != nil {
		return err
	}
	if err := l.folder(ctx, root); err != nil {
		return err
	}
	return l.out(l.batch)
}

// openRoot opens the folder itself.
func (l *lister) openRoot(ctx context.Context) (*openFolder, *fileStat, error) {
	fd, err := l.files.openFolder(ctx, unix.AT_FDCWD, l.root, 0, noOthers) // a link that is named is followed
	if err != nil {
		return nil, nil, err
	}
	root := newOpenFolder(l.files, fd, nil, "")
	st := new(fileStat)
	err = l.files.fstat(fd, st)
	if err == nil {
		err = l.files.mounts.checkDevice(st.dev, func(fs *unix.Statfs_t) error { return l.files.statfs(fd, fs) })
	}
	if err != nil {
		root.release()
		return nil, nil, err
	}
	root.dev, root.mount, root.private = st.dev, st.mount, isPrivate(st.mode) || aboveIsPrivate(l.root)
	return root, st, nil
}

// folder lists one folder and what is below.
func (l *lister) folder(ctx context.Context, d *openFolder) error {
	l.depth++
	defer func() { l.depth-- }()
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
	list, err := readDirents(&l.files.fileCalls, d.fd)
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

// entry lists one entry, and says whether it is a folder that is to be looked into. A folder
// on another mount is looked at as little as possible: its server may be dead.
func (l *lister) entry(d *openFolder, name string, kind byte) (isFolder bool, err error) {
	excluded := func(kind byte) bool { return l.ignore.Excludes(d.names, name, kind == unix.DT_DIR) }
	if kind != unix.DT_UNKNOWN && excluded(kind) {
		l.excluded++
		return false, nil
	}
	var st fileStat
	f := found{in: d, entry: page.Entry{Path: d.join(name)}}
	if kind == unix.DT_UNKNOWN || kind == unix.DT_DIR {
		unknown := kind == unix.DT_UNKNOWN
		if err := l.stat(d, name, &st); err != nil {
			if unknown && (excluded(unix.DT_REG) || excluded(unix.DT_DIR)) {
				l.excluded++
				return false, nil
			}
			f.skip(err)
			return false, l.add(f)
		}
		kind = byte(st.kind() >> 12) // that is how they are related
		if unknown && excluded(kind) {
			l.excluded++
			return false, nil
		}
	}
	if l.noVersions && d.path == "" && name == versionsName {
		return false, fmt.Errorf("%s/%s: old versions are found under this name; --exclude /%s leaves it out", l.root, name, versionsName)
	}
	switch err := page.CheckPath(f.entry.Path); {
	case err != nil:
		f.skip(err)
	case kind == unix.DT_DIR:
		isFolder = l.enter(&f, name, &st)
	default:
		l.key = append(append(l.key[:0], d.prefix...), name...)
		f.known = l.known.Find(l.key)
	}
	return isFolder, l.add(f)
}

// stat is lstat of what may be a folder. What is on a mount that is left out is not looked at.
func (l *lister) stat(d *openFolder, name string, st *fileStat) error {
	mount, err := l.files.mountAt(d.fd, name)
	if err == nil {
		err = l.files.mounts.checkMount(d.mount, mount)
	}
	if err != nil {
		return err
	}
	return l.files.statAt(d.fd, name, st)
}

// enter decides whether a folder is looked into.
func (l *lister) enter(f *found, name string, st *fileStat) bool {
	err := l.checkOwn(st)
	if err == nil && st.dev != f.in.dev {
		err = l.checkDevice(f.in, name, st.dev)
	}
	if err == nil {
		if err = l.files.accessAt(f.in.fd, name); !errors.Is(err, unix.EACCES) {
			err = nil // any other error opening it will say, too
		}
	}
	if err != nil {
		f.skip(err)
		return false
	}
	fromStat(&f.entry, st, l.owner)
	f.state = foundDone
	return true
}

// checkOwn says why a folder of xetfs itself is left out.
func (l *lister) checkOwn(st *fileStat) error {
	for _, own := range l.own {
		if own.dev == st.dev && own.inode == st.inode {
			return leftOut("is " + own.what + ", and is left out")
		}
	}
	return nil
}

// checkDevice says whether a folder on another device than the one above has files.
func (l *lister) checkDevice(d *openFolder, name string, dev uint64) error {
	fd, err := l.files.openAt(d.fd, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	return l.files.mounts.checkDevice(dev, func(fs *unix.Statfs_t) error { return l.files.statfs(fd, fs) })
}

// below lists what is below a folder in d.
func (l *lister) below(ctx context.Context, d *openFolder, name string) error {
	path := d.join(name)
	fd, err := l.open(ctx, d, name)
	if err != nil {
		return l.add(l.emptied(path, err))
	}
	sub := newOpenFolder(l.files, fd, d, name)
	defer sub.release()
	var st fileStat
	err = l.files.fstat(fd, &st)
	if err == nil { // another folder may be in its place by now
		err = cmp.Or(l.checkOwn(&st), l.files.mounts.checkMount(d.mount, st.mount))
	}
	if err != nil {
		return l.add(l.emptied(path, err))
	}
	sub.dev, sub.mount, sub.private = st.dev, st.mount, d.private || isPrivate(st.mode)
	return l.folder(ctx, sub)
}

// open opens a folder in d. The batches that hold other folders open go on meanwhile.
func (l *lister) open(ctx context.Context, d *openFolder, name string) (fd int, err error) {
	if l.files.full(l.depth) {
		if err := l.flush(); err != nil {
			return -1, err
		}
		if err := l.files.waitForRoom(ctx, l.depth); err != nil {
			return -1, err
		}
	}
	fd, err = l.files.openFolder(ctx, d.fd, name, unix.O_NOFOLLOW, noOthers)
	if !isNoDescriptor(err) {
		return fd, err
	}
	if err := l.flush(); err != nil {
		return -1, err
	}
	return l.files.openFolder(ctx, d.fd, name, unix.O_NOFOLLOW, func(folders, files int) bool {
		return folders > l.depth || files > 0
	})
}

// emptied is a folder that is in the tree already and cannot be read after all.
func (l *lister) emptied(path string, err error) found {
	return found{entry: page.Entry{Path: path}, state: foundSkipped, why: fmt.Errorf("%w; it is empty in the tree", err)}
}

// flush passes on the open batch.
func (l *lister) flush() error {
	b := l.batch
	l.batch = newFoundBatch()
	return l.out(b)
}

// add puts one thing into the open batch.
func (l *lister) add(f found) error {
	if l.batch.full() {
		if err := l.flush(); err != nil {
			return err
		}
	}
	l.batch.hold(f.in)
	l.batch.found = append(l.batch.found, f)
	return nil
}
