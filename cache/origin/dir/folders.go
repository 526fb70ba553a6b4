package dir

import (
	"context"
	"fmt"
	"iter"
	"path"
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

// A folder may change without a new state if its names or its files changed shortly before it was
// listed.
const (
	settleTime = 2 * time.Second  // above the resolution of the times of a file system
	copyTime   = 10 * time.Minute // another program may write to a file for so long, after its last write
)

var clock = time.Now // tests change it

// A folderScan lists the files of folders that have changed since an earlier scan.
type folderScan struct {
	s         *Store
	seen, now origin.FolderStates
	file      func(origin.Item)
	stopped   bool             // the rest of the current folder is ignored
	same      func(dir string) // is called in place of file for an unchanged folder; nil: no call

	start    time.Time // changes before it are listed
	prefix   string    // that is walked, without a slash
	device   uint64
	records  bool      // whether states can be relied on
	modified time.Time // of the newest file in the current folder
}

// walk lists one of the prefixes of shards and xorbs.
func (f *folderScan) walk(ctx context.Context, prefix string) error {
	f.prefix = path.Clean(prefix)
	f.device, f.records = f.s.recordsChanges()
	w := walker{root: f.s.files.root, skip: f.skip, left: f.left, file: func(item origin.Item) {
		if item.Modified.After(f.modified) {
			f.modified = item.Modified
		}
		f.file(item)
	}}
	return w.walk(ctx, f.prefix)
}

// stateOf returns the state of a folder. A change of its names changes the time.
func stateOf(device, inode uint64, changed int64) string {
	return fmt.Sprintf("%d %d %d", device, inode, changed)
}

func (f *folderScan) skip(dir string, info *unix.Stat_t) bool {
	f.modified = time.Time{}
	state := stateOf(info.Dev, info.Ino, info.Ctim.Nano())
	if !f.records || f.seen[dir] != state {
		return false
	}
	f.now[dir] = state
	if f.same != nil {
		f.same(dir)
	}
	return true
}

// left adds the state of a folder that has settled. Keys have one folder below their prefix, and the
// time of a folder does not cover those in it.
func (f *folderScan) left(dir string, info *unix.Stat_t, hasFolders bool) {
	settled := info.Ctim.Nano() < f.start.Add(-settleTime).UnixNano() && f.modified.Before(f.start.Add(-copyTime))
	if f.records && info.Dev == f.device && settled && !hasFolders && !f.stopped && path.Dir(dir) == f.prefix {
		f.now[dir] = stateOf(info.Dev, info.Ino, info.Ctim.Nano())
	}
	f.modified = time.Time{}
}

// ListChanged implements origin.ChangeLister.
func (s *Store) ListChanged(ctx context.Context, prefix string, seen, now origin.FolderStates) iter.Seq2[origin.Item, error] {
	return func(yield func(origin.Item, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		f := folderScan{s: s, seen: seen, now: now, start: clock()}
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
func (s *ReadOnly) ListChanged(ctx context.Context, prefix string, seen, now origin.FolderStates) iter.Seq2[origin.Item, error] {
	return s.current().ListChanged(ctx, prefix, seen, now)
}

// isData reports whether a prefix is that of shards or xorbs.
func isData(prefix string) bool { return prefix == names.ShardPrefix || prefix == names.XorbPrefix }
