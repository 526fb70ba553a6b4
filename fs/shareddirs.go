package fs

import (
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/recent"
	"github.com/xetfs/xetfs/codec/page"
)

// Without handles, the offset of a listing has all of its state: the number of the version, and the
// place in that version. Offset 0 begins a listing of the current version. Other offsets are
//
//	bits 62 to 40   number of the version in its volume, of which these are the lowest bits
//	bits 39 to 0    place: 1 is after the entry ".", 2 after "..", n+2 after the name with number n ≥ 1
//
// With handles, an offset is a place alone.
const (
	placeBits  = 40
	numberBits = 63 - placeBits // offsets of the kernel have a sign
)

// placeOf returns the place in an offset.
func placeOf(off uint64) uint64 { return off & (1<<placeBits - 1) }

// offset returns the offset of a place in a listing.
func (h *dirHandle) offset(place uint64) uint64 {
	if !h.isShared {
		return place
	}
	return h.ver.number%(1<<numberBits)<<placeBits | place
}

// numberOf returns the number of the version that an offset has. The version was shown not long
// before now.
func numberOf(off uint64, now *version) uint64 {
	const mask = 1<<numberBits - 1
	back := (now.number - off>>placeBits) & mask
	return now.number - back
}

const (
	maxListings = 64 // cached listings of a mount without handles of directories
	idleListing = 10 * time.Second
)

// listings are the parts of directories that were read last, in a mount without handles of
// directories. All readers of a directory share them. They only save time: any place of a
// directory can be found again.
type listings = recent.Set[listingKey, *dirHandle]

// A listingKey is a directory of one version of a volume.
type listingKey struct {
	vol    *volume
	number uint64
	ino    uint64
}

// initDirs decides whether directories have handles. Kernels before 5.1 pass the error ENOSYS of
// OPENDIR on to programs.
func (f *filesystem) initDirs(capabilities uint64) {
	if !f.dirHandles && capabilities&fuse.CAP_NO_OPENDIR_SUPPORT != 0 {
		f.listings = recent.New[listingKey](maxListings, idleListing, (*dirHandle).close)
	}
}

// takeDir returns the directory of a message. The caller must call done after the reply was made.
func (f *filesystem) takeDir(req *request, in *fuse.ReadIn) (h *dirHandle, done func(), status fuse.Status) {
	if f.listings == nil {
		h, ok := f.dirs.get(in.Fh)
		if !ok {
			return nil, nil, fuse.EBADF
		}
		return h, func() {}, fuse.OK
	}
	n, ok := f.nodes.get(in.NodeId)
	if !ok {
		return nil, nil, fuse.Status(syscall.ESTALE)
	}
	ver := n.ver.vol.current.Load()
	if in.Offset != 0 {
		var err error
		if ver, err = ver.vol.versionAt(req, numberOf(in.Offset, ver)); err != nil {
			return nil, nil, f.failed("list", n.ver, &page.Entry{Path: n.path}, in.NodeId, err)
		}
	}
	key := listingKey{ver.vol, ver.number, in.NodeId}
	if in.Offset == 0 {
		f.sequences.Listed(ver, n.path)
		if !ver.vol.cacheListings {
			f.listings.Forget(key) // the tree may have changed without a new version
		}
	}
	item := f.listings.Find(key)
	if item == nil {
		item = f.listings.Add(key, &dirHandle{ver: ver, path: n.path, ino: in.NodeId, isShared: true})
	}
	return item.Value, func() { f.listings.Put(item) }, fuse.OK
}

// A pageFill is how many bytes of the last page the kernel's cached listing fills. The kernel puts
// records of 24 bytes and the name, rounded up to 8, into pages, and none across a border.
type pageFill int

// emptyFill is the fill of the entries "." and "..".
const emptyFill pageFill = 2 * 32

var pageSize = pageFill(unix.Getpagesize())

// add returns the fill after another name.
func (p pageFill) add(name string) pageFill {
	size := pageFill(24+len(name)+7) &^ 7
	if p+size > pageSize {
		return size
	}
	return p + size
}

// ending is called before the reply to a message that reads past the last entry. After that reply
// the kernel has a complete listing in its cache. Without handles it caches that of any directory.
// Two kinds must not stay there:
//
//   - The listing of a tree that changes without notice. It is dropped afterwards.
//   - A listing that fills its last page, if the volume has shown another version before. A reader
//     of that version searches it for its position, and the kernel then reports the end of the
//     directory, not an absent position (fuse_readdir_cached of Linux 6.18). The pages are dropped
//     before the reply completes them, and no reader uses a listing without pages.
func (f *filesystem) ending(h *dirHandle, l *listing) {
	switch {
	case !h.isShared:
	case !h.ver.vol.cacheListings:
		f.dropLater(h.ino)
	case l.last.fill == pageSize && h.ver.number > 0:
		f.kernel.InodeNotify(h.ino, 0, 0) // of a directory it waits for no message
	}
}

// dropLater drops the kernel's listing of a directory after the messages in progress.
func (f *filesystem) dropLater(ino uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.unmounted {
		f.background.Go(func() { _ = dropListing(f.kernel, ino, noName) }) // the listing expires with its attributes
	}
}
