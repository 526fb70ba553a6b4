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

	mu    sync.Mutex
	dirty map[string]bool // directories with new names that are not durable yet; guarded by mu
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
func (s *Keyed) ReadAt(_ context.Context, k names.Key, p []byte, off int64) error {
	return s.files.readAt(string(k), p, off)
}

// Size implements origin.Store.
func (s *Keyed) Size(_ context.Context, k names.Key) (int64, error) {
	return s.files.size(string(k))
}

// Get implements origin.Store. The tag is the BLAKE3 of the value.
func (s *Keyed) Get(_ context.Context, k names.Key, seen origin.Tag) ([]byte, origin.Tag, error) {
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

// PutIfAbsent implements origin.WriteStore. An object of another length under the key
// is damaged, and is replaced.
func (s *Keyed) PutIfAbsent(_ context.Context, k names.Key, value []byte) (origin.Tag, error) {
	root := s.files.root
	if info, err := root.Lstat(string(k)); err == nil && info.Size() == int64(len(value)) {
		return "", fmt.Errorf("%s: %w", k, origin.ErrExists)
	}
	tmp, err := s.write(value, 0o444)
	if err != nil {
		return "", wrap(string(k), err)
	}
	defer root.Remove(tmp) //nolint:errcheck // it is gone where it was renamed
	if err := s.makeParents(string(k)); err != nil {
		return "", wrap(string(k), err)
	}
	err = root.Link(tmp, string(k))
	if errors.Is(err, iofs.ErrExist) {
		info, statErr := root.Lstat(string(k))
		if statErr == nil && info.Size() == int64(len(value)) {
			return "", fmt.Errorf("%s: %w", k, origin.ErrExists)
		}
		err = root.Rename(tmp, string(k))
	}
	if err != nil {
		return "", wrap(string(k), err)
	}
	s.noteDirty(path.Dir(string(k)))
	return tagOf(value), nil
}

// PutIfMatch implements origin.WriteStore. What it wrote is durable when it returns.
func (s *Keyed) PutIfMatch(ctx context.Context, k names.Key, value []byte, tag origin.Tag) (origin.Tag, error) {
	unlock, err := s.lock(k)
	if err != nil {
		return "", wrap(string(k), err)
	}
	defer unlock()
	_, now, err := s.Get(ctx, k, "")
	if err != nil {
		return "", err
	}
	if now != tag {
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
func (s *Keyed) Delete(_ context.Context, k names.Key) error {
	s.files.drop(string(k))
	err := s.files.root.Remove(string(k))
	if errors.Is(err, iofs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return wrap(string(k), err)
	}
	s.noteDirty(path.Dir(string(k)))
	return nil
}

// Sync implements origin.WriteStore. Values are durable when they get their names; the
// names are made durable here.
func (s *Keyed) Sync(context.Context) error {
	s.mu.Lock()
	dirs := slices.Sorted(maps.Keys(s.dirty))
	clear(s.dirty)
	s.mu.Unlock()
	for _, dir := range dirs {
		if err := s.syncDir(dir); err != nil {
			s.noteDirty(dir)
			return fmt.Errorf("%s: %w: %v", dir, origin.ErrUnavailable, err)
		}
	}
	return nil
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

// makeParents creates the directories above a name. They are new names themselves.
func (s *Keyed) makeParents(name string) error {
	dir := path.Dir(name)
	if info, err := s.files.root.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	if err := s.files.root.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for ; dir != "."; dir = path.Dir(dir) {
		s.noteDirty(path.Dir(dir))
	}
	return nil
}

func (s *Keyed) noteDirty(dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dirty[dir] = true
}

func (s *Keyed) syncDir(dir string) error {
	f, err := s.files.root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
