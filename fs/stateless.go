package fs

import (
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/xetfs/xetfs/cache/recent"
)

const (
	maxStreams = 256              // files of a stateless mount that are kept open
	idleStream = 10 * time.Second // after which one that is not read is closed, at the latest twice that
)

// streams are the open files of a stateless mount, by inode, where the kernel does not say
// what is opened and closed. A file is open from its first read on: until it has not been
// read for a while, or others have been, or the kernel forgets its inode.
type streams = recent.Set[uint64, *fileHandle]

// A sharedFile is an open file that all its readers share.
type sharedFile = recent.Item[uint64, *fileHandle]

func (f *filesystem) newStreams() *streams {
	return recent.New[uint64](maxStreams, idleStream, func(h *fileHandle) {
		h.stream.Close() // this only stops fetching ahead: there is nothing to fail
		h.claim.close(&f.early)
	})
}

// takeStream returns the file of an inode, which must be put back after the read.
func (f *filesystem) takeStream(req *request, ino uint64) (*sharedFile, fuse.Status) {
	if known := f.streams.Find(ino); known != nil {
		return known, fuse.OK
	}
	h, status := f.open(req, ino)
	if !status.Ok() {
		return nil, status
	}
	return f.streams.Add(ino, h), fuse.OK
}
