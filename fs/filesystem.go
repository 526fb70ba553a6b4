package fs

import (
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/claims"
	"github.com/xetfs/xetfs/fs/fusemount"
	"github.com/xetfs/xetfs/fs/meter"
	"github.com/xetfs/xetfs/fs/sequence"
)

const (
	maxMetaLimit = 10 * time.Second // of messages except READ, and OPEN of a large file

	maxName = 255 // bytes
)

// A filesystem answers the messages of the kernel. The embedded default answers all others with
// ENOSYS. The kernel then does the work, often better: LSEEK (files have no holes), FSYNC,
// ACCESS, locks, STATX.
type filesystem struct {
	fuse.RawFileSystem

	root    *volume
	engine  engine
	reports *reporter
	owner   page.Owner
	limit   time.Duration  // of a READ
	reads   timeoutHistory // by file
	lookups timeoutHistory // by folder
	kernel  notifier       // set by Init

	nodes      *nodes
	dirs       handleTable[*dirHandle]
	listings   *listings // of a mount without handles of directories; nil: the kernel opens and closes directories
	dirHandles bool      // see Options.DirHandles
	files      handleTable[*fileHandle]
	shared     *openFiles // of a stateless mount; nil: the kernel opens and closes files

	passthrough *passthrough
	sequences   *sequence.Detector // nil: a local origin without pushes
	counters    counters
	messages    *meter.Meter    // counts all messages before they arrive here
	allStats    func(Stats) any // nil: see Options.Stats
	followErr   atomic.Value    // string, see Stats.FollowError

	stale      staleListings
	predictors statPredictors
	background sync.WaitGroup // readahead of listings, and notifications
	mu         sync.Mutex
	unmounted  bool // dropInodePages and dropLater may start no goroutine; guarded by mu
	claims     claims.Set
	panics     atomic.Int64
}

// String returns the name of the file system for go-fuse.
func (f *filesystem) String() string { return fusemount.Subtype }

// Init implements fuse.RawFileSystem.
func (f *filesystem) Init(s *fuse.Server) {
	f.kernel = s
	f.initDirs(s.KernelSettings().Flags64())
	if f.shared == nil {
		f.passthrough.init(s)
	}
}

// Forget implements fuse.RawFileSystem.
func (f *filesystem) Forget(ino, lookups uint64) {
	if !f.nodes.forget(ino, lookups) {
		return
	}
	f.stale.forget(ino)
	if f.shared != nil {
		f.shared.Forget(ino) // it does not wait: go-fuse may answer no other message meanwhile
	}
}

// OnUnmount implements fuse.RawFileSystem. After a forced unmount the kernel sends no RELEASE.
func (f *filesystem) OnUnmount() {
	f.mu.Lock()
	f.unmounted = true
	f.mu.Unlock()
	f.sequences.Close()
	for _, h := range f.files.removeAll() {
		f.closeFile(h)
	}
	if f.shared != nil {
		f.shared.Close()
	}
	for _, h := range f.dirs.removeAll() {
		h.close()
	}
	if f.listings != nil {
		f.listings.Close()
	}
	f.background.Wait()
	f.reports.close()
}

// newMetaRequest returns the request of a message that is not a READ.
func (f *filesystem) newMetaRequest(interrupted <-chan struct{}, thread uint32) *request {
	return newRequest(interrupted, thread, f.metaLimit())
}

// metaLimit returns the limit of messages except READ, and OPEN of a large file.
func (f *filesystem) metaLimit() time.Duration { return min(f.limit, maxMetaLimit) }

// entry returns the current entry of a node, and its version.
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

// failed translates an error. It logs an EIO.
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

// base is the inverse of join. It returns false for a path outside dir.
func base(dir, path string) (name string, ok bool) {
	if dir == "" {
		return path, true
	}
	if len(path) <= len(dir) || path[len(dir)] != '/' || path[:len(dir)] != dir {
		return "", false
	}
	return path[len(dir)+1:], true
}

// parent returns the directory of a path.
func parent(path string) string { return path[:max(0, strings.LastIndexByte(path, '/'))] }

// isLegalName reports whether the kernel accepts a name. One illegal name makes it refuse a
// whole listing.
func isLegalName(name string) bool {
	return name != "" && name != "." && name != ".." && len(name) <= maxName &&
		strings.IndexByte(name, '/') < 0 && strings.IndexByte(name, 0) < 0
}
