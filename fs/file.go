package fs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/claims"
	"github.com/xetfs/xetfs/reconstruct"
)

// A fileHandle is one open file descriptor. On a stateless mount it is one file.
type fileHandle struct {
	path string // in the mount
	ino  uint64
	id   codec.FileID
	size int64

	from  *version   // of entry
	entry page.Entry // of the open

	reader  rangeReader
	backing backing    // the materialized file, for splicing; nil: none
	inode   *openInode // nil: not counted

	unprovenSum *[32]byte     // SHA-256 of the entry or the path; nil: none, or it is proven
	pathClaim   *claims.Claim // of the path, compared with the reads; nil: the path claims none

	dropPages bool // by the kernel at the open: they may be wrong, or pathClaim has not seen them
}

// Open implements fuse.RawFileSystem. After ENOSYS the kernel sends no OPEN and RELEASE, and its
// reads have no handle.
func (f *filesystem) Open(interrupted <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	if in.Flags&(syscall.O_ACCMODE|syscall.O_TRUNC|syscall.O_APPEND|syscall.O_CREAT) != syscall.O_RDONLY {
		return fuse.EROFS
	}
	if f.shared != nil {
		return fuse.ENOSYS
	}
	req := f.newMetaRequest(interrupted, in.Pid)
	defer req.end()
	h, status := f.open(req, in.NodeId)
	if !status.Ok() {
		return status
	}
	f.counters.opens.Add(1)
	out.Fh = f.files.add(h)
	out.OpenFlags = fuse.FOPEN_KEEP_CACHE | fuse.FOPEN_NOFLUSH
	if f.engine.backingWasCorrupt(h.id) || h.dropPages {
		out.OpenFlags = fuse.FOPEN_NOFLUSH // the kernel drops its spliced, uncompared or unproven pages
	}
	if h.inode.passes() {
		if h.backing != nil {
			f.counters.passed.Add(1)
			f.counters.passedBytes.Add(h.size)
		}
		out.OpenFlags, out.BackingID = passFlags(in.Flags, h.backing != nil), h.inode.id
	}
	return fuse.OK
}

// passFlags returns the flags for an open with passthrough. Reads with O_DIRECT still arrive as
// messages: the backing file system would refuse unaligned addresses and offsets, and xetfs
// accepts them. The same applies to a backing file that is no longer sound.
func passFlags(how uint32, sound bool) uint32 {
	if how&syscall.O_DIRECT != 0 || !sound {
		return fuse.FOPEN_PASSTHROUGH | fuse.FOPEN_NOFLUSH | fuse.FOPEN_DIRECT_IO
	}
	return fuse.FOPEN_PASSTHROUGH | fuse.FOPEN_NOFLUSH
}

// largeFile is the smallest size of a file whose open has the time limit of a read. The open
// reads all terms, possibly millions.
const largeFile = 64 << 20

func (f *filesystem) open(req *request, ino uint64) (*fileHandle, fuse.Status) {
	e, from, status := f.entry(req, ino)
	if !status.Ok() {
		return nil, status
	}
	f.sequences.Opened(from, &e)
	h := &fileHandle{path: from.vol.displayPath(e.Path), ino: ino, id: e.ID, size: e.Size, from: from, entry: e}
	var err error
	if h.unprovenSum, err = f.unprovenSHA256(from.vol, &e); err != nil {
		f.dropInodePages(ino) // of other descriptors
		return nil, f.failed("open", from, &e, ino, err)
	}
	if f.shared == nil && hasTerms(&e) && f.openBacking(h) {
		return h, fuse.OK
	}
	if e.Size >= largeFile {
		req = newRequest(req.interrupted, req.thread, f.limit)
		defer req.end()
	}
	if h.reader, err = f.openMovable(req, from, &e); err != nil {
		f.closeBacking(h)
		return nil, f.failed("open", from, &e, ino, err)
	}
	h.id = e.ID
	if r, ok := h.reader.(unprovenReader); ok {
		h.dropPages = !r.KeepsPages(ino)
		if h.unprovenSum != nil {
			r.LearnSHA256(*h.unprovenSum) // later opens may then have passthrough
		}
	}
	if h.unprovenSum != nil && !f.hasUnprovenSHA256(&e) {
		f.acquireClaim(h)
	}
	return h, fuse.OK
}

// proofLimit is the time limit of a read that waits until a whole file was read and proven. It ends
// earlier if the origin does not answer.
const proofLimit = 24 * time.Hour

func (h *fileHandle) needsProof() bool {
	r, ok := h.reader.(unprovenReader)
	return ok && r.NeedsProof()
}

// openBacking opens the materialized file, and reports whether the kernel reads the file
// directly. In that case the open needs no origin. The reads of a file with an unproven SHA-256 have to
// pass through this process.
func (f *filesystem) openBacking(h *fileHandle) bool {
	if h.inode = f.passthrough.join(h.ino); h.inode == nil {
		if h.unprovenSum == nil {
			h.backing = f.findBacking(h)
		}
		h.inode = f.passthrough.open(h.ino, h.backing)
	}
	if !h.inode.passes() {
		return false
	}
	if h.backing != nil && h.backing != h.inode.file {
		h.backing.Close() // another open was faster
	}
	h.backing = nil
	if !h.inode.file.Sound() {
		return false
	}
	h.backing, h.reader = h.inode.file, backingReader{h.inode.file, f.engine, h.id}
	return true
}

