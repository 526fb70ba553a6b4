package fs

import (
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
)

const (
	forever = 365 * 24 * time.Hour // how long the kernel may keep what never changes
	quick   = 10 * time.Second     // within which everything but a read ends

	maxName = 255 // bytes
)

// A filesystem answers the messages of the kernel. What it does not answer goes to the
// embedded default: ENOSYS, after which the kernel does by itself what it can, and
// often better. That is so for LSEEK (there are no holes), FSYNC, ACCESS, locks and
// STATX.
type filesystem struct {
	fuse.RawFileSystem

	tree     catalog.Tree
	oneInode bool // see identify
	engine   engine
	reports  *reporter
	owner    page.Owner
	limit    time.Duration // of a read

	nodes  *nodes
	dirs   table[*dirHandle]
	files  table[*fileHandle]
	panics atomic.Int64
}

// String names the file system to go-fuse.
func (f *filesystem) String() string { return fsType }

// Forget implements fuse.RawFileSystem.
func (f *filesystem) Forget(ino, lookups uint64) { f.nodes.forget(ino, lookups) }

// OnUnmount implements fuse.RawFileSystem. The kernel does not say that files are
// closed when their mount is torn away.
func (f *filesystem) OnUnmount() {
	for _, h := range f.files.removeAll() {
		h.stream.Close()
	}
	f.dirs.removeAll()
	f.reports.close()
}

// soon is the context of a message that is not a read.
func (f *filesystem) soon(interrupted <-chan struct{}, thread uint32) *request {
	return newRequest(interrupted, thread, min(f.limit, quick))
}

// entry returns what the tree says of a node.
func (f *filesystem) entry(req *request, ino uint64) (page.Entry, fuse.Status) {
	path, ok := f.nodes.path(ino)
	if !ok {
		return page.Entry{}, fuse.Status(syscall.ESTALE)
	}
	e, err := f.tree.Lookup(req, path)
	if err != nil {
		return page.Entry{}, f.failed("lookup", &page.Entry{Path: path}, ino, err)
	}
	return e, fuse.OK
}

// failed translates an error, and reports it if it becomes an EIO.
func (f *filesystem) failed(doing string, e *page.Entry, ino uint64, err error) fuse.Status {
	return f.reports.failed(failure{doing: doing, path: e.Path, file: e.ID, ino: ino, err: err}, errno(err))
}

// join returns the path of a name in a directory.
func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

// base is the inverse of join.
func base(dir, path string) string {
	if dir == "" {
		return path
	}
	return path[min(len(dir)+1, len(path)):]
}

// parent returns the path of the directory that a path is in.
func parent(path string) string { return path[:max(0, strings.LastIndexByte(path, '/'))] }

// legal says whether a name can be shown. The kernel refuses a whole listing if one
// name in it is not.
func legal(name string) bool {
	return name != "" && name != "." && name != ".." && len(name) <= maxName &&
		!strings.ContainsAny(name, "/\x00")
}
