package dir

import (
	"context"
	"fmt"
	"iter"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/names"
)

var (
	_ origin.ChangeLister = (*Store)(nil)
	_ origin.ChangeLister = (*ReadOnly)(nil)
)

// recordsChanges returns the device of the store. False: a change of a name on it may not change the
// time of its folder, by the clock of this host.
func (s *Store) recordsChanges() (device uint64, ok bool) {
	f, err := s.files.root.Open(".")
	if err != nil {
		return 0, false
	}
	defer f.Close()
	var info unix.Stat_t
	var st unix.Statfs_t
	fd := int(f.Fd()) // the kernel's descriptors fit an int
	if unix.Fstatfs(fd, &st) != nil || unix.Fstat(fd, &info) != nil {
		return 0, false
	}
	switch int64(st.Type) & 0xffffffff {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.TMPFS_MAGIC:
		return info.Dev, true
	}
	return 0, false
}

// A folder with new names has no state yet. Another program may still write to a new file, so the
// state of its folder has the sizes of new files.
const (
	settleTime = 2 * time.Second  // above the resolution of the times of a file system
	copyTime   = 10 * time.Minute // between two writes to a file
	maxNew     = 64               // files in a state
)

var clock = time.Now // tests change it

// A folderScan lists the files of folders that have changed since an earlier scan.
type folderScan struct {
	s         *Store
	seen, now origin.FolderStates
	file      func(origin.Item)
	stopped   bool             // the rest of the current folder is ignored
	same      func(dir string) // is called in place of file for an unchanged folder

	start    time.Time // changes before it are listed; zero: no folder has a state
	prefix   string    // that is walked, without a slash
	device   uint64
	records  bool      // whether states can be relied on
	newFiles []newFile // in the current folder
}

// walk lists one of the prefixes of shards and xorbs.
func (f *folderScan) walk(ctx context.Context, prefix string) error {
	f.prefix = path.Clean(prefix)
	f.device, f.records = f.s.recordsChanges()
	f.records = f.records && !f.start.IsZero()
	w := walker{root: f.s.files.root, skip: f.skip, left: f.left, file: func(item origin.Item) {
		if n := (newFile{path.Base(string(item.Key)), item.Size, item.Modified.UnixNano()}); f.isNew(n) {
			f.newFiles = append(f.newFiles, n)
		}
		f.file(item)
	}}
	return w.walk(ctx, f.prefix)
}

// A newFile is a file that another program may still write to.
type newFile struct {
	name     string
	size     int64
	modified int64 // in nanoseconds since 1970
}

// isNew reports whether a file with the name of an object is new.
func (f *folderScan) isNew(n newFile) bool {
	return n.modified >= f.start.Add(-copyTime).UnixNano() && dataName.MatchString(n.name)
}

var dataName = regexp.MustCompile(`^[0-9a-f]{64}\.(?:xorb|shard)$`)

// namesState returns the first line of the state of a folder. A change of its names changes the time.
func namesState(device, inode uint64, changed int64) string {
	b := strconv.AppendUint(make([]byte, 0, 64), device, 10)
	b = strconv.AppendUint(append(b, ' '), inode, 10)
	return string(append(strconv.AppendInt(append(b, ' '), changed, 10), '\n'))
}

// hasNames reports whether a folder with a state has the names that it had.
func hasNames(state string, device, inode uint64, changed int64) bool {
	return strings.HasPrefix(state, namesState(device, inode, changed))
}

// skip leaves out a folder that is unchanged.
func (f *folderScan) skip(dir string, info *unix.Stat_t) bool {
	f.newFiles = nil
	state, ok := f.seen[dir]
	if !f.records || !ok || !hasNames(state, info.Dev, info.Ino, info.Ctim.Nano()) {
		return false
	}
	names, files, _ := strings.Cut(state, "\n")
	now := names + "\n"
	for line := range strings.Lines(files) {
		var n newFile
		if _, err := fmt.Sscanf(line, "%s %d %d\n", &n.name, &n.size, &n.modified); err != nil {
			return false
		}
		file, err := f.s.files.root.Lstat(path.Join(dir, n.name))
		if err != nil || file.Size() != n.size || file.ModTime().UnixNano() != n.modified {
			return false
		}
		if f.isNew(n) {
			now += line
		}
	}
	f.now[dir] = now
	f.same(dir)
	return true
}

// left adds the state of a folder. Keys have one folder below their prefix, and the time of a folder
// does not cover those in it.
func (f *folderScan) left(dir string, info *unix.Stat_t, hasFolders bool) {
	defer func() { f.newFiles = nil }()
	settled := info.Ctim.Nano() < f.start.Add(-settleTime).UnixNano() && len(f.newFiles) <= maxNew
	if !f.records || info.Dev != f.device || !settled || hasFolders || f.stopped || path.Dir(dir) != f.prefix {
		return
	}
	state := namesState(info.Dev, info.Ino, info.Ctim.Nano())
	for _, n := range f.newFiles {
		state += fmt.Sprintf("%s %d %d\n", n.name, n.size, n.modified)
	}
	f.now[dir] = state
}

// ListChanged implements origin.ChangeLister.
func (s *Store) ListChanged(ctx context.Context, prefix string, seen, now origin.FolderStates, same func(folder string)) iter.Seq2[origin.Item, error] {
	return func(yield func(origin.Item, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		f := folderScan{s: s, seen: seen, now: now, same: same, start: clock()}
		f.file = func(item origin.Item) {
			if !f.stopped && !yield(item, nil) {
				f.stopped = true
				cancel()
			}
		}
		if err := f.walk(ctx, prefix); err != nil && !f.stopped {
			yield(origin.Item{}, err)
		}
	}
}

// ListChanged implements origin.ChangeLister.
func (s *ReadOnly) ListChanged(ctx context.Context, prefix string, seen, now origin.FolderStates, same func(folder string)) iter.Seq2[origin.Item, error] {
	return s.current().ListChanged(ctx, prefix, seen, now, same)
}

// isData reports whether a prefix is that of shards or xorbs.
func isData(prefix string) bool { return prefix == names.ShardPrefix || prefix == names.XorbPrefix }
