package dir

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	iofs "io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/zeebo/blake3"
	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/names"
)

// A Store stores each object below one directory, in a file with the path of its key.
//
//	tdata/…  and the other layers   the objects
//	tmp/                            values that are being written
//	locks/                          lock files of keys that are replaced
//	xetfs.list, xetfs.parts/        the listing (package listing)
//
// A value is written to tmp, made durable, and linked or renamed to its final name. After a
// power loss, no name therefore refers to bytes that are not on disk. The umask decides the
// permissions of new files.
type Store struct {
	files openFiles
	hard  func(from, to string) error // links; tests make it fail
	fsync func(folder *os.File) error // also closes it; tests record the calls

	// syncing is held while names are made durable. A Sync that finds no dirty names therefore
	// returns only after a concurrent Sync has ended.
	syncing sync.Mutex

	mu    sync.Mutex
	dirty map[string]bool // directories with names that may not be durable yet; guarded by mu
	all   bool            // names put by other writers may not be durable either; guarded by mu

	synced  time.Time           // start of the last Sync of names that others put; guarded by mu
	durable origin.FolderStates // see AddDurable; guarded by mu
}

var (
	_ origin.WriteStore   = (*Store)(nil)
	_ origin.TryReader    = (*Store)(nil)
	_ origin.KeyRejecter  = (*Store)(nil)
	_ origin.StrayRemover = (*Store)(nil)
	_ origin.AllSyncer    = (*Store)(nil)
)

const (
	tmpDir  = "tmp"
	lockDir = "locks"
)

// Modes of new files and folders, less the umask. Objects are not written to again.
const (
	folderMode = 0o777
	objectMode = 0o444
	refMode    = 0o644
	lockMode   = 0o666
)

// Open returns the store in folder root. It creates the folder if it is absent.
func Open(root string) (*Store, error) {
	if err := create(root); err != nil {
		return nil, openErr(root, err)
	}
	r, err := os.OpenRoot(root)
	if err != nil {
		return nil, openErr(root, err)
	}
	return newStore(r), nil
}

func newStore(root *os.Root) *Store {
	s := &Store{dirty: map[string]bool{}, all: true, hard: root.Link, fsync: syncFolder, durable: origin.FolderStates{}}
	s.files.init(root)
	return s
}

// create creates a folder and its missing parents, and makes their names durable. Otherwise later
// objects could not be durable.
func create(root string) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	var missing []string
	for p := root; ; p = filepath.Dir(p) {
		if _, err := os.Stat(p); !errors.Is(err, iofs.ErrNotExist) || p == filepath.Dir(p) {
			break
		}
		missing = append(missing, p)
	}
	if err := os.MkdirAll(root, folderMode); err != nil {
		return err
	}
	for _, p := range missing {
		f, err := os.Open(filepath.Dir(p))
		if errors.Is(err, iofs.ErrPermission) {
			continue // a folder that may not be listed cannot be synced
		}
		if err == nil {
			err = syncFolder(f)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Local implements origin.CostReporter.
func (s *Store) Local() bool { return true }

// Close closes all files.
func (s *Store) Close() error {
	s.files.close()
	return s.files.root.Close()
}

// ReadAt implements origin.Store.
func (s *Store) ReadAt(ctx context.Context, k names.Key, p []byte, off int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.files.readAt(string(k), p, off)
}

// TryReadAt implements origin.TryReader.
func (s *Store) TryReadAt(k names.Key, p []byte, off int64) bool {
	return s.files.tryRead(string(k), p, off)
}

// RejectKey implements origin.KeyRejecter. It returns 0, because there is only one copy. The
// next read opens the file anew, because another process may have replaced it by a good one.
func (s *Store) RejectKey(k names.Key) int {
	s.files.drop(string(k))
	return 0
}

// Size implements origin.Store.
func (s *Store) Size(ctx context.Context, k names.Key) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	return s.files.size(string(k))
}

// Get implements origin.Store. It refuses an object that is larger than its kind may be
// (origin.MaxObject), by the size of the file.
func (s *Store) Get(ctx context.Context, k names.Key, seen origin.Tag) ([]byte, origin.Tag, error) {
	value, info, err := s.read(ctx, k)
	if err != nil {
		return nil, "", err
	}
	tag := tagOf(k, value, info)
	if tag == seen {
		return nil, tag, origin.ErrUnchanged
	}
	return value, tag, nil
}

// read is Get without the tag, whose hash takes time.
func (s *Store) read(ctx context.Context, k names.Key) ([]byte, os.FileInfo, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	f, err := openRegular(s.files.root, string(k))
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, wrap(string(k), err)
	}
	limit := origin.MaxObject(k)
	if info.Size() > limit {
		return nil, nil, origin.Long(k, limit)
	}
	value, err := origin.ReadBounded(f, info.Size()+1, limit+1) // one more byte to reach io.EOF
	switch {
	case err != nil:
		return nil, nil, wrap(string(k), err)
	case int64(len(value)) > limit:
		return nil, nil, origin.Long(k, limit)
	}
	return value, info, nil
}

