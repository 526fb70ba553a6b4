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
	start := time.Now()
	dirs, all, err := s.takeDirty(s.known())
	if err != nil {
		return err
	}
	for i, dir := range dirs {
		err := ctx.Err()
		if err == nil {
			err = s.syncDir(dir)
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
	if all {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.synced = start
	}
	return nil
}

// SyncAll makes the next Sync include the names of data that others put. A caller that relies
// on such data calls it first.
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

// takeDirty returns the directories to sync, and whether they include all data folders that are not
// known.
func (s *Store) takeDirty(known *knownFolders) (dirs []string, all bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all {
		if err := s.noteFoldersLocked(known); err != nil {
			return nil, false, err
		}
	}
	all, s.all = s.all, false
	dirs = slices.Sorted(maps.Keys(s.dirty))
	clear(s.dirty)
	return dirs, all, nil
}

// dataDir is the folder above the folders of shards and xorbs.
const dataDir = "tdata"

// noteFoldersLocked notes the folders of shards and xorbs, which have the same depth. It leaves out
// those that are known.
func (s *Store) noteFoldersLocked(known *knownFolders) error {
	s.dirty["."], s.dirty[dataDir] = true, true
	w := walker{
		root: s.files.root,
		skip: func(dir string, info *unix.Stat_t) bool {
			if _, durable := known.lines(dir, info); !durable {
				s.dirty[dir] = true
			}
			return strings.Count(dir, "/") >= 2
		},
		file: func(origin.Item) {},
	}
	return w.walk(context.Background(), dataDir)
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
	f, err := s.files.root.Open(dir)
	if errors.Is(err, iofs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return syncFolder(f)
}

// syncFolder syncs and closes a folder. Some file systems do not support it, nor need it.
func syncFolder(f *os.File) error {
	err := f.Sync()
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) {
		err = nil
	}
	return errors.Join(err, f.Close())
}
