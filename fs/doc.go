// Package fs shows the trees of a catalog to the kernel, by FUSE. It translates:
// kernel structures in, one call down, an errno out.
//
// # What users may rely on
//
// Everything in a mount is unchanging, so the kernel may keep it for ever: names, also
// those that do not exist, attributes, listings and bytes. Whatever changes something
// is EROFS.
//
// A read returns the right bytes, or an error; it is short only at the end of the file.
// It ends within Options.ReadLimit, everything else within ten seconds, and at once
// when its process is killed. An error of the data is EIO, never ENOENT: its cause is
// in the log, one line for each object in ten seconds, and in the extended attribute
// user.xet.error of the file.
//
// Inode numbers depend on content and are the same after remounting. In a mount
// without a catalog the names of one file share one inode, and so one page cache.
//
// Extended attributes:
//
//	user.xet.hash      Xet hash of a file
//	user.xet.sha256    SHA-256 of a file, if it is known
//	user.xet.verified  what reads are checked against: chunk, file, none
//	user.xet.error     why the last read or open of this file that failed did
//	user.xet.stats     counters of the mount, in JSON; on its root
//
// The SHA-256 of a file is what its shard says, and so is its name in by-sha256. Reads
// are checked against the hashes of chunks, not against it.
//
// # Why the raw interface of go-fuse
//
// go-fuse has two interfaces. Its package fs keeps a tree of nodes with maps of
// children. Ours would only repeat what the catalog says: 360 bytes and 11 allocations
// for every name that the kernel knows, before anything of ours, and twice the time of a
// whole lookup here. So this package answers the messages themselves
// (fuse.RawFileSystem): what must be remembered of a name is its path (150 bytes in all,
// 4 allocations), and the offset of an entry in a listing is its place. go-fuse also
// leaves /dev/fuse open for children when it mounts as root, so mounting is ours too.
package fs
