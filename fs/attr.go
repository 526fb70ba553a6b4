package fs

import (
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/xetfs/xetfs/codec/page"
)

// ioSize is the buffer size that programs should use (st_blksize).
const ioSize = 128 << 10

// GetAttr implements fuse.RawFileSystem. The kernel rarely sends GETATTR: LOOKUP has returned
// the attributes.
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

// attr translates an entry except its inode number. The mode is that of the entry, including the
// bits for writing, as on other read-only file systems. A copy of a tree then has the published
// modes. One link of a directory means: subdirectories are not counted.
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

// epoch splits a time for the kernel, which reads the seconds as a signed number. An unknown
// time is the epoch.
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

// statfsBlock is the unit of statfs(2).
const statfsBlock = 4096

// StatFs implements fuse.RawFileSystem. The file system has no free space. With a directory per
// symbol, the numbers are those of the symbol in the request. A mount of unknown size has one
// block, because df lists no file system without blocks.
func (f *filesystem) StatFs(_ <-chan struct{}, in *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	*out = fuse.StatfsOut{Bsize: statfsBlock, Frsize: statfsBlock, NameLen: maxName}
	n, ok := f.nodes.get(in.NodeId)
	if !ok {
		n = f.nodes.root
	}
	files, bytes := n.ver.vol.current.Load().tree.Totals()
	out.Files = uint64(files)
	out.Blocks = max(1, (uint64(bytes)+statfsBlock-1)/statfsBlock)
	return fuse.OK
}
