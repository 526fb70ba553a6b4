package fs

import "github.com/hanwen/go-fuse/v2/fuse"

// minSplice is the shortest read that is answered with the pages of a plain file. For
// less, copying is quicker than the calls that avoid it.
const minSplice = 64 << 10

// A spliceReply is the answer to a read: bytes of a plain file, which need not go through
// this process. go-fuse looks for the method Seekable.
type spliceReply struct {
	f   *filesystem
	req *request // that it answers; it has ended
	h   *fileHandle
	off int64
	n   int
}

// splice returns an answer that is spliced, or nil. What is spliced of a file that somebody
// has cut off would be short, which the program takes for the end; hence the look at it.
func (f *filesystem) splice(req *request, h *fileHandle, off int64, n int) fuse.ReadResult {
	n = int(min(int64(n), h.size-off))
	if h.backing == nil || n < minSplice || !h.backing.Sound() {
		return nil
	}
	f.counters.spliced.Add(1)
	f.counters.bytes.Add(int64(n))
	return &spliceReply{f, req, h, off, n}
}

// Seekable says where the bytes are.
func (s *spliceReply) Seekable() (fd uintptr, off int64, n int) { return s.h.backing.Fd(), s.off, s.n }

// Size implements fuse.ReadResult.
func (s *spliceReply) Size() int { return s.n }

// Bytes implements fuse.ReadResult. It is asked for them if they cannot be spliced: where
// a pipe may not be large enough, or the disk fails. They may then come from far away, and
// who waits for them may be killed.
func (s *spliceReply) Bytes(p []byte) ([]byte, fuse.Status) {
	req := newRequest(s.req.interrupted, s.req.thread, s.f.limit)
	defer req.end()
	return s.f.readBytes(req, s.h, p[:s.n], s.off)
}

// Done implements fuse.ReadResult.
func (s *spliceReply) Done() {}
