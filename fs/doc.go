// Package fs serves the trees of a catalog to the kernel through FUSE. It translates messages
// of the kernel into calls, and errors into errnos.
//
//	Mount            mounts a catalog; Options choose symbol, version and following
//	Server.Wait      waits for the end of the mount
//	Server.Unmount   unmounts an idle mount
//	Server.Shutdown  unmounts and ends open files after a grace period
//
// A volume is one tree with its own inode numbers, a version one state of a volume. A node is
// a path that the kernel has looked up, with the version of that lookup.
//
// A version never changes, so the kernel may cache it permanently. All changes are EROFS.
// After a switch to a newer version, open files and listings that have begun stay the same, and
// names lead to the new version. The kernel gets exact invalidations, or its cache expires in a
// minute. Directories have no handles if the kernel supports it: the position in a listing has the
// number of its version.
//
// A read returns the right bytes or an error within Options.ReadLimit, or when its process is
// killed. The same holds for an open of a large file. A read that waits for the proof of a whole file
// ends after a minute without a chunk. All other calls end within ten seconds. Corrupt or missing
// data is EIO, never ENOENT; the cause is in the log and in user.xet.error.
//
// With passthrough, disk errors go straight to the reader as EIO and xetfs does not see them.
// The next open uses the origin once the scrubber or `xetfs cache verify` has found the error.
//
// This package implements fuse.RawFileSystem. The node tree of go-fuse would need 360 bytes and
// 11 allocations per name, and twice the time per lookup.
package fs
