package fs

import (
	"context"
	"iter"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// A notifier tells the kernel to forget what it keeps. The kernel may have to wait for a
// lock that is held by a process which waits for an answer of ours. So it must never be
// used by what answers messages, nor while a lock is held.
type notifier interface {
	// EntryNotify makes it forget a name in a directory, or that there is none.
	EntryNotify(dir uint64, name string) fuse.Status

	// InodeNotify makes it forget attributes, and with an offset of 0 what it keeps of
	// bytes or of a listing.
	InodeNotify(ino uint64, off, length int64) fuse.Status
}

// An until tells the kernel nothing any more once its context has ended.
type cancelableNotifier struct {
	ctx context.Context
	notifier
}

// EntryNotify implements notifier.
func (u cancelableNotifier) EntryNotify(dir uint64, name string) fuse.Status {
	if u.ctx.Err() != nil {
		return fuse.Status(syscall.ECANCELED)
	}
	return u.notifier.EntryNotify(dir, name)
}

// InodeNotify implements notifier.
func (u cancelableNotifier) InodeNotify(ino uint64, off, length int64) fuse.Status {
	if u.ctx.Err() != nil {
		return fuse.Status(syscall.ECANCELED)
	}
	return u.notifier.InodeNotify(ino, off, length)
}

// A difference is a name that is not the same in two versions of a volume.
type difference struct {
	path     string
	old, new identity // zero: there is none
}

// An invalidation tells the kernel what is different in a volume.
type invalidation struct {
	f      *filesystem
	kernel notifier
	vol    *volume

	dir   string // that was looked for last
	ino   uint64 // of it
	known bool   // whether the kernel knows it
	first bool   // nothing was looked for yet
}

// invalidate makes the kernel forget what is different, as far as it knows it. A lookup
// that is under way holds a lock on its directory until the kernel has its answer, and
// the kernel waits for that lock: so no old answer comes behind.
func (f *filesystem) invalidate(ctx context.Context, v *volume, differences iter.Seq2[difference, error]) error {
	n := invalidation{f: f, kernel: cancelableNotifier{ctx, f.kernel}, vol: v, first: true}
	for d, err := range differences {
		if err == nil {
			err = ctx.Err() // nothing may have been told for long
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
	if dir := parent(d.path); n.first || dir != n.dir {
		n.dir, n.first = dir, false
		n.ino, n.known = n.f.nodes.find(n.vol.dirID(dir))
		if n.known {
			if err := forgetListing(n.kernel, n.ino); err != nil {
				return err
			}
		}
	}
	name, _ := base(n.dir, d.path)
	if !n.known || !isLegalName(name) {
		return nil
	}
	return failedNotify(n.kernel.EntryNotify(n.ino, name))
}

// attributes is for what is the same but for its mode, owner or time.
func (n *invalidation) attributes(id identity) error {
	ino, ok := n.f.nodes.find(id)
	if !ok {
		return nil
	}
	return failedNotify(n.kernel.InodeNotify(ino, -1, 0))
}

func forgetListing(kernel notifier, dir uint64) error {
	return failedNotify(kernel.InodeNotify(dir, 0, 0))
}

// invalidateAll makes the kernel forget all it knows of a volume, but for the names that
// do not exist; those it forgets after a minute.
func (f *filesystem) invalidateAll(ctx context.Context, v *volume) error {
	kernel := cancelableNotifier{ctx, f.kernel}
	known := f.nodes.inVolume(v)
	for ino, n := range known {
		var err error
		if n.path == "" || n.matches(ino, v.dirID(n.path)) {
			err = forgetListing(kernel, ino)
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

// failedNotify returns what is wrong with the connection, if anything is. That the kernel
// does not know what it is to forget is no matter.
func failedNotify(s fuse.Status) error {
	switch syscall.Errno(s) {
	case 0, syscall.ENOENT, syscall.ENOTDIR, syscall.ENOTEMPTY, syscall.EBUSY:
		return nil
	}
	return syscall.Errno(s)
}