// findBacking returns the materialized file, or nil.
func (f *filesystem) findBacking(h *fileHandle) backing {
	p, ok := f.engine.openBacking(h.id)
	if !ok {
		return nil
	}
	if sizeOf(p) != h.size {
		p.Close() // the catalog has a wrong size; openReader reports it
		return nil
	}
	return p
}

// closeBacking releases the result of openBacking.
func (f *filesystem) closeBacking(h *fileHandle) {
	if h.backing != nil && !h.inode.passes() {
		h.backing.Close() // a file that was only read
	}
	f.passthrough.close(h.inode)
}

// hasTerms reports whether a file has bytes outside the catalog.
func hasTerms(e *page.Entry) bool { return e.Size > 0 && e.Inline == nil }

func (f *filesystem) openReader(ctx context.Context, e *page.Entry) (rangeReader, error) {
	if !hasTerms(e) {
		if int64(len(e.Inline)) != e.Size {
			return nil, reconstruct.WrongSize(int64(len(e.Inline)), e.Size)
		}
		return inlineReader(e.Inline), nil
	}
	r, size, err := f.engine.open(ctx, e.ID, e.Size)
	if err != nil {
		return nil, err
	}
	if size != e.Size {
		r.Close()
		return nil, reconstruct.WrongSize(size, e.Size)
	}
	return r, nil
}

// Read implements fuse.RawFileSystem. The bytes go straight into the reply.
func (f *filesystem) Read(interrupted <-chan struct{}, in *fuse.ReadIn, p []byte) (fuse.ReadResult, fuse.Status) {
	limit := f.reads.limit(in.NodeId, f.limit)
	if f.shared != nil {
		req := newRequest(interrupted, in.Pid, limit)
		defer req.end()
		h, status := f.takeFile(req, in.NodeId)
		if !status.Ok() {
			return nil, fuse.Status(forRead(syscall.Errno(status)))
		}
		defer f.shared.Put(h)
		return f.readFile(req, h.Value, in, p)
	}
	h, ok := f.files.get(in.Fh)
	if !ok {
		return nil, fuse.EBADF
	}
	if h.needsProof() {
		limit = max(limit, proofLimit)
	}
	req := newRequest(interrupted, in.Pid, limit)
	defer req.end()
	return f.readFile(req, h, in, p)
}

func (f *filesystem) readFile(req *request, h *fileHandle, in *fuse.ReadIn, p []byte) (fuse.ReadResult, fuse.Status) {
	off := int64(in.Offset)
	f.counters.reads.Add(1)
	if off+int64(len(p)) >= h.size && in.Flags&syscall.O_DIRECT == 0 { // a direct read finds no pushed page
		f.sequences.Read(h.from, &h.entry)
	}
	if r := f.splice(req, h, off, len(p)); r != nil {
		return r, fuse.OK
	}
	b, status := f.readBytes(req, h, p, off)
	if !status.Ok() {
		f.reads.failed(h.ino, req.elapsed(), f.limit)
		return nil, status
	}
	f.counters.addBytes(h, int64(len(b)))
	return fuse.ReadResultVector([][]byte{b}), fuse.OK // two dimensions: go-fuse does not try to splice
}

func (f *filesystem) readBytes(req *request, h *fileHandle, p []byte, off int64) ([]byte, fuse.Status) {
	h.pathClaim.Begin(off, int64(len(p)))
	defer h.pathClaim.End(off, int64(len(p)))
	err := f.falseClaim(req, h)
	n := 0
	if err == nil {
		n, err = h.readAt(req, p, off)
	}
	if errors.Is(err, context.DeadlineExceeded) && h.needsProof() { // it has completed the file
		req = newRequest(req.interrupted, req.thread, proofLimit)
		defer req.end()
		n, err = h.readAt(req, p, off)
	}
	if err == nil {
		err = f.checkClaim(req, h, p[:n], off)
	}
	if err != nil {
		return nil, f.reports.failed(failure{
			doing: "read", path: h.path, file: h.id, ino: h.ino, off: off, err: err,
		}, readErrno(err))
	}
	return p[:n], fuse.OK
}

// readAt returns fewer bytes only at the end of the file. The kernel, and so the program, would
// take any other short read for the end, without an error.
func (h *fileHandle) readAt(ctx context.Context, p []byte, off int64) (int, error) {
	want := int(min(int64(len(p)), max(0, h.size-off)))
	if want == 0 {
		return 0, nil
	}
	n, err := h.reader.ReadAt(ctx, p[:want], off)
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
		f.closeFile(h)
	}
}

func (f *filesystem) closeFile(h *fileHandle) {
	h.reader.Close() // it only stops readahead
	f.claims.Release(h.pathClaim)
	f.closeBacking(h)
}

// Flush implements fuse.RawFileSystem. Old kernels ignore FOPEN_NOFLUSH; they send no FLUSH
// after the first ENOSYS.
func (f *filesystem) Flush(<-chan struct{}, *fuse.FlushIn) fuse.Status { return fuse.ENOSYS }

// An inlineReader is the content of a file that the catalog contains.
type inlineReader []byte

func (b inlineReader) ReadAt(_ context.Context, p []byte, off int64) (int, error) {
	return bytes.NewReader(b).ReadAt(p, off)
}

func (b inlineReader) Close() error { return nil }
