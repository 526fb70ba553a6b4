package fs

import (
	"errors"
	iofs "io/fs"
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/xetfs/xetfs/codec/page"
)

// Lookup implements fuse.RawFileSystem. That a name does not exist is an answer that
// the kernel may keep too.
func (f *filesystem) Lookup(interrupted <-chan struct{}, in *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	if len(name) > maxName {
		return fuse.Status(syscall.ENAMETOOLONG)
	}
	dir, ok := f.nodes.path(in.NodeId)
	if !ok {
		return fuse.Status(syscall.ESTALE)
	}
	req := f.soon(interrupted, in.Pid)
	defer req.end()
	path := join(dir, name)
	e, err := f.tree.Lookup(req, path)
	switch {
	case errors.Is(err, iofs.ErrNotExist):
		out.SetEntryTimeout(forever)
		return fuse.OK
	case err != nil:
		return f.failed("lookup", &page.Entry{Path: path}, 0, err)
	}
	f.tell(&e, identify(&e, f.oneInode), out)
	return fuse.OK
}

// A dirHandle is one open directory. The kernel says where in it to go on by an offset:
//
//	offset  entry before it
//	     1  .
//	     2  ..
//	   n+2  the n-th name of the tree, n ≥ 1
//
// The tree goes on behind a name. So the handle keeps where the last listing stopped,
// and a name every markEvery entries for those who seek.
type dirHandle struct {
	path string

	mu    sync.Mutex
	last  place    // guarded by mu
	marks []string // marks[i] is name number (i+1)*markEvery; guarded by mu
}

// A place is the number of a name in its directory, from 1, and the name.
type place struct {
	n    uint64
	name string
}

const markEvery = 1024

// OpenDir implements fuse.RawFileSystem. The kernel keeps the listing.
func (f *filesystem) OpenDir(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	path, ok := f.nodes.path(in.NodeId)
	if !ok {
		return fuse.Status(syscall.ESTALE)
	}
	out.Fh = f.dirs.add(&dirHandle{path: path})
	out.OpenFlags = fuse.FOPEN_CACHE_DIR | fuse.FOPEN_KEEP_CACHE
	return fuse.OK
}

// ReleaseDir implements fuse.RawFileSystem.
func (f *filesystem) ReleaseDir(in *fuse.ReleaseIn) { f.dirs.remove(in.Fh) }

// ReadDir implements fuse.RawFileSystem.
func (f *filesystem) ReadDir(interrupted <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return f.list(interrupted, in, func(d fuse.DirEntry, _ *page.Entry, _ identity) bool { return out.AddDirEntry(d) })
}

// ReadDirPlus implements fuse.RawFileSystem: a listing and a lookup of each name in it.
func (f *filesystem) ReadDirPlus(interrupted <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return f.list(interrupted, in, func(d fuse.DirEntry, e *page.Entry, id identity) bool {
		told := out.AddDirLookupEntry(d)
		if told == nil {
			return false
		}
		if e != nil {
			f.tell(e, id, told)
		}
		return true
	})
}

// list adds the entries behind in.Offset, until add says that there is no more room.
// The entries of "." and ".." are nil.
func (f *filesystem) list(interrupted <-chan struct{}, in *fuse.ReadIn, add func(fuse.DirEntry, *page.Entry, identity) bool) fuse.Status {
	h, ok := f.dirs.get(in.Fh)
	if !ok {
		return fuse.EBADF
	}
	off := in.Offset
	for ; off < 2; off++ {
		if !add(h.dots(off, in.NodeId), nil, identity{}) {
			return fuse.OK
		}
	}
	req := f.soon(interrupted, in.Pid)
	defer req.end()

	at := h.before(off - 2)
	skip, added := off-2-at.n, off > in.Offset
	defer func() { h.stopped(at) }()
	for e, err := range f.tree.List(req, h.path, at.name) {
		if err != nil && added {
			return fuse.OK // the next message gets it
		}
		if err != nil {
			return f.failed("list", &page.Entry{Path: h.path}, in.NodeId, err)
		}
		name := base(h.path, e.Path)
		next := place{at.n + 1, name}
		switch {
		case skip > 0:
			skip--
		case !legal(name):
			f.reports.rejected(h.path, name)
		default:
			id := identify(&e, f.oneInode)
			if !add(fuse.DirEntry{Name: name, Mode: typeBits(e.Type), Ino: id.ino, Off: next.n + 2}, &e, id) {
				return fuse.OK
			}
			added = true
		}
		at = next
		h.mark(at)
	}
	return fuse.OK
}

// dots returns the entry "." for offset 0 and ".." for offset 1.
func (h *dirHandle) dots(off, ino uint64) fuse.DirEntry {
	if off == 0 {
		return fuse.DirEntry{Name: ".", Mode: syscall.S_IFDIR, Ino: ino, Off: 1}
	}
	up := identify(&page.Entry{Path: parent(h.path), Type: page.Dir}, false)
	return fuse.DirEntry{Name: "..", Mode: syscall.S_IFDIR, Ino: up.ino, Off: 2}
}

// before returns the nearest place that is known, up to name number n.
func (h *dirHandle) before(n uint64) place {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.last.n == n {
		return h.last
	}
	i := min(n/markEvery, uint64(len(h.marks)))
	if i == 0 {
		return place{}
	}
	return place{i * markEvery, h.marks[i-1]}
}

func (h *dirHandle) stopped(at place) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = at
}

func (h *dirHandle) mark(at place) {
	if at.n%markEvery != 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if uint64(len(h.marks)) == at.n/markEvery-1 {
		h.marks = append(h.marks, at.name)
	}
}
