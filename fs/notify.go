package fs

import (
	"context"
	"iter"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/xetfs/xetfs/codec"
)

// A notifier invalidates or stores what the kernel caches. The kernel may wait for a lock whose holder
// waits for a reply. So no caller may hold a lock, and no message handler may call a notifier, except
// for the pages of a directory (see ending).
type notifier interface {
	// EntryNotify invalidates a name in a directory, also an absent one.
	EntryNotify(dir uint64, name string) fuse.Status

	// InodeNotify invalidates attributes. With offset 0 it also invalidates pages or the
	// listing.
	InodeNotify(ino uint64, off, length int64) fuse.Status

	// InodeNotifyStoreCache stores pages.
	InodeNotifyStoreCache(ino uint64, off int64, data []byte) fuse.Status
}

// A cancelableNotifier returns ECANCELED once its context has ended.
type cancelableNotifier struct {
	ctx context.Context
	notifier
}

// EntryNotify implements notifier.
func (c cancelableNotifier) EntryNotify(dir uint64, name string) fuse.Status {
	if c.ctx.Err() != nil {
		return fuse.Status(syscall.ECANCELED)
	}
	return c.notifier.EntryNotify(dir, name)
}

// InodeNotify implements notifier.
func (c cancelableNotifier) InodeNotify(ino uint64, off, length int64) fuse.Status {
	if c.ctx.Err() != nil {
		return fuse.Status(syscall.ECANCELED)
	}
	return c.notifier.InodeNotify(ino, off, length)
}

// A difference is a name whose identity differs between two versions of a volume.
type difference struct {
	path     string
	old, new identity // zero: absent
}

// An invalidation invalidates the differences of a volume.
type invalidation struct {
	f      *filesystem
	kernel notifier
	vol    *volume

	dir   string // of the last difference
	ino   uint64 // of dir
	known bool   // dir has a node
	first bool   // before the first difference
}

// invalidate invalidates differences as far as the kernel has nodes. A lookup in progress holds
// a lock on its directory, and the kernel waits for that lock. So no old reply follows.
func (f *filesystem) invalidate(ctx context.Context, v *volume, differences iter.Seq2[difference, error]) error {
	n := invalidation{f: f, kernel: cancelableNotifier{ctx, f.kernel}, vol: v, first: true}
	for d, err := range differences {
		if err == nil {
			err = ctx.Err() // the differences may need no notification for long
		}
		if err == nil {
			err = n.apply(d)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (n *invalidation) apply(d difference) error {
	if d.old == d.new {
		return n.attributes(d.new)
	}
	dir := parent(d.path)
	isNew := n.first || dir != n.dir
	if isNew {
		n.dir, n.first = dir, false
		n.ino, n.known = n.f.nodes.find(n.vol.dirID(dir))
	}
	name, _ := base(n.dir, d.path)
	if !isLegalName(name) {
		name = noName
	}
	switch {
	case !n.known:
		return nil
	case isNew:
		return dropListing(n.kernel, n.ino, name)
	}
	return failedNotify(n.kernel.EntryNotify(n.ino, name))
}

// attributes invalidates an entry with another mode, owner or time.
func (n *invalidation) attributes(id identity) error {
	ino, ok := n.f.nodes.find(id)
	if !ok {
		return nil
	}
	return failedNotify(n.kernel.InodeNotify(ino, -1, 0))
}

// noName is the name of no entry.
const noName = "/"

// dropListing invalidates a name in a directory, and then the listing of the directory. The kernel
// first waits for the listings in progress. A reply of the old version that the kernel has not
// received yet would otherwise become its listing of the new one.
func dropListing(kernel notifier, dir uint64, name string) error {
	if err := failedNotify(kernel.EntryNotify(dir, name)); err != nil {
		return err
	}
	return failedNotify(kernel.InodeNotify(dir, 0, 0))
}

// invalidateAll invalidates all nodes of a volume. Absent names expire after a minute.
func (f *filesystem) invalidateAll(ctx context.Context, v *volume) error {
	kernel := cancelableNotifier{ctx, f.kernel}
	known := f.nodes.inVolume(v)
	for ino, n := range known {
		var err error
		if n.path == "" || n.matches(ino, v.dirID(n.path)) {
			err = dropListing(kernel, ino, noName)
		}
		dir, ok := f.nodes.find(v.dirID(parent(n.path)))
		if name, _ := base(parent(n.path), n.path); err == nil && ok && n.path != "" {
			err = failedNotify(kernel.EntryNotify(dir, name))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// dropPages makes the kernel drop its pages of a file that was found corrupt, in all inodes that
// are open. The others lose their pages at the next open. It does not block.
func (f *filesystem) dropPages(id codec.FileID) {
	inodes := map[uint64]bool{}
	for _, h := range f.files.all() {
		if h.id == id {
			inodes[h.ino] = true
		}
	}
	for ino := range inodes {
		f.dropInodePages(ino)
	}
}

// dropInodePages makes the kernel drop its pages of an inode, for the handler of a message. It does not
// block: the kernel waits for reads in progress.
func (f *filesystem) dropInodePages(ino uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.unmounted {
		f.background.Go(func() { f.kernel.InodeNotify(ino, 0, 0) })
	}
}

// failedNotify returns an error of the connection. An unknown name or inode is no error.
func failedNotify(s fuse.Status) error {
	switch syscall.Errno(s) {
	case 0, syscall.ENOENT, syscall.ENOTDIR, syscall.ENOTEMPTY, syscall.EBUSY:
		return nil
	}
	return syscall.Errno(s)
}
