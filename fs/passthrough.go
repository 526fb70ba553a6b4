package fs

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/codec"
)

// A backing is an open materialized file. Its bytes do not change before Close.
type backing interface {
	io.ReaderAt
	io.Closer
	Fd() uintptr
	Sound() bool // false: it is known to be corrupt
}

// A backer registers backing files in the kernel. It is the server of go-fuse.
type backer interface {
	RegisterBackingFd(*fuse.BackingMap) (int32, syscall.Errno)
	UnregisterBackingFd(id int32) syscall.Errno
}

// A passthrough registers materialized files, which the kernel then reads directly. It needs
// Linux 6.9 and CAP_SYS_ADMIN.
//
// The kernel reads an open inode in one of two ways. With passthrough all its open files share
// one registered file. Without it, they share the page cache, and reads are messages. An OPEN
// with the other answer fails with EIO. So the first open decides, and later opens follow. If
// the file is found corrupt meanwhile, later opens get FOPEN_DIRECT_IO: reads become messages,
// but mappings do not.
//
// The kernel counts an open after the reply, and counts it out before RELEASE. So an inode
// without an open here has none in the kernel.
type passthrough struct {
	log *slog.Logger

	mu      sync.Mutex
	kernel  backer                // nil: the kernel has no passthrough; guarded by mu
	refused bool                  // the kernel refuses all files; guarded by mu
	inodes  map[uint64]*openInode // open ones; guarded by mu
}

// An openInode is an open inode. Only opens changes.
type openInode struct {
	ino   uint64
	opens int     // number of open files; guarded by passthrough.mu
	file  backing // the registered file; nil: reads are messages
	id    int32   // of file in the kernel
}

// passes reports whether the kernel reads the inode directly.
func (in *openInode) passes() bool { return in != nil && in.file != nil }

func newPassthrough(log *slog.Logger) *passthrough {
	return &passthrough{log: log, inodes: make(map[uint64]*openInode)}
}

// init stores the server if the kernel has passthrough.
func (p *passthrough) init(s *fuse.Server) {
	if s.KernelSettings().Flags64()&fuse.CAP_PASSTHROUGH == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kernel = s
}

// join counts one more open of an inode with passthrough. Without passthrough it returns nil.
func (p *passthrough) join(ino uint64) *openInode {
	p.mu.Lock()
	defer p.mu.Unlock()
	in := p.inodes[ino]
	if !in.passes() {
		return nil
	}
	in.opens++
	return in
}

// open counts an open of an inode. It registers file, if not nil, and owns the file after that.
// It returns nil if nothing can be registered and opens need no count.
func (p *passthrough) open(ino uint64, file backing) *openInode {
	p.mu.Lock()
	defer p.mu.Unlock()
	if in := p.inodes[ino]; in != nil {
		in.opens++
		return in
	}
	in := &openInode{ino: ino, opens: 1}
	if file != nil {
		p.registerLocked(in, file)
	}
	if p.kernel == nil || p.refused {
		return nil
	}
	p.inodes[ino] = in
	return in
}

// registerLocked registers file for an inode.
func (p *passthrough) registerLocked(in *openInode, file backing) {
	errno := unix.EOPNOTSUPP
	switch {
	case p.refused:
		return
	case p.kernel != nil:
		in.id, errno = p.kernel.RegisterBackingFd(&fuse.BackingMap{Fd: int32(file.Fd())})
	}
	switch errno {
	case 0:
		in.file = file
	case unix.ENOMEM, unix.ENOSPC, unix.EBADF:
		// a later open may succeed
	default:
		p.refused = true
		p.log.Info("files have no passthrough; xetfs splices their pages",
			"event", "passthrough_refused", "err", refusal(errno))
	}
}

// refusal returns the reason why the kernel refuses a file.
func refusal(errno syscall.Errno) error {
	switch errno {
	case unix.EPERM:
		return errors.New("that takes the rights of root (CAP_SYS_ADMIN)")
	case unix.ELOOP:
		return errors.New("the disk cache is on a stacked file system such as overlayfs")
	case unix.EOPNOTSUPP, unix.ENOTTY:
		return errors.New("that takes Linux 6.9 with FUSE_PASSTHROUGH")
	}
	return errno
}

// close counts a close of an inode. A nil in has no count.
func (p *passthrough) close(in *openInode) {
	if in == nil {
		return
	}
	p.mu.Lock()
	in.opens--
	last, kernel := in.opens == 0, p.kernel
	if last {
		delete(p.inodes, in.ino)
	}
	p.mu.Unlock()
	if !last || in.file == nil {
		return
	}
	_ = kernel.UnregisterBackingFd(in.id) // fails after the unmount, which removes the registration
	_ = in.file.Close()                   // a file that was only read
}

// sizeOf returns the size of a file, or -1.
func sizeOf(p interface{ Fd() uintptr }) int64 {
	var st unix.Stat_t
	if err := unix.Fstat(int(p.Fd()), &st); err != nil {
		return -1
	}
	return st.Size
}

// A backingReader reads a backing file. The inode closes the file.
type backingReader struct {
	backing
	engine engine
	id     codec.FileID
}

// ReadAt serves readers that bypass the page cache. It reads from the origin what the backing
// file cannot deliver.
func (b backingReader) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	if n, _ := b.backing.ReadAt(p, off); n == len(p) {
		return n, nil
	}
	r, _, err := b.engine.open(ctx, b.id, sizeOf(b.backing))
	if err != nil {
		return 0, err
	}
	defer r.Close()
	return r.ReadAt(ctx, p, off)
}

func (b backingReader) Close() error { return nil }

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
	f.counters.plainBytes.Add(int64(n))
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
