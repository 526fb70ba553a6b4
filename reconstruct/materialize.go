package reconstruct

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/xetfs/xetfs/cache/disk"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/shard"
)

// A Policy selects the files that are materialized: stored as plain files on disk, which the
// kernel can read directly.
type Policy int

// The policies.
const (
	MaterializeNever  Policy = iota // only files passed to Materialize
	MaterializeAuto                 // files that were read completely, see below
	MaterializeAlways               // all opened files
)

// Limits of MaterializeAuto. From a local origin it only stores large files that the kernel did
// not keep in its page cache.
const (
	minRemote   = 64 << 10 // bytes
	minLocal    = 8 << 20
	timesRemote = 1 // complete reads
	timesLocal  = 2
	cacheShare  = 4 // a file takes at most this part of the disk cache
)

// OpenBacking returns the whole file on disk, if present, for the kernel. The file must be
// closed after the kernel has released it.
func (r *Reader) OpenBacking(id codec.FileID) (*disk.File, bool) { return r.c.OpenFile(id.File) }

// BackingWasCorrupt reports whether a file that OpenBacking has returned was found corrupt
// later.
func (r *Reader) BackingWasCorrupt(id codec.FileID) bool { return r.c.FileWasCorrupt(id.File) }

// busyPoll is how often Materialize checks whether another process has stored the file.
const busyPoll = 50 * time.Millisecond

// Materialize stores a file as a plain file on disk, if it is absent. It calls read with the
// number of bytes read since the last call. The file is only stored if its hash is right. The
// SHA-256 must be right, too: sum, or if nil that of the File Info block. For a source without proofs, sum
// is also compared with a file that is present: two paths may have one Xet hash. The error is of the read, or
// disk.ErrFull and similar.
func (r *Reader) Materialize(ctx context.Context, id codec.FileID, sum *[32]byte, read func(n int64)) error {
	isUnproven := sum != nil && !r.Proves()
	if r.c.HasFile(id.File) && !isUnproven {
		return nil
	}
	f, err := r.Open(ctx, id)
	if err != nil || f.Size() == 0 {
		return err
	}
	if !r.c.HasFile(id.File) {
		err = f.materialize(ctx, sum, read)
	}
	if err == nil && isUnproven {
		err = f.VerifySHA256(ctx, *sum) // another caller may have stored the file
	}
	return err
}

// MaterializeInfo is Materialize for a file with a known File Info block.
func (r *Reader) MaterializeInfo(ctx context.Context, id codec.FileID, fi *shard.FileInfo, sum *[32]byte) error {
	if f := newFile(r, id, fi); f.Size() > 0 {
		return f.materialize(ctx, sum, func(int64) {})
	}
	return nil
}

func (f *File) materialize(ctx context.Context, sum *[32]byte, read func(n int64)) error {
	if sum == nil {
		sum = f.claim()
	}
	for again := false; ; {
		w := newVerifyReader(ctx, f, sum)
		w.addSum()
		err := f.putFile(w, read)
		if f.tracker != nil && mayBeRepaired(err) && !again {
			if err := f.proveNext(ctx); err != nil {
				return err
			}
			if f, err = f.r.Open(ctx, f.id); err != nil {
				return err
			}
			again = true
			continue
		}
		if !errors.Is(err, disk.ErrBusy) {
			return err
		}
		select {
		case <-time.After(busyPoll):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// putFile stores f as a plain file while w reads it, and ends w. The chunks of f are not needed beside it.
func (f *File) putFile(w *verifyReader, read func(n int64)) error {
	defer w.batches.close()
	err := f.r.c.PutFile(f.id.File, f.Size(), &progressReader{w, read})
	if err != nil {
		return err
	}
	for terms, err := range f.TermGroups(w.ctx) {
		if err != nil {
			return nil //nolint:nilerr // the file is complete, and its chunks are evicted like others
		}
		f.r.c.MarkRedundant(terms)
	}
	return nil
}

// A progressReader reports how many bytes it has read.
type progressReader struct {
	r        io.Reader
	progress func(n int64)
}

func (pr *progressReader) Read(p []byte) (int, error) {
	n, err := pr.r.Read(p)
	pr.progress(int64(n))
	return n, err
}
