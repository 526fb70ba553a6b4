package dir

import (
	"container/list"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/nowait"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
)

// maxOpen is the maximum number of files that stay open for later reads.
const maxOpen = 256

// openFiles caches open files below one root, the last read first. It opens no file outside the
// root, even through links.
type openFiles struct {
	root *os.Root

	mu     sync.Mutex
	byPath map[string]*list.Element // guarded by mu
	byAge  list.List                // of *openFile, newest first; guarded by mu
	drops  int                      // so far; guarded by mu
}

// An openFile is closed when it is not in the list and has no reader.
type openFile struct {
	path string
	f    *os.File
	refs int // readers, and one for the list; guarded by openFiles.mu
}

func (o *openFiles) init(root *os.Root) {
	o.root, o.byPath = root, map[string]*list.Element{}
}

// readAt fills p from the file at path.
func (o *openFiles) readAt(path string, p []byte, off int64) error {
	f, err := o.acquire(path)
	if err != nil {
		return err
	}
	defer o.release(f)
	n, err := f.f.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%q: %w", path, codec.Corrupt("object", off+int64(n), "it ends here, %d more bytes are requested", len(p)-n))
	}
	return wrap(path, err)
}

// tryRead is readAt for bytes in memory of an open file. False means unknown.
func (o *openFiles) tryRead(path string, p []byte, off int64) bool {
	f, _ := o.get(path)
	if f == nil {
		return false
	}
	defer o.release(f)
	fd := int(f.f.Fd()) // the file stays open until it is released
	return nowait.ReadAt(fd, p, off) == len(p)
}

func (o *openFiles) acquire(path string) (*openFile, error) {
	f, drops := o.get(path)
	if f != nil {
		return f, nil
	}
	opened, err := openRegular(o.root, path)
	if err != nil {
		return nil, err
	}
	return o.add(path, opened, drops), nil
}

// get returns the open file at path, or nil, and the number of drops so far.
func (o *openFiles) get(path string) (f *openFile, drops int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	e, ok := o.byPath[path]
	if !ok {
		return nil, o.drops
	}
	o.byAge.MoveToFront(e)
	f = e.Value.(*openFile)
	f.refs++
	return f, o.drops
}

// add retains a file for the next read. It does not if another reader has retained the path
// first, or if a drop since the open may concern this file. Such a file is closed after use.
func (o *openFiles) add(path string, opened *os.File, drops int) *openFile {
	o.mu.Lock()
	defer o.mu.Unlock()
	f := &openFile{path: path, f: opened, refs: 1}
	if _, ok := o.byPath[path]; ok || drops != o.drops {
		return f
	}
	f.refs++
	o.byPath[path] = o.byAge.PushFront(f)
	for o.byAge.Len() > maxOpen {
		o.removeLocked(o.byAge.Back())
	}
	return f
}

func (o *openFiles) release(f *openFile) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.releaseLocked(f)
}

func (o *openFiles) releaseLocked(f *openFile) {
	if f.refs--; f.refs == 0 {
		f.f.Close() // an error cannot lose data of a read-only file
	}
}

func (o *openFiles) removeLocked(e *list.Element) {
	f := o.byAge.Remove(e).(*openFile)
	delete(o.byPath, f.path)
	o.releaseLocked(f)
}

// size returns the current length of the file at path. Publishers rely on it to know that an object
// exists, so an open file that another process has deleted does not count.
func (o *openFiles) size(path string) (int64, error) {
	if f, _ := o.get(path); f != nil {
		o.release(f)
		info, err := o.root.Lstat(path)
		if err != nil {
			o.drop(path)
			return 0, wrap(path, err)
		}
		o.dropOther(path, info)
	}
	f, err := o.acquire(path)
	if err != nil {
		return 0, err
	}
	defer o.release(f)
	info, err := f.f.Stat()
	if err != nil {
		return 0, wrap(path, err)
	}
	return info.Size(), nil
}

// drop closes the file at path. The next read opens the path again.
func (o *openFiles) drop(path string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.drops++
	if e, ok := o.byPath[path]; ok {
		o.removeLocked(e)
	}
}

// dropOther drops the file at path if it is not the file that info describes.
func (o *openFiles) dropOther(path string, info fs.FileInfo) {
	f, _ := o.get(path)
	if f == nil {
		return
	}
	defer o.release(f)
	if open, err := f.f.Stat(); err != nil || !os.SameFile(open, info) {
		o.drop(path)
	}
}

// close closes all files without readers. The last reader of each other file closes it.
func (o *openFiles) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.byAge.Len() > 0 {
		o.removeLocked(o.byAge.Back())
	}
}

// openRegular opens a regular file below root. A pipe or device in its place is refused
// without waiting for it.
func openRegular(root *os.Root, path string) (*os.File, error) {
	f, err := root.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, wrap(path, err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errNotRegular
	}
	if err != nil {
		f.Close()
		return nil, wrap(path, err)
	}
	return f, nil
}

// errNotRegular is the error of a folder, link, pipe or device in place of a file.
var errNotRegular = errors.New("not a regular file")

// wrap translates an error of the os package into a kind of origin. Only a missing file becomes
// ErrNotFound. The chain of that error has no fs.ErrNotExist, or a lost xorb would look like a
// missing file to the user.
func wrap(path string, err error) error {
	var inner *fs.PathError
	if errors.As(err, &inner) {
		err = inner.Err
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%q: %w", path, origin.ErrNotFound)
	}
	return &origin.LocalError{Path: path, Err: err}
}
