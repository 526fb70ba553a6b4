package dir

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"maps"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/listing"
	"github.com/xetfs/xetfs/codec/names"
)

// A FolderCache keeps a value of up to some 50 KB for later processes. A lost value costs time, and
// nothing is wrong.
type FolderCache interface {
	Load() ([]byte, error)
	Save(value []byte) error
}

// UseFolderCache makes WriteListing record the states of the folders of shards and xorbs. ListData,
// Sync and WriteListing of later processes then leave out the folders with unchanged names. It
// has no effect on file systems whose folders may change without a new time of change.
func (s *Store) UseFolderCache(c FolderCache) {
	if recordsChanges(s) {
		s.folderCache = c
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
	Inode   uint64 `json:"inode"`
	Changed int64  `json:"changed"` // in nanoseconds since 1970
}

func stateOf(info *unix.Stat_t) folderState { return folderState{info.Ino, info.Ctim.Nano()} }

// knownFolders are the folders of data whose names are those of a listing, and are durable.
type knownFolders struct {
	encoded []byte
	listing *listing.Listing       // decoded, without paths
	states  map[string]folderState // by path
}

// A folderRecord is the encoding of knownFolders.
type folderRecord struct {
	Listing string                 `json:"listing"` // its checksum
	Folders map[string]folderState `json:"folders"`
}

// lines returns the lines of the listing for a folder. False: its names may have changed.
func (k *knownFolders) lines(dir string, info *unix.Stat_t) (lines []byte, ok bool) {
	if k == nil {
		return nil, false
	}
	if state, ok := k.states[dir]; !ok || state != stateOf(info) {
		return nil, false
	}
	return k.listing.Lines(dir + "/")
}

// known returns the folders of the last WriteListing, or nil. The listing of the store must be the
// one of that time.
func (s *Store) known() *knownFolders {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.folderCache != nil && !s.foldersLoaded {
		s.foldersLoaded = true
		s.folders = s.loadFolders()
	}
	return s.folders
}

func (s *Store) loadFolders() *knownFolders {
	var r folderRecord
	b, err := s.folderCache.Load()
	if err != nil || json.Unmarshal(b, &r) != nil {
		return nil
	}
	b, _, err = s.read(context.Background(), listing.Key)
	if err != nil {
		return nil
	}
	l, err := listing.DecodeOwn(b, r.Listing)
	if err != nil || l.HasPaths() {
		return nil
	}
	return &knownFolders{b, l, r.Folders}
}

// ListData implements origin.DataLister.
func (s *Store) ListData(ctx context.Context, prefix string) iter.Seq2[origin.Item, error] {
	known := s.known()
	if known == nil {
		return s.List(ctx, prefix, "")
	}
	return func(yield func(origin.Item, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stopped := false
		give := func(item origin.Item) {
			if !stopped && !yield(item, nil) {
				stopped = true
				cancel()
			}
		}
		w := walker{
			root: s.files.root,
			skip: func(dir string, info *unix.Stat_t) bool {
				lines, ok := known.lines(dir, info)
				for o := range listing.Objects(lines) {
					give(origin.Item{Key: o.Key, Size: o.Size, Modified: o.Modified})
				}
				return ok
			},
			file: give,
		}
		if err := w.walk(ctx, path.Clean(prefix)); err != nil && !stopped {
			yield(origin.Item{}, err)
		}
	}
}

// A folderLister makes a listing of a store in which all objects are at the paths of their keys.
type folderLister struct {
	store  *Store
	known  *knownFolders
	listed listing.Builder
	states map[string]folderState // of the folders of data
}

// list returns the encoded listing.
func (l *folderLister) list(ctx context.Context) ([]byte, error) {
	if l.known != nil {
		l.listed.Grow(len(l.known.encoded) + 4096)
	}
	for _, prefix := range listing.Prefixes() {
		if err := l.add(ctx, prefix); err != nil {
			return nil, err
		}
	}
	return l.listed.Encode(listing.Prefixes())
}

// add adds the objects with a prefix.
func (l *folderLister) add(ctx context.Context, prefix string) error {
	if prefix != names.ShardPrefix && prefix != names.XorbPrefix {
		for o, err := range origin.ListPrefixes(ctx, l.store, []string{prefix}) {
			if err != nil {
				return err
			}
			l.listed.Add(o)
		}
		return nil
	}
	w := walker{
		root: l.store.files.root,
		skip: func(dir string, info *unix.Stat_t) bool {
			delete(l.states, path.Dir(dir)) // its time does not cover the folders in it
			l.states[dir] = stateOf(info)
			lines, ok := l.known.lines(dir, info)
			l.listed.AddLines(lines)
			return ok
		},
		file: func(item origin.Item) {
			if _, err := names.ParseKey(item.Key); err == nil {
				l.listed.Add(listing.Object{Key: item.Key, Size: item.Size, Modified: item.Modified})
			}
		},
	}
	return w.walk(ctx, path.Clean(prefix))
}

// saveFolders records the folders of a listing. Those that changed shortly before the last Sync of
// all names, or after it, are left out.
func (s *Store) saveFolders(encoded []byte, states map[string]folderState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	settled := s.synced.Add(-settleTime).UnixNano()
	maps.DeleteFunc(states, func(_ string, state folderState) bool { return state.Changed > settled })
	if s.folders != nil && bytes.Equal(s.folders.encoded, encoded) && maps.Equal(s.folders.states, states) {
		return
	}
	b, err := json.Marshal(folderRecord{listing.Checksum(encoded), states})
	if err == nil {
		_ = s.folderCache.Save(b) // without it, the next process lists all folders
	}
	s.folders, s.foldersLoaded = nil, false
}
