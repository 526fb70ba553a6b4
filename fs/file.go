package fs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/page"
)

// A fileHandle is one open file descriptor; where the mount is stateless, one file.
type fileHandle struct {
	path string // in the mount
	ino  uint64
	id   codec.FileID
	size int64

	stream stream
}

// Open implements fuse.RawFileSystem. After ENOSYS the kernel neither opens nor closes,
// and sends reads without a handle.
func (f *filesystem) Open(interrupted <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	if in.Flags&(syscall.O_ACCMODE|syscall.O_TRUNC|syscall.O_APPEND|syscall.O_CREAT) != syscall.O_RDONLY {
		return fuse.EROFS
	}
	if f.streams != nil {
		return fuse.ENOSYS
	}
	req := f.soon(interrupted, in.Pid)
	defer req.end()
	h, status := f.open(req, in.NodeId)
	if !status.Ok() {
		return status
	}
	out.Fh = f.files.add(h)
	out.OpenFlags = fuse.FOPEN_KEEP_CACHE | fuse.FOPEN_NOFLUSH
	return fuse.OK
}

func (f *filesystem) open(req *request, ino uint64) (*fileHandle, fuse.Status) {
	e, from, status := f.entry(req, ino)
	if !status.Ok() {
		return nil, status
	}
	s, err := f.openStream(req, &e)
	if err != nil {
		return nil, f.failed("open", from, &e, ino, err)
	}
	return &fileHandle{path: from.vol.where(e.Path), ino: ino, id: e.ID, size: e.Size, stream: s}, fuse.OK
}

func (f *filesystem) openStream(ctx context.Context, e *page.Entry) (stream, error) {
	if e.Size == 0 || e.Inline != nil {
		if int64(len(e.Inline)) != e.Size {
			return nil, sizeMismatch(e, int64(len(e.Inline)))
		}
		return inline(e.Inline), nil
	}
	c, err := f.engine.open(ctx, e.ID)
	if err != nil {
		return nil, err
	}
	if size := c.Size(); size != e.Size {
		return nil, sizeMismatch(e, size)
	}
	return c.stream(), nil
}

func sizeMismatch(e *page.Entry, size int64) error {
	return codec.Corrupt("terms", 0, "hold %d bytes, the catalog says %d", size, e.Size)
}

// Read implements fuse.RawFileSystem. The bytes go straight into the reply.
func (f *filesystem) Read(interrupted <-chan struct{}, in *fuse.ReadIn, p []byte) (fuse.ReadResult, fuse.Status) {
	req := newRequest(interrupted, in.Pid, f.limit)
	defer req.end()
	if f.streams != nil {
		h, status := f.streams.take(f, req, in.NodeId)
		if !status.Ok() {
			return nil, fuse.Status(forRead(syscall.Errno(status)))
		}
		defer f.streams.put(h)
		return f.readFile(req, h.fileHandle, p, int64(in.Offset))
	}
	h, ok := f.files.get(in.Fh)
	if !ok {
		return nil, fuse.EBADF
	}
	return f.readFile(req, h, p, int64(in.Offset))
}

func (f *filesystem) readFile(req *request, h *fileHandle, p []byte, off int64) (fuse.ReadResult, fuse.Status) {
	n, err := h.readAt(req, p, off)
	if err != nil {
		return nil, f.reports.failed(failure{
			doing: "read", path: h.path, file: h.id, ino: h.ino, off: off, err: err,
		}, readErrno(err))
	}
	return fuse.ReadResultData(p[:n]), fuse.OK
}

// readAt is short only at the end of the file: the kernel would take anything else for
// the end, and so would the program, which sees no error.
func (h *fileHandle) readAt(ctx context.Context, p []byte, off int64) (int, error) {
	want := int(min(int64(len(p)), max(0, h.size-off)))
	if want == 0 {
		return 0, nil
	}
	n, err := h.stream.ReadAt(ctx, p[:want], off)
	switch {
	case n == want && (err == nil || errors.Is(err, io.EOF)):
		return n, nil
	case err == nil || errors.Is(err, io.EOF):
		return 0, fmt.Errorf("%d of %d bytes at %d: %w", n, want, off, io.ErrUnexpectedEOF)
	}
	return 0, err
}

// Release implements fuse.RawFileSystem.
func (f *filesystem) Release(_ <-chan struct{}, in *fuse.ReleaseIn) {
	if h, ok := f.files.remove(in.Fh); ok {
		h.stream.Close() // it only stops fetching ahead
	}
}

// Flush implements fuse.RawFileSystem: old kernels, which do not know FOPEN_NOFLUSH,
// stop asking after the first ENOSYS.
func (f *filesystem) Flush(<-chan struct{}, *fuse.FlushIn) fuse.Status { return fuse.ENOSYS }

// An inline is a file whose bytes stand in the catalog.
type inline []byte

func (b inline) ReadAt(_ context.Context, p []byte, off int64) (int, error) {
	if off >= int64(len(b)) {
		return 0, io.EOF
	}
	n := copy(p, b[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (b inline) Close() error { return nil }
