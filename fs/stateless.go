package fs

import (
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/xetfs/xetfs/cache/recent"
)

const (
	maxOpenFiles = 256              // files of a stateless mount that are kept open
	idleFile     = 10 * time.Second // after which one that is not read is closed, at the latest twice that
)

// shared are the open files of a stateless mount, by inode, where the kernel does not say
// what is opened and closed. A file is open from its first read on: until it has not been
// read for a while, or others have been, or the kernel forgets its inode.
type openFiles = recent.Set[uint64, *fileHandle]

// A sharedFile is an open file that all its readers share.
type sharedFile = recent.Item[uint64, *fileHandle]

func (f *filesystem) newOpenFiles() *openFiles {
	return recent.New[uint64](maxOpenFiles, idleFile, func(h *fileHandle) {
		h.reader.Close() // this only stops fetching ahead: there is nothing to fail
		h.claim.close(&f.claimBytes)
	})
}

// takeFile returns the file of an inode, which must be put back after the read.
func (f *filesystem) takeFile(req *request, ino uint64) (*sharedFile, fuse.Status) {
	if known := f.shared.Find(ino); known != nil {
		return known, fuse.OK
	}
	h, status := f.open(req, ino)
	if !status.Ok() {
		return nil, status
	}
	return f.shared.Add(ino, h), fuse.OK
}
