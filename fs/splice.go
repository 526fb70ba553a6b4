package fs

import "github.com/hanwen/go-fuse/v2/fuse"

// minSplice is the shortest spliced read. Copying is faster for shorter ones.
const minSplice = 64 << 10

// A spliceReply is a reply with bytes of a materialized file, which do not pass through this
// process. go-fuse looks for the method Seekable.
type spliceReply struct {
	f   *filesystem
	req *request // answered by the reply; it has ended
	h   *fileHandle
	off int64
	n   int
}

// splice returns a spliced reply, or nil. A truncated file would give a short reply, which
// programs take for the end of the file. So splice checks the file first.
func (f *filesystem) splice(req *request, h *fileHandle, off int64, n int) fuse.ReadResult {
	n = int(min(int64(n), h.size-off))
	if h.backing == nil || n < minSplice || !h.backing.Sound() {
		return nil
	}
	f.counters.spliced.Add(1)
	f.counters.bytes.Add(int64(n))
	return &spliceReply{f, req, h, off, n}
}

// Seekable returns the place of the bytes.
func (s *spliceReply) Seekable() (fd uintptr, off int64, n int) { return s.h.backing.Fd(), s.off, s.n }

// Size implements fuse.ReadResult.
func (s *spliceReply) Size() int { return s.n }

// Bytes implements fuse.ReadResult. go-fuse calls it after a failed splice: the pipe was too
// small, or the disk failed. The bytes may then be remote, and a signal can end the wait.
func (s *spliceReply) Bytes(p []byte) ([]byte, fuse.Status) {
	req := newRequest(s.req.interrupted, s.req.thread, s.f.limit)
	defer req.end()
	return s.f.readBytes(req, s.h, p[:s.n], s.off)
}

// Done implements fuse.ReadResult.
func (s *spliceReply) Done() {}