// largeValue is the minimum size of an object under a content key whose tag does not depend on
// the value.
const largeValue = 1 << 20

// tagOf returns the tag of a value, which is its BLAKE3. The tag of a large object under a
// content key consists of inode, size and modification time. A hash for the tag would cost as
// much as all other hashing of a xorb, and is hardly ever read. Such an object is replaced only
// if it was damaged, and the new file has another tag.
func tagOf(k names.Key, value []byte, info os.FileInfo) origin.Tag {
	st, ok := info.Sys().(*syscall.Stat_t)
	if ok && byContent(k) && len(value) >= largeValue {
		return origin.Tag(fmt.Sprintf("file-%d-%d-%d", st.Ino, len(value), info.ModTime().UnixNano()))
	}
	sum := blake3.Sum256(value)
	return origin.Tag(hex.EncodeToString(sum[:16]))
}

// List implements origin.Store.
func (s *Store) List(ctx context.Context, prefix string, after names.Key) iter.Seq2[origin.Item, error] {
	return func(yield func(origin.Item, error) bool) {
		items, err := s.list(ctx, prefix, after)
		if err != nil {
			yield(origin.Item{}, err)
			return
		}
		// The walk sorts by folders, but "/" does not sort before all other bytes.
		byKey := func(a, b origin.Item) int { return strings.Compare(string(a.Key), string(b.Key)) }
		if !slices.IsSortedFunc(items, byKey) {
			slices.SortFunc(items, byKey)
		}
		for _, item := range items {
			if !yield(item, nil) {
				return
			}
		}
	}
}

// list returns the items of List in any order.
func (s *Store) list(ctx context.Context, prefix string, after names.Key) (items []origin.Item, err error) {
	w := walker{
		root: s.files.root,
		skip: func(dir string, _ *unix.Stat_t) bool { return dir == tmpDir || dir == lockDir || dir == partsDir },
		file: func(item origin.Item) {
			if strings.HasPrefix(string(item.Key), prefix) && item.Key > after {
				items = append(items, item)
			}
		},
	}
	return items, w.walk(ctx, path.Dir(prefix+"x"))
}

// Delete implements origin.WriteStore. The lock of a replaced key excludes PutIfMatch, whose rename
// would otherwise bring back an object that was deleted after the comparison.
func (s *Store) Delete(ctx context.Context, k names.Key) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if isReplaced(k) {
		unlock, err := s.lock(ctx, k)
		if err != nil {
			return wrapPut(k, err)
		}
		defer unlock()
	}
	s.files.drop(string(k))
	err := s.files.root.Remove(string(k))
	if errors.Is(err, iofs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return wrap(string(k), err)
	}
	if byContent(k) { // else each walk would open hundreds of empty folders
		_ = s.files.root.Remove(path.Dir(string(k))) // fails while it has names
	}
	s.noteDirty(k)
	return nil
}

// isReplaced reports whether k has another value from time to time. Other objects are replaced only if
// they are damaged. They are many, and a lock file for each deleted one would stay.
func isReplaced(k names.Key) bool {
	p, err := names.ParseKey(k)
	switch p.Kind {
	case names.RefKind, names.SnapshotKind, names.SettingsKind, names.SweepKind:
		return err == nil
	}
	return false
}

// RemoveStray implements origin.StrayRemover for the files in tmp. Files with other names than
// those of writers stay.
func (s *Store) RemoveStray(ctx context.Context, older time.Duration) (removed int, err error) {
	dir, err := iofs.ReadDir(s.files.root.FS(), tmpDir)
	if err != nil && !errors.Is(err, iofs.ErrNotExist) {
		return 0, wrap(tmpDir, err)
	}
	var first error
	for _, d := range dir {
		if err := ctx.Err(); err != nil {
			return removed, err
		}
		info, err := d.Info()
		if err != nil || !scratchName.MatchString(d.Name()) || time.Since(info.ModTime()) < older {
			continue
		}
		name := path.Join(tmpDir, d.Name())
		switch err := s.files.root.Remove(name); {
		case err == nil:
			removed++
		case !errors.Is(err, iofs.ErrNotExist) && first == nil: // else another process removed it
			first = wrap(name, err)
		}
	}
	return removed, first
}
