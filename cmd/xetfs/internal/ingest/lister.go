package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/statcache"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/page"
)

// A lister lists folders in the order of keys. The sorted entries of a folder precede the
// entries below each of its folders.
type lister struct {
	o     *Options
	files *descriptors       // shared with the readers
	known *statcache.File    // of the last publish
	out   func(*batch) error // receives the batches

	root     string // as the user calls it
	batch    *batch
	depth    int    // number of folders that lead to the current one
	key      []byte // scratch
	excluded int64
}

// versionsName is the name for old versions in a mounted tree.
const versionsName = ".versions"

// run lists all folders.
func (l *lister) run(ctx context.Context) error {
	l.batch = newBatch()
	for _, l.root = range l.o.Folders {
		if err := l.top(ctx); err != nil {
			return err
		}
	}
	return l.out(l.batch)
}

// top lists one of the folders.
func (l *lister) top(ctx context.Context) error {
	root, st, err := l.openRoot(ctx)
	var kind KindError
	switch {
	case err == nil:
	case l.o.FilesOnly && errors.Is(err, unix.ENOTDIR):
		return l.add(Entry{in: fileFolder(l.files, l.root)})
	case l.o.FilesOnly && errors.As(err, &kind):
		return l.add(Entry{state: stateSkipped, why: kind})
	default:
		return fmt.Errorf("%s: %w", l.root, err)
	}
	defer root.release()
	e := Entry{in: root, state: stateDone}
	fillStat(&e.Entry, st, l.o.Owner)
	if err := l.add(e); err != nil {
		return err
	}
	return l.folder(ctx, root)
}

