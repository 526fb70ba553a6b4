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

// A plain is the whole content of a file, as a file of another file system. Until it is
// closed it stays what it is.
type backing interface {
	io.ReaderAt
	io.Closer
	Fd() uintptr
	Sound() bool // it is still what it was, as far as is known
}

// A backer lets the kernel read plain files by itself. It is go-fuse's server.
type backer interface {
	RegisterBackingFd(*fuse.BackingMap) (int32, syscall.Errno)
	UnregisterBackingFd(id int32) syscall.Errno
}

// A passthrough lets the kernel read files that are kept whole by itself, from 6.9 on,
// if the process has CAP_SYS_ADMIN.
//
// While an inode is open the kernel reads all of it one way: by itself, and then all who
// have it open share one registered file, or through its page cache by messages to us.
// An open that is answered otherwise fails with EIO. So the first open of an inode
// decides, and those that come while it is open follow; if the file is found to be damaged
// meanwhile, they have the kernel ask us for what they read (FOPEN_DIRECT_IO), though not
// for what they map. The kernel counts an open after
// we do, and counts it out before it tells us (RELEASE): what is not open here is not
// open there.
type passthrough struct {
	log *slog.Logger

	mu      sync.Mutex
	kernel  backer                // nil: the kernel cannot; guarded by mu
	refused bool                  // nothing more is registered; guarded by mu
	inodes  map[uint64]*openInode // that are open; guarded by mu
}

// An opened is an inode that is open. Only times changes.
type openInode struct {
	ino   uint64
	opens int     // how often it is open; guarded by passthrough.mu
	file  backing // that the kernel reads by itself; nil: it asks us
	id    int32   // by which the kernel knows file
}

// passes says whether the kernel reads the inode by itself.
func (in *openInode) passes() bool { return in != nil && in.file != nil }

func newPassthrough(log *slog.Logger) *passthrough {
	return &passthrough{log: log, inodes: make(map[uint64]*openInode)}
}

// init takes the server, if the kernel has agreed.
func (p *passthrough) init(s *fuse.Server) {
	if s.KernelSettings().Flags64()&fuse.CAP_PASSTHROUGH == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kernel = s
}

// join notes one more open of an inode that the kernel reads by itself; else it is nil.
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

// open notes an open of an inode whose content is in file, if that is not nil. If the
// kernel now reads this very file by itself, it belongs to the inode. Nil: the kernel
// cannot read any by itself, so nothing needs to be noted.
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

// registerLocked makes file the one that the kernel reads, if it takes it.
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
		// another time, perhaps
	default:
		p.refused = true
		p.log.Info("whole files are read through this process, because the kernel does not read them by itself",
			"event", "passthrough_refused", "err", refusal(errno))
	}
}

// refusal says in a sentence why the kernel does not take a file.
func refusal(errno syscall.Errno) error {
	switch errno {
	case unix.EPERM:
		return errors.New("that takes the rights of root (CAP_SYS_ADMIN)")
	case unix.ELOOP:
		return errors.New("the disk cache lies on a file system that lies on another one, such as overlayfs")
	case unix.EOPNOTSUPP, unix.ENOTTY:
		return errors.New("that takes Linux 6.9 with FUSE_PASSTHROUGH")
	}
	return errno
}

// close notes that an inode was closed once. A nil in was not noted.
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
	_ = kernel.UnregisterBackingFd(in.id) // fails where the mount is gone, and the number with it
	_ = in.file.Close()                   // it was only read
}

// sizeOf returns the size of a plain file, or -1.
func sizeOf(p interface{ Fd() uintptr }) int64 {
	var st unix.Stat_t
	if err := unix.Fstat(int(p.Fd()), &st); err != nil {
		return -1
	}
	return st.Size
}

// A backingReader reads a plain file. The kernel does that by itself, so there is nothing
// to close.
type backingReader struct {
	backing
	engine engine
	id     codec.FileID
}

// ReadAt is for who reads past the page cache. What cannot be read, or is not what it was
// any more, is read as if it were not kept.
func (s backingReader) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	if n, _ := s.backing.ReadAt(p, off); n == len(p) {
		return n, nil
	}
	r, _, err := s.engine.open(ctx, s.id)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	return r.ReadAt(ctx, p, off)
}

func (s backingReader) Close() error { return nil }
