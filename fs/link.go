package fs

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/xetfs/xetfs/codec/page"
)

// Readlink implements fuse.RawFileSystem. The target is text; only the kernel follows.
func (f *filesystem) Readlink(interrupted <-chan struct{}, in *fuse.InHeader) ([]byte, fuse.Status) {
	req := f.newMetaRequest(interrupted, in.Pid)
	defer req.end()
	e, _, status := f.entry(req, in.NodeId)
	if !status.Ok() {
		return nil, status
	}
	if e.Type != page.Symlink {
		return nil, fuse.Status(syscall.EINVAL)
	}
	return []byte(e.Target), fuse.OK
}
