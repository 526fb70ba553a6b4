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

// A Policy says which files are laid down whole on disk, for the kernel to read by itself.
type Policy int

// The policies.
const (
	MaterializeNever  Policy = iota // none but those asked for by Keep
	MaterializeAuto                 // those that were read completely, see below
	MaterializeAlways               // all that are opened
)

// Which files MaterializeAuto keeps. From a near origin it keeps what is worth it: large
// files that the kernel did not keep in its page cache from one time to the next.
const (
	minRemote   = 64 << 10 // bytes
	minLocal    = 8 << 20
	timesRemote = 1 // how often all of it was read
	timesLocal  = 2
	cacheShare  = 4 // of the disk cache, it takes one in so many parts at most
)

// OpenBacking returns the whole file as it is kept on disk, if it is, to be handed to the
// kernel. It must be closed when the kernel is done with it.
func (f *File) OpenBacking() (*disk.File, bool) { return f.r.OpenBacking(f.id) }

// OpenBacking is that of the File, which need not be opened for it.
func (r *Reader) OpenBacking(id codec.FileID) (*disk.File, bool) { return r.c.OpenFile(id.File) }

// BackingWasCorrupt says that a file which Plain has returned was found to be damaged later.
func (r *Reader) BackingWasCorrupt(id codec.FileID) bool { return r.c.FileWasCorrupt(id.File) }

// busyPoll is how often Keep looks whether somebody else has laid a file down.
const busyPoll = 50 * time.Millisecond

// Materialize lays a file down whole on disk, if it is not there yet, and calls read with the
// number of bytes it has read since the last call. The file is kept if its hash is right,
// or not at all. The error is why it could not be read, or disk.ErrFull and its like. The
// SHA-256 must be right, too: the given one, or if sum is nil that of the File Info block.
func (r *Reader) Materialize(ctx context.Context, id codec.FileID, sum *[32]byte, read func(n int64)) error {
	if r.c.HasFile(id.File) {
		return nil
	}
	f, err := r.Open(ctx, id)
	if err != nil || f.Size() == 0 {
		return err
	}
	return f.materialize(ctx, sum, read)
}

// MaterializeInfo is Keep for a file whose File Info block is known already.
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
	for {
		err := f.putFile(newVerifyReader(ctx, f, sum), read)
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

// putFile lays f down as w reads it, and ends w. The chunks of f are not needed beside it.
func (f *File) putFile(w *verifyReader, read func(n int64)) error {
	defer func() { w.batches.close() }()
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

// A progressReader is a reader that says how much it has read.
type progressReader struct {
	r        io.Reader
	progress func(n int64)
}

func (pr *progressReader) Read(p []byte) (int, error) {
	n, err := pr.r.Read(p)
	pr.progress(int64(n))
	return n, err
}

// Close ends what goes on in the background, and waits for it. Reads go on to work, but
// files that are kept whole are not read from there any more.
func (r *Reader) Close() error {
	r.materializer.close()
	r.backing.open.Close()
	return nil
}
