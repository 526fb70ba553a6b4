package fs

import (
	"context"
	"io"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/fs/catalog"
	"github.com/xetfs/xetfs/fs/sequence"
	"github.com/xetfs/xetfs/reconstruct"
)

// An engine reads files by their hashes. Outside tests it is a reconstruct.Reader. It is the
// only seam for tests, whose engine blocks, fails and panics.
type engine interface {
	// open opens a file for one file descriptor and returns its size, which should be want. The
	// engine caches recently opened files.
	open(ctx context.Context, id codec.FileID, want int64) (r rangeReader, size int64, err error)

	// verified returns the value of user.xet.verified of a file.
	verified(ctx context.Context, id codec.FileID) (string, error)

	// cached returns the value of user.xet.cached of a file, in percent.
	cached(ctx context.Context, id codec.FileID) (int, error)

	// openBacking opens the materialized file, if there is one. It sends no request.
	openBacking(id codec.FileID) (backing, bool)

	// backingWasCorrupt reports whether a materialized file was found corrupt after an open.
	backingWasCorrupt(id codec.FileID) bool

	// SHA256 returns the SHA-256 that a whole read or ProveSHA256 has proven. CheckSHA256 returns an
	// error if that differs from the one of an unproven entry.
	SHA256(file codec.Hash) (sum [32]byte, ok bool)
	CheckSHA256(id codec.FileID, want [32]byte) error
	ProveSHA256(file codec.Hash, sum [32]byte)

	// proves reports whether all files are proven before their first byte is read. Otherwise
	// report is called after a file was found corrupt. It must not block.
	proves() bool
	onCorrupt(report func(id codec.FileID))

	// isLocal reports whether the origin is local, so that nothing is fetched ahead.
	isLocal() bool

	// newAnnouncer returns a readahead for the files of one reader.
	newAnnouncer() sequence.Announcer

	stats() any // a JSON object, part of user.xet.stats
}

// An unprovenReader is a rangeReader of a file that is not proven by its origin.
type unprovenReader interface {
	// File returns the File, which fails as a whole.
	File() *reconstruct.File

	// KeepsPages reports whether the kernel may keep its pages of an inode. Each open calls it once.
	KeepsPages(ino uint64) bool

	// NeedsProof reports whether the next read waits for the proof of the whole file.
	NeedsProof() bool

	// CheckSHA256 compares the file with the SHA-256 of its entry: a gated file always, and
	// another one if its SHA-256 is known.
	CheckSHA256(ctx context.Context, want [32]byte) error

	// LearnSHA256 makes the SHA-256 of a materialized file known in the background, which is probably want.
	LearnSHA256(want [32]byte)

	// CompareReadSHA256 compares the SHA-256 of a file that was read whole with the one of its path.
	CompareReadSHA256(sum, want [32]byte) error
}

// A rangeReader reads for one open file descriptor.
type rangeReader interface {
	// ReadAt fills p from offset off. A short read ends at the end of the file, with io.EOF.
	ReadAt(ctx context.Context, p []byte, off int64) (int, error)
	io.Closer
}

// Mount mounts the files of a catalog at dir. It returns when they are visible. It removes a
// mount without a server from dir.
func Mount(dir string, c catalog.Catalog, r *reconstruct.Reader, o Options) (*Server, error) {
	return mount(dir, c, reader{r}, o)
}

// A reader is the engine of package reconstruct.
type reader struct{ *reconstruct.Reader }

func (r reader) open(ctx context.Context, id codec.FileID, want int64) (rangeReader, int64, error) {
	f, err := r.OpenSize(ctx, id, want)
	if err != nil {
		return nil, 0, err
	}
	h := f.Handle()
	return h, h.File().Size(), nil
}

func (r reader) verified(ctx context.Context, id codec.FileID) (string, error) {
	f, err := r.Open(ctx, id)
	if err != nil {
		return "", err
	}
	return f.Verified(ctx), nil
}

func (r reader) cached(ctx context.Context, id codec.FileID) (int, error) {
	return r.CachedPercent(ctx, id)
}

func (r reader) openBacking(id codec.FileID) (backing, bool) { return r.OpenBacking(id) }

func (r reader) backingWasCorrupt(id codec.FileID) bool { return r.BackingWasCorrupt(id) }

func (r reader) proves() bool { return r.Proves() }

func (r reader) onCorrupt(report func(id codec.FileID)) { r.OnCorrupt(report) }

func (r reader) isLocal() bool { return r.Local() }

func (r reader) newAnnouncer() sequence.Announcer { return r.NewFileReadahead() }

func (r reader) stats() any { return r.Stats() }
