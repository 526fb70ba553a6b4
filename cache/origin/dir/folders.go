package dir

import (
	"context"
	"iter"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/listing"
	"github.com/xetfs/xetfs/codec/names"
)

// KeepListed makes ListData keep what it lists, in memory, for the next WriteListing. WriteListing
// then lists only the folders of shards and xorbs whose names have changed. KeepListed has no effect
// on a file system that may change a folder without a new time of change.
func (s *Store) KeepListed() {
	if recordsChanges(s) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.kept = map[string]listedFolder{}
	}
}

// recordsChanges reports whether each change of a name changes the time of its folder, by the clock
// of this host.
func recordsChanges(s *Store) bool {
	f, err := s.files.root.Open(".")
	if err != nil {
		return false
	}
	defer f.Close()
	var st unix.Statfs_t
	if unix.Fstatfs(int(f.Fd()), &st) != nil {
		return false
	}
	switch int64(st.Type) & 0xffffffff {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.TMPFS_MAGIC:
		return true
	}
	return false
}

// settleTime is above the resolution of the times of a file system. A folder that changed within
// it may change again without a new time.
var settleTime = 2 * time.Second // tests shorten it

// A folderState is equal in two listings of a folder only if the folder had the same names in both.
type folderState struct {
	device, inode uint64
	changed       int64 // in nanoseconds since 1970
}

func stateOf(info *unix.Stat_t) folderState {
	return folderState{info.Dev, info.Ino, info.Ctim.Nano()}
}

// A listedFolder has the objects that were found in a folder, as lines of a listing.
type listedFolder struct {
	state folderState
	lines []byte
}

// takeKept returns the folders that ListData has kept, once: sizes of files must not become old.
func (s *Store) takeKept() map[string]listedFolder {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.kept
	if kept != nil {
		s.kept = map[string]listedFolder{}
	}
	return kept
}

// keep keeps a folder that settled before it was listed.
func (s *Store) keep(dir string, f listedFolder, start time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept != nil && f.state.changed < start.Add(-settleTime).UnixNano() {
		s.kept[dir] = f
	}
}

// ListData implements origin.DataLister.
func (s *Store) ListData(ctx context.Context, prefix string) iter.Seq2[origin.Item, error] {
	s.mu.Lock()
	keeps := s.kept != nil
	s.mu.Unlock()
	if !keeps {
		return s.List(ctx, prefix, "")
	}
	return func(yield func(origin.Item, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stopped, start, listed := false, time.Now(), listing.Builder{}
		w := walker{
			root: s.files.root,
			file: func(item origin.Item) {
				addItem(&listed, item)
				if !stopped && !yield(item, nil) {
					stopped = true
					cancel()
				}
			},
			// Keys have one folder below their prefix. The time of a folder does not cover those in it.
			left: func(dir string, info *unix.Stat_t, hasFolders bool) {
				if !stopped && !hasFolders {
					s.keep(dir, listedFolder{stateOf(info), listed.Lines()}, start)
				}
				listed = listing.Builder{}
			},
		}
		if err := w.walk(ctx, path.Clean(prefix)); err != nil && !stopped {
			yield(origin.Item{}, err)
		}
	}
}

// addItem adds an item to a listing, if it has a known key.
func addItem(listed *listing.Builder, item origin.Item) {
	if _, err := names.ParseKey(item.Key); err == nil {
		listed.Add(listing.Object{Key: item.Key, Size: item.Size, Modified: item.Modified})
	}
}

// encodeListing returns the listing of a store in which all objects are at the paths of their keys.
func (s *Store) encodeListing(ctx context.Context) ([]byte, error) {
	known := s.takeKept()
	var listed listing.Builder
	w := walker{
		root: s.files.root,
		skip: func(dir string, info *unix.Stat_t) bool {
			f, ok := known[dir]
			if ok = ok && f.state == stateOf(info); ok {
				listed.AddLines(f.lines)
			}
			return ok
		},
		file: func(item origin.Item) { addItem(&listed, item) },
	}
	for _, prefix := range listing.Prefixes() {
		if prefix == names.ShardPrefix || prefix == names.XorbPrefix {
			if err := w.walk(ctx, path.Clean(prefix)); err != nil {
				return nil, err
			}
			continue
		}
		for o, err := range origin.ListPrefixes(ctx, s, []string{prefix}) {
			if err != nil {
				return nil, err
			}
			listed.Add(o)
		}
	}
	return listed.Encode(listing.Prefixes())
}
