package fs

import (
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/fusemount"
)

const (
	metaLimit = 10 * time.Second // within which everything but a read ends

	maxName = 255 // bytes
)

// A filesystem answers the messages of the kernel. What it does not answer goes to the
// embedded default: ENOSYS, after which the kernel does by itself what it can, and
// often better. That is so for LSEEK (there are no holes), FSYNC, ACCESS, locks and
// STATX.
type filesystem struct {
	fuse.RawFileSystem

	root     *volume
	engine   engine
	reports  *reporter
	owner    page.Owner
	limit    time.Duration  // of a read
	timeouts timeoutHistory // reads that took all of it
	kernel   notifier       // set by Init

	nodes  *nodes
	dirs   handleTable[*dirHandle]
	files  handleTable[*fileHandle]
	shared *openFiles // of a stateless mount; nil: files are opened and closed

	passthrough *passthrough
	counters    counters

	stale      staleListings
	predictors statPredictors
	background sync.WaitGroup // listings that are read ahead, and notifications
	claimBytes atomic.Int64   // bytes that claims hold
	panics     atomic.Int64
}

// String names the file system to go-fuse.
func (f *filesystem) String() string { return fusemount.Subtype }

// Init implements fuse.RawFileSystem.
func (f *filesystem) Init(s *fuse.Server) {
	f.kernel = s
	if f.shared == nil {
		f.passthrough.init(s)
	}
}

// Forget implements fuse.RawFileSystem.
func (f *filesystem) Forget(ino, lookups uint64) {
	if f.nodes.forget(ino, lookups) && f.shared != nil {
		f.shared.Forget(ino) // it does not wait: go-fuse may answer nothing else meanwhile
	}
}

// OnUnmount implements fuse.RawFileSystem. The kernel does not say that files are
// closed when their mount is torn away.
func (f *filesystem) OnUnmount() {
	for _, h := range f.files.removeAll() {
		f.closeFile(h)
	}
	if f.shared != nil {
		f.shared.Close()
	}
	for _, h := range f.dirs.removeAll() {
		h.close()
	}
	f.background.Wait()
	f.reports.close()
}

// newMetaRequest is the context of a message that is not a read.
func (f *filesystem) newMetaRequest(interrupted <-chan struct{}, thread uint32) *request {
	return newRequest(interrupted, thread, min(f.limit, metaLimit))
}

// entry returns what a node is, and of which version.
func (f *filesystem) entry(req *request, ino uint64) (page.Entry, *version, fuse.Status) {
	n, ok := f.nodes.get(ino)
	if !ok {
		return page.Entry{}, nil, fuse.Status(syscall.ESTALE)
	}
	e, from, err := n.entry(req, ino)
	if err != nil {
		return page.Entry{}, nil, f.failed("lookup", from, &page.Entry{Path: n.path}, ino, err)
	}
	return e, from, fuse.OK
}

// failed translates an error, and reports it if it becomes an EIO.
func (f *filesystem) failed(doing string, from *version, e *page.Entry, ino uint64, err error) fuse.Status {
	return f.reports.failed(failure{doing: doing, path: from.vol.displayPath(e.Path), file: e.ID, ino: ino, err: err}, errno(err))
}

// join returns the path of a name in a directory.
func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

// base is the inverse of join, and false if path is not that of something in dir.
func base(dir, path string) (name string, ok bool) {
	if dir == "" {
		return path, true
	}
	if len(path) <= len(dir) || path[len(dir)] != '/' || path[:len(dir)] != dir {
		return "", false
	}
	return path[len(dir)+1:], true
}

// parent returns the path of the directory that a path is in.
func parent(path string) string { return path[:max(0, strings.LastIndexByte(path, '/'))] }

// isLegalName says whether a name can be shown. The kernel refuses a whole listing if one
// name in it is not.
func isLegalName(name string) bool {
	return name != "" && name != "." && name != ".." && len(name) <= maxName &&
		strings.IndexByte(name, '/') < 0 && strings.IndexByte(name, 0) < 0
}
