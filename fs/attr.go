package fs

import (
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/xetfs/xetfs/codec/page"
)

// ioSize is what programs take as a good size for their buffers (st_blksize).
const ioSize = 128 << 10

// GetAttr implements fuse.RawFileSystem. The kernel asks rarely: it has the attributes
// from the lookup.
func (f *filesystem) GetAttr(interrupted <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	req := f.newMetaRequest(interrupted, in.Pid)
	defer req.end()
	e, from, status := f.entry(req, in.NodeId)
	if !status.Ok() {
		return status
	}
	f.attr(&e, &out.Attr)
	out.Ino = in.NodeId
	out.SetTimeout(from.vol.attrTTL)
	return fuse.OK
}

// attr translates an entry, but for its inode number. The mode is that of the entry, as
// other read-only file systems have it: what allows writing says nothing here, where
// nobody can, and who copies a tree out of the mount gets the modes that went in. A
// directory has one link, which says that its subdirectories are not counted.
func (f *filesystem) attr(e *page.Entry, out *fuse.Attr) {
	size := e.Size
	switch e.Type {
	case page.Dir:
		size = 0
	case page.Symlink:
		size = int64(len(e.Target))
	}
	owner := f.owner
	if e.Owner != nil {
		owner = *e.Owner
	}
	sec, nsec := epoch(e.ModTime)
	*out = fuse.Attr{
		Size: uint64(size), Blocks: (uint64(size) + 511) / 512, Blksize: ioSize,
		Atime: sec, Mtime: sec, Ctime: sec,
		Atimensec: nsec, Mtimensec: nsec, Ctimensec: nsec,
		Mode:  typeBits(e.Type) | e.Mode&0o7777,
		Nlink: 1,
		Owner: fuse.Owner{Uid: owner.UID, Gid: owner.GID},
	}
}

// epoch splits a time as the kernel wants it, which takes the seconds for signed. A time
// that is not known is the epoch.
func epoch(t time.Time) (sec uint64, nsec uint32) {
	if t.IsZero() {
		return 0, 0
	}
	return uint64(t.Unix()), uint32(t.Nanosecond())
}

func typeBits(t page.Type) uint32 {
	switch t {
	case page.Dir:
		return syscall.S_IFDIR
	case page.Symlink:
		return syscall.S_IFLNK
	}
	return syscall.S_IFREG
}
