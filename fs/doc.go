// Package fs shows the trees of a catalog to the kernel, by FUSE. It translates:
// kernel structures in, one call down, an errno out.
//
// # What is shown
//
// The tree of one symbol, or each symbol as a directory at its path. A mount shows one
// version of a symbol, and if it follows (Options.Follow), a newer one as soon as there
// is one. In the root of each symbol is a hidden directory, .versions, with all versions:
// by number, and as links by everything else that names.ParseAsOf knows.
//
// A volume is a tree with inodes of its own: that of a symbol, that of one version of it,
// and the made-up ones that lead there. A version is one state of a volume. The kernel is
// told of nodes: a path, and the version in which it was seen last.
//
// # What users may rely on
//
// A version is unchanging, so the kernel may keep for ever what it knows of it: names,
// also those that do not exist, attributes, listings and bytes. Whatever changes
// something is EROFS.
//
// In a mount that follows, what is open stays what it was: a file keeps its inode and
// its bytes, a directory its listing. Names lead to the new version at once; the kernel
// is told exactly what changed, and should that fail it keeps nothing longer than a
// minute. A version that cannot be read is not shown.
//
// A read returns the right bytes, or an error; it is short only at the end of the file.
// It ends within Options.ReadLimit, everything else within ten seconds, and at once
// when its process is killed. An error of the data is EIO, never ENOENT: its cause is
// in the log, one line for each object in ten seconds, and in the extended attribute
// user.xet.error of the file.
//
// A file that is kept whole on disk is read by the kernel itself (passthrough), as quickly
// as the file system of the disk cache is, and without a word to this process; where the
// kernel does not do that, its pages are spliced into the answers. Who has such a file open
// may read it to its end, even if the cache is cleared, or the mount gone. Its bytes were
// checked when it was laid down, and are not checked again before they are read. Where the
// kernel reads it by itself, an error of that disk is one of the read, which nobody here is
// told of: the file is read from elsewhere when it is opened after whoever compares it in
// the background, or at a user's command, has met the error, too.
//
// Inode numbers depend on the symbol, the path and the content, and are the same after
// remounting: what a new version has not changed stays in the page cache. In a mount
// without a catalog the names of one file share one inode, and so one page cache. Each
// directory of .versions has inodes of its own, because times and modes may differ.
//
// Extended attributes:
//
//	user.xet.hash      Xet hash of a file
//	user.xet.sha256    SHA-256 of a file, if an index page or a whole read proves it
//	user.xet.verified  what reads are checked against: chunk, file, none
//	user.xet.error     why the last read or open of this file that failed did
//	user.xet.symbol    symbol that it belongs to
//	user.xet.version   number of the version that it is seen in
//	user.xet.tindex    hash of the root page of that version
//	user.xet.stats     figures of the cache and, as "fuse", counters of messages: open (of
//	                   them passthrough), read (of them spliced) and the bytes that answer
//	                   reads; in JSON, on the root of the mount
//
// A name in by-sha256 is a claim of a shard. Reads are checked against the hashes of chunks.
// The mount compares the claim when a file is materialized, and when the reads of one open
// file follow each other from its beginning to its end. A false name is EIO from then on.
// Partial reads and mappings compare nothing with the claim. Such a name has an inode of its
// own, and no passthrough until its claim is proven.
//
// # Why the raw interface of go-fuse
//
// go-fuse has two interfaces. Its package fs keeps a tree of nodes with maps of
// children. Ours would only repeat what the catalog says: 360 bytes and 11 allocations
// for every name that the kernel knows, before anything of ours, and twice the time of a
// whole lookup here. So this package answers the messages themselves
// (fuse.RawFileSystem): what must be remembered of a name is its path and a version (40
// bytes and the path), and the offset of an entry in a listing is its place. go-fuse also
// leaves /dev/fuse open for children when it mounts as root, so mounting is ours too.
package fs
