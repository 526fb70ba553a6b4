package fs

import (
	"context"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/fs/catalog"
	"github.com/xetfs/xetfs/reconstruct"
)

// An engine is what fs asks of package reconstruct. Tests have others, which block,
// fail and panic on command.
type engine interface {
	// open returns a file. It keeps those opened last, so that opening one again is
	// cheap, but none whose bytes could not be had.
	open(ctx context.Context, id codec.FileID) (content, error)

	// plain returns the whole content of a file, if it is kept on disk. It asks no
	// origin.
	plain(id codec.FileID) (plain, bool)

	// damaged says that a plain file which was given out was found to be damaged later.
	damaged(id codec.FileID) bool

	// sha256 returns the SHA-256 of a file, if a whole read has proven it. proveSHA256 notes it.
	sha256(file codec.Hash) (sum [32]byte, ok bool)
	proveSHA256(file codec.Hash, sum [32]byte)

	stats() any // what user.xet.stats shows beside the figures of the mount: an object
}

// A content is a file that can be read.
type content interface {
	Size() int64
	Verified(ctx context.Context) string
	stream() stream
}

// A stream is the reads of one open file descriptor.
type stream interface {
	// ReadAt fills p from offset off. It is short only at the end of the file, with
	// io.EOF.
	ReadAt(ctx context.Context, p []byte, off int64) (int, error)
	Close() error
}

// Mount mounts the files of a catalog at dir, as r reads them, and returns when they
// can be seen. A mount of a dead process at dir is removed.
func Mount(dir string, c catalog.Catalog, r *reconstruct.Reader, o Options) (*Server, error) {
	return mount(dir, c, reader{r}, o)
}

// A reader is the engine.
type reader struct{ *reconstruct.Reader }

func (r reader) stats() any { return r.Stats() }

func (r reader) open(ctx context.Context, id codec.FileID) (content, error) {
	f, err := r.Open(ctx, id)
	if err != nil {
		return nil, err
	}
	return file{f}, nil
}

func (r reader) plain(id codec.FileID) (plain, bool) {
	f, ok := r.Plain(id)
	return f, ok
}

func (r reader) damaged(id codec.FileID) bool { return r.PlainWasDamaged(id) }

func (r reader) sha256(file codec.Hash) (sum [32]byte, ok bool) { return r.SHA256(file) }

func (r reader) proveSHA256(file codec.Hash, sum [32]byte) { r.ProveSHA256(file, sum) }

type file struct{ *reconstruct.File }

func (f file) stream() stream { return f.Handle() }
