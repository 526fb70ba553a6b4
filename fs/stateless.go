package fs

import (
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/xetfs/xetfs/cache/recent"
)

const (
	maxOpenFiles = 256              // cached files of a stateless mount
	idleFile     = 10 * time.Second // an idle file is closed after one to two times this time
)

// openFiles are the open files of a stateless mount by inode. The first read opens a file. It is
// closed when it is idle, when others replace it, or when the kernel forgets its inode.
type openFiles = recent.Set[uint64, *fileHandle]

// A sharedFile is an open file that several readers share.
type sharedFile = recent.Item[uint64, *fileHandle]

func (f *filesystem) newOpenFiles() *openFiles {
	return recent.New[uint64](maxOpenFiles, idleFile, func(h *fileHandle) {
		h.reader.Close() // it only stops readahead
		h.claim.close(&f.claimBytes)
	})
}

// takeFile returns the file of an inode. The caller must put it back after the read.
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