// openRoot opens one of the folders.
func (l *lister) openRoot(ctx context.Context) (*openFolder, *stat, error) {
	fd, err := l.files.openFolder(ctx, unix.AT_FDCWD, l.root, 0, noOthers) // follows a link
	if err != nil {
		return nil, nil, err
	}
	root := newOpenFolder(l.files, fd, nil, "")
	st := new(stat)
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

// folder lists one folder and the folders below.
func (l *lister) folder(ctx context.Context, f *openFolder) error {
	l.depth++
	defer func() { l.depth-- }()
	below, err := l.entries(ctx, f)
	if err != nil {
		return err
	}
	for _, name := range below {
		if err := l.below(ctx, f, name); err != nil {
			return err
		}
	}
	return nil
}

// entries lists one folder, and returns the names of its folders.
func (l *lister) entries(ctx context.Context, f *openFolder) (below []string, err error) {
	list, err := readDirents(&l.files.syscalls, f.fd)
	if err != nil {
		if f.path == "" {
			return nil, fmt.Errorf("%s: %w", l.root, err)
		}
		return nil, l.add(unreadableDir(f.path, err))
	}
	for name, kind := range list.all {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		isFolder, err := l.entry(f, string(name), kind)
		if err != nil {
			return nil, err
		}
		if isFolder {
			below = append(below, string(name))
		}
	}
	return below, nil
}

// entry lists one entry. It reports whether the entry is a folder to descend into. It avoids
// system calls for a folder on another mount, because the server may be dead.
func (l *lister) entry(f *openFolder, name string, kind byte) (isFolder bool, err error) {
	excluded := func(kind byte) bool { return l.o.Ignore.Excludes(f.names, name, kind == unix.DT_DIR) }
	if kind != unix.DT_UNKNOWN && excluded(kind) {
		l.excluded++
		return false, nil
	}
	var st stat
	e := Entry{in: f, Entry: page.Entry{Path: f.join(name)}}
	if kind == unix.DT_UNKNOWN || kind == unix.DT_DIR {
		unknown := kind == unix.DT_UNKNOWN
		if err := l.stat(f, name, &st); err != nil {
			if unknown && (excluded(unix.DT_REG) || excluded(unix.DT_DIR)) {
				l.excluded++
				return false, nil
			}
			e.skip(err)
			return false, l.add(e)
		}
		kind = byte(st.kind() >> 12) // DT_DIR is S_IFDIR >> 12, and so on
		if unknown && excluded(kind) {
			l.excluded++
			return false, nil
		}
	}
	if !l.o.FilesOnly && f.path == "" && name == versionsName {
		return false, fmt.Errorf("%s/%s: old versions are found under this name; --exclude /%s leaves it out", l.root, name, versionsName)
	}
	switch err := page.CheckPath(e.Path); {
	case err != nil:
		e.skip(err)
	case kind == unix.DT_DIR:
		isFolder = l.enter(&e, name, &st)
	default:
		l.key = append(append(l.key[:0], f.prefix...), name...)
		e.known = l.known.Find(l.key)
	}
	return isFolder, l.add(e)
}

// stat is lstat of an entry that may be a folder. It sends no request to a mount that is left
// out.
func (l *lister) stat(f *openFolder, name string, st *stat) error {
	mount, err := l.files.mountAt(f.fd, name)
	if err == nil {
		err = l.files.mounts.checkMount(f.mount, mount)
	}
	if err != nil {
		return err
	}
	return l.files.statAt(f.fd, name, st)
}

// enter reports whether the lister descends into a folder.
func (l *lister) enter(e *Entry, name string, st *stat) bool {
	err := l.checkOwn(st)
	if err == nil && st.dev != e.in.dev {
		err = l.checkDevice(e.in, name, st.dev)
	}
	if err == nil {
		if err = l.files.accessAt(e.in.fd, name); !errors.Is(err, unix.EACCES) {
			err = nil // opening it returns the same error
		}
	}
	if err != nil {
		e.skip(err)
		return false
	}
	fillStat(&e.Entry, st, l.o.Owner)
	e.state = stateDone
	return true
}

// checkOwn returns an error for a folder of xetfs itself.
func (l *lister) checkOwn(st *stat) error {
	for _, own := range l.o.Own {
		if own.dev == st.dev && own.inode == st.inode {
			return leftOut("is " + own.What + ", and is left out")
		}
	}
	return nil
}

// checkDevice returns an error if a folder is on a device without real files.
func (l *lister) checkDevice(f *openFolder, name string, dev uint64) error {
	fd, err := l.files.openAt(f.fd, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	return l.files.mounts.checkDevice(dev, func(fs *unix.Statfs_t) error { return l.files.statfs(fd, fs) })
}

// below lists a folder in f.
func (l *lister) below(ctx context.Context, f *openFolder, name string) error {
	path := f.join(name)
	fd, err := l.open(ctx, f, name)
	if err != nil {
		return l.add(unreadableDir(path, err))
	}
	sub := newOpenFolder(l.files, fd, f, name)
	defer sub.release()
	var st stat
	err = l.files.fstat(fd, &st)
	if err == nil { // another folder may have replaced it
		err = cmp.Or(l.checkOwn(&st), l.files.mounts.checkMount(f.mount, st.mount))
	}
	if err != nil {
		return l.add(unreadableDir(path, err))
	}
	sub.dev, sub.mount, sub.private = st.dev, st.mount, f.private || isPrivate(st.mode)
	return l.folder(ctx, sub)
}

// open opens a folder in f. Batches that have other folders open continue meanwhile.
func (l *lister) open(ctx context.Context, f *openFolder, name string) (fd int, err error) {
	if l.files.full(l.depth) {
		if err := l.flush(); err != nil {
			return -1, err
		}
		if err := l.files.waitForRoom(ctx, l.depth); err != nil {
			return -1, err
		}
	}
	fd, err = l.files.openFolder(ctx, f.fd, name, unix.O_NOFOLLOW, noOthers)
	if !ui.IsNoDescriptor(err) {
		return fd, err
	}
	if err := l.flush(); err != nil {
		return -1, err
	}
	return l.files.openFolder(ctx, f.fd, name, unix.O_NOFOLLOW, func(folders, files int) bool {
		return folders > l.depth || files > 0
	})
}

// unreadableDir is the entry of a folder that is in the tree already but has no entries.
func unreadableDir(path string, err error) Entry {
	return Entry{Entry: page.Entry{Path: path}, state: stateSkipped, why: fmt.Errorf("%w; it is empty in the tree", err)}
}

// flush passes on the open batch.
func (l *lister) flush() error {
	b := l.batch
	l.batch = newBatch()
	return l.out(b)
}

// add adds an entry to the open batch.
func (l *lister) add(e Entry) error {
	if l.batch.full() {
		if err := l.flush(); err != nil {
			return err
		}
	}
	e.root = l.root
	l.batch.hold(e.in)
	l.batch.entries = append(l.batch.entries, e)
	return nil
}
