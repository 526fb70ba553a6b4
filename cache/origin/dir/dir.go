package dir

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"iter"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zeebo/blake3"
	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/names"
)

// A Keyed store keeps each object in the file that its key names, below one directory.
//
//	tdata/…  and the other layers   the objects
//	tmp/                            values that are being written
//	locks/                          lock files of keys that are replaced
//
// A value is written to tmp, made durable, and linked or renamed to its final name. So
// a name never stands for bytes that are not on disk, whenever the power fails.
type Keyed struct {
	files openFiles

	// syncing is held while names are made durable, so that nobody who finds nothing
	// to do returns before another has done it.
	syncing sync.Mutex
	synced  bool // once; guarded by syncing

	mu    sync.Mutex
	dirty map[string]bool // directories with names that may not be durable yet; guarded by mu
}

var _ origin.WriteStore = (*Keyed)(nil)

const (
	tmpDir  = "tmp"
	lockDir = "locks"
)

// Open uses the objects below root, which is created if need be.
func Open(root string) (*Keyed, error) {
	if err := os.MkdirAll(root, 0o755); err != nil {
		return nil, openErr(root, err)
	}
	r, err := os.OpenRoot(root)
	if err != nil {
		return nil, openErr(root, err)
	}
	s := &Keyed{dirty: map[string]bool{}}
	s.files.init(r)
	return s, nil
}

// Near says that reading costs no more than reading a local file.
func (s *Keyed) Near() bool { return true }

// Close closes all files.
func (s *Keyed) Close() error {
	s.files.close()
	return s.files.root.Close()
}

// ReadAt implements origin.Store.
func (s *Keyed) ReadAt(ctx context.Context, k names.Key, p []byte, off int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.files.readAt(string(k), p, off)
}

// Size implements origin.Store.
func (s *Keyed) Size(ctx context.Context, k names.Key) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	return s.files.size(string(k))
}

// Get implements origin.Store. The tag is the BLAKE3 of the value.
func (s *Keyed) Get(ctx context.Context, k names.Key, seen origin.Tag) ([]byte, origin.Tag, error) {
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	f, err := openRegular(s.files.root, string(k))
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	value, err := io.ReadAll(f)
	if err != nil {
		return nil, "", wrap(string(k), err)
	}
	tag := tagOf(value)
	if tag == seen {
		return nil, tag, origin.ErrUnchanged
	}
	return value, tag, nil
}

func tagOf(value []byte) origin.Tag {
	sum := blake3.Sum256(value)
	return origin.Tag(hex.EncodeToString(sum[:16]))
}

// List implements origin.Store.
func (s *Keyed) List(ctx context.Context, prefix string, after names.Key) iter.Seq2[origin.Item, error] {
	return func(yield func(origin.Item, error) bool) {
		dir := path.Dir(prefix + "x")
		var items []origin.Item
		err := iofs.WalkDir(s.files.root.FS(), dir, func(p string, d iofs.DirEntry, err error) error {
			switch {
			case errors.Is(err, iofs.ErrNotExist):
				return nil
			case err != nil:
				return wrap(p, err)
			case d.IsDir() && (p == tmpDir || p == lockDir):
				return iofs.SkipDir
			case !d.Type().IsRegular() || !strings.HasPrefix(p, prefix) || p <= string(after):
				return ctx.Err()
			}
			if info, err := d.Info(); err == nil {
				items = append(items, origin.Item{Key: names.Key(p), Size: info.Size(), Modified: info.ModTime()})
			}
			return ctx.Err()
		})
		if err != nil {
			yield(origin.Item{}, err)
			return
		}
		// The walk goes by folders, and "/" does not sort before all other bytes.
		slices.SortFunc(items, func(a, b origin.Item) int { return strings.Compare(string(a.Key), string(b.Key)) })
		for _, item := range items {
			if !yield(item, nil) {
				return
			}
		}
	}
}

// PutIfAbsent implements origin.WriteStore. An object of another length under a key
// that its content gives is damaged, and is replaced.
func (s *Keyed) PutIfAbsent(ctx context.Context, k names.Key, value []byte) (origin.Tag, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if s.has(k, len(value)) {
		return "", exists(k)
	}
	tmp, err := s.write(value, 0o444)
	if err != nil {
		return "", wrap(string(k), err)
	}
	defer s.files.root.Remove(tmp) //nolint:errcheck // it is gone where it was renamed
	if err := s.link(tmp, k, len(value)); err != nil {
		return "", err
	}
	return tagOf(value), nil
}

// has says whether there is an object of some length. Its name is made durable by the
// next Sync, whoever put it.
func (s *Keyed) has(k names.Key, size int) bool {
	info, err := s.files.root.Lstat(string(k))
	if err != nil || byContent(k) && (!info.Mode().IsRegular() || info.Size() != int64(size)) {
		return false
	}
	s.noteDirty(k)
	return true
}

// byContent says whether a key can stand for one value only.
func byContent(k names.Key) bool {
	return strings.HasPrefix(string(k), dataDir+"/") || strings.HasPrefix(string(k), "tindex/")
}

func exists(k names.Key) error { return fmt.Errorf("%s: %w", k, origin.ErrExists) }

