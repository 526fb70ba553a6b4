package dir

import (
	"context"
	"errors"
	iofs "io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/names"
)

// Sync implements origin.WriteStore. Values are durable before they get their names, and Sync
// makes the names durable. The first Sync, and the next one after SyncAll, include names of
// data that others put. Other writers may have been killed before their own Sync.
func (s *Store) Sync(ctx context.Context) error {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	start := clock()
	dirs, all, complete := s.takeDirty()
	for i, dir := range dirs {
		err := ctx.Err()
		if err == nil {
			var exists bool
			exists, err = s.syncNames(dir)
			complete = complete && exists
		}
		if err != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.all = s.all || all
			for _, dir := range dirs[i:] {
				s.dirty[dir] = true
			}
			return wrapSync(dir, err)
		}
	}
	if complete {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.synced = start
	}
	return nil
}

// allSynced returns the time before which all names of data became durable; zero: none are known to.
func (s *Store) allSynced() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.synced
}

// AddDurable adds folders of data whose names are durable in some state. Sync leaves them out while
// they have that state and no name of this Store.
func (s *Store) AddDurable(states origin.FolderStates) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.Copy(s.durable, states)
}

// SyncAll implements origin.AllSyncer.
func (s *Store) SyncAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = true
}

func wrapSync(dir string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return wrap(dir, err)
}

// takeDirty returns the directories to sync, and whether they should include all data folders and do.
func (s *Store) takeDirty() (dirs []string, all, complete bool) {
	s.mu.Lock()
	all, s.all = s.all, false
	s.mu.Unlock()
	var found map[string]unix.Stat_t
	if all {
		found, complete = s.dataFolders() // without the lock, for which each put waits
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for dir, info := range found {
		if state, ok := s.durable[dir]; !ok || !holdsObjects(dir) || !hasNames(state, info.Dev, info.Ino, info.Ctim.Nano()) {
			s.dirty[dir] = true
		}
	}
	dirs = slices.Sorted(maps.Keys(s.dirty))
	clear(s.dirty)
	return dirs, all, complete
}

// dataDir is the folder above the folders of shards and xorbs.
const dataDir = "tdata"

// holdsObjects reports whether a folder of data is one of shards or xorbs, which have the same depth.
func holdsObjects(dir string) bool { return strings.Count(dir, "/") > 1 }

// dataFolders returns all folders of shards and xorbs, and those above them. It reports whether it has
// found all.
func (s *Store) dataFolders() (found map[string]unix.Stat_t, complete bool) {
	found = map[string]unix.Stat_t{".": {}, dataDir: {}}
	w := walker{root: s.files.root, file: func(origin.Item) {}, skip: func(dir string, info *unix.Stat_t) bool {
		found[dir] = *info
		return holdsObjects(dir)
	}}
	// A folder that is missing or cannot be listed holds no object that a reader could find.
	err := w.walk(context.Background(), dataDir)
	return found, err == nil
}

// noteDirty records that the names of an object and of the folders above it may be new.
func (s *Store) noteDirty(k names.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for dir := path.Dir(string(k)); ; dir = path.Dir(dir) {
		s.dirty[dir] = true
		if dir == "." {
			return
		}
	}
}

// syncDir makes the names in a folder durable. An absent folder has no names.
func (s *Store) syncDir(dir string) error {
	_, err := s.syncNames(dir)
	return err
}

// syncNames is syncDir. It reports whether the folder exists.
func (s *Store) syncNames(dir string) (exists bool, err error) {
	f, err := s.files.root.Open(dir)
	if errors.Is(err, iofs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, s.fsync(f)
}

// syncFolder syncs and closes a folder. Some file systems do not support it, nor need it.
func syncFolder(f *os.File) error {
	err := f.Sync()
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) {
		err = nil
	}
	return errors.Join(err, f.Close())
}