// link gives a file its final name.
func (s *Keyed) link(tmp string, k names.Key, size int) error {
	root := s.files.root
	if err := root.MkdirAll(path.Dir(string(k)), 0o755); err != nil {
		return wrap(string(k), err)
	}
	err := root.Link(tmp, string(k))
	if errors.Is(err, iofs.ErrExist) {
		if s.has(k, size) {
			return exists(k)
		}
		err = root.Rename(tmp, string(k))
		s.files.drop(string(k))
	}
	if err != nil {
		return wrap(string(k), err)
	}
	s.noteDirty(k)
	return nil
}

// PutIfMatch implements origin.WriteStore. What it wrote is durable when it returns.
func (s *Keyed) PutIfMatch(ctx context.Context, k names.Key, value []byte, tag origin.Tag) (origin.Tag, error) {
	unlock, err := s.lock(k)
	if err != nil {
		return "", wrap(string(k), err)
	}
	defer unlock()
	_, now, err := s.Get(ctx, k, "")
	if err != nil && !errors.Is(err, origin.ErrNotFound) {
		return "", err
	}
	if err != nil || now != tag {
		return "", fmt.Errorf("%s: %w", k, origin.ErrConflict)
	}
	tmp, err := s.write(value, 0o644)
	if err != nil {
		return "", wrap(string(k), err)
	}
	if err := s.files.root.Rename(tmp, string(k)); err != nil {
		return "", wrap(string(k), errors.Join(err, s.files.root.Remove(tmp)))
	}
	s.files.drop(string(k))
	if err := s.syncDir(path.Dir(string(k))); err != nil {
		return "", fmt.Errorf("%s: %w: %v", k, origin.ErrUnknown, err)
	}
	return tagOf(value), nil
}

// lock keeps other writers away from one key, in this process and others. Lock files
// are never removed: whoever waits for one would wait for a file without a name.
func (s *Keyed) lock(k names.Key) (unlock func(), err error) {
	if err := s.files.root.MkdirAll(lockDir, 0o755); err != nil {
		return nil, err
	}
	sum := blake3.Sum256([]byte(k))
	f, err := s.files.root.OpenFile(path.Join(lockDir, hex.EncodeToString(sum[:16])), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX) // the kernel's descriptors fit an int
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { f.Close() }, nil //nolint:errcheck // closing unlocks; nothing was written
}

// Delete implements origin.WriteStore.
func (s *Keyed) Delete(ctx context.Context, k names.Key) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.files.drop(string(k))
	err := s.files.root.Remove(string(k))
	if errors.Is(err, iofs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return wrap(string(k), err)
	}
	s.noteDirty(k)
	return nil
}

// Sync implements origin.WriteStore. Values are durable when they get their names; the
// names are made durable here, the first time also those that were there before: who
// put them may have been killed.
func (s *Keyed) Sync(ctx context.Context) error {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	dirs := s.takeDirty()
	for i, dir := range dirs {
		err := ctx.Err()
		if err == nil {
			err = s.syncDir(dir)
		}
		if err != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, dir := range dirs[i:] {
				s.dirty[dir] = true
			}
			return wrapSync(dir, err)
		}
	}
	s.synced = true
	return nil
}

func wrapSync(dir string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return wrap(dir, err)
}

// takeDirty returns the directories that are to be synced. It is called with syncing
// held.
func (s *Keyed) takeDirty() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.synced {
		s.noteFoldersLocked()
	}
	dirs := slices.Sorted(maps.Keys(s.dirty))
	clear(s.dirty)
	return dirs
}

// dataDir is where the folders begin that hold objects.
const dataDir = "tdata"

// noteFoldersLocked notes all folders of shards and xorbs. They have the same depth.
func (s *Keyed) noteFoldersLocked() {
	// What cannot be listed, or is not there, holds nothing that somebody would read.
	_ = iofs.WalkDir(s.files.root.FS(), dataDir, func(p string, d iofs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil
		}
		s.dirty[p] = true
		if strings.Count(p, "/") == 2 {
			return iofs.SkipDir
		}
		return nil
	})
}

// write puts a value into a new file in tmp and makes it durable.
func (s *Keyed) write(value []byte, mode os.FileMode) (tmp string, err error) {
	root := s.files.root
	if err := root.MkdirAll(tmpDir, 0o755); err != nil {
		return "", err
	}
	tmp = path.Join(tmpDir, rand.Text())
	f, err := root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return "", err
	}
	_, err = f.Write(value)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, root.Remove(tmp))
	}
	return tmp, nil
}

// noteDirty notes that the name of an object is new, and maybe those of the folders
// above it.
func (s *Keyed) noteDirty(k names.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for dir := path.Dir(string(k)); ; dir = path.Dir(dir) {
		s.dirty[dir] = true
		if dir == "." {
			return
		}
	}
}

func (s *Keyed) syncDir(dir string) error {
	f, err := s.files.root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// RemoveStray removes what writers that were killed left in tmp, if it is older than
// some time: younger files may belong to somebody who is writing now.
func (s *Keyed) RemoveStray(older time.Duration) error {
	dir, err := iofs.ReadDir(s.files.root.FS(), tmpDir)
	if err != nil && !errors.Is(err, iofs.ErrNotExist) {
		return wrap(tmpDir, err)
	}
	var first error
	for _, d := range dir {
		info, err := d.Info()
		if err != nil || time.Since(info.ModTime()) < older {
			continue
		}
		name := path.Join(tmpDir, d.Name())
		if err := s.files.root.Remove(name); err != nil && !errors.Is(err, iofs.ErrNotExist) && first == nil {
			first = wrap(name, err)
		}
	}
	return first
}
