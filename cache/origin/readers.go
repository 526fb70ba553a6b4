package origin

import (
	"context"
	"errors"
	"io"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
)

// A PartReader is a Store that reads a part of an object and its size with one request. A
// remote store then needs no request for the size.
type PartReader interface {
	// ReadPart returns up to n bytes of object k from off; if off is negative, the last n
	// bytes, or all. A part behind the end is empty, without an error.
	ReadPart(ctx context.Context, k names.Key, off int64, n int) (Part, error)
}

// A ProgressReader is a Store that reports the progress of a read.
type ProgressReader interface {
	// ReadAtProgress is ReadAt. While it reads, it calls progress with the number of final
	// bytes at the start of p. It does not call progress for all of p.
	ReadAtProgress(ctx context.Context, k names.Key, p []byte, off int64, progress func(n int)) error
}

// A RangeChecker is a Store whose server may ignore ranges.
type RangeChecker interface {
	// CheckRanges returns ErrNoRanges if the server ignores ranges. k is an object that exists.
	CheckRanges(ctx context.Context, k names.Key) error
}

// ErrNoRanges reports that a server answers a request for one byte with a whole object.
var ErrNoRanges = errors.New("the web server ignores ranges, so parts of files cannot be read; nginx, Apache and xetfs serve --plain support ranges")

// A Part is consecutive bytes of an object.
type Part struct {
	Bytes []byte
	Off   int64 // of them in the object
	Size  int64 // of the object
}

// Holds reports whether p has all of n bytes from off. A nil Part has none.
func (p *Part) Holds(off int64, n int) bool {
	return p != nil && off >= p.Off && off+int64(n) <= p.Off+int64(len(p.Bytes))
}

// Tail is the off of ReadPart for the end of an object.
const Tail = -1

// ReadPart is ReadPart of any store. A store without it returns the size and no bytes.
func ReadPart(ctx context.Context, s Store, k names.Key, off int64, n int) (Part, error) {
	if p, ok := s.(PartReader); ok {
		return p.ReadPart(ctx, k, off, n)
	}
	size, err := s.Size(ctx, k)
	return Part{Off: size, Size: size}, err
}

// noCacheKey is the key of contexts of NoCache.
type noCacheKey struct{}

// NoCache returns a context for a repeated request after corrupt bytes. A store bypasses the
// caches between itself and the data.
func NoCache(ctx context.Context) context.Context {
	return context.WithValue(ctx, noCacheKey{}, true)
}

// IsNoCache reports whether ctx is a context of NoCache.
func IsNoCache(ctx context.Context) bool { return ctx.Value(noCacheKey{}) != nil }

// Reread calls read, and once more past the caches on the way if the bytes are corrupt: a transfer may have
// damaged them.
func Reread(ctx context.Context, read func(context.Context) error) error {
	err := read(ctx)
	if errors.Is(err, codec.ErrCorrupt) {
		err = read(NoCache(ctx))
	}
	return err
}

// sizeKey is the key of contexts of WithSize.
type sizeKey struct{}

// WithSize returns a context to request a File Info, with the size of the file in bytes. A source may
// then request a large file at once. The size may be wrong.
func WithSize(ctx context.Context, size int64) context.Context {
	return context.WithValue(ctx, sizeKey{}, size)
}

// ExpectedSize returns the size of a context of WithSize.
func ExpectedSize(ctx context.Context) (size int64, ok bool) {
	size, ok = ctx.Value(sizeKey{}).(int64)
	return size, ok
}

// readaheadKey is the key of contexts of WithReadahead.
type readaheadKey struct{}

// WithReadahead returns the context of a request for data that no reader awaits yet. A store
// sends other requests first. isAwaited reports whether a reader has begun to wait.
func WithReadahead(ctx context.Context, isAwaited func() bool) context.Context {
	return context.WithValue(ctx, readaheadKey{}, isAwaited)
}

// IsAwaited reports whether a reader waits for the request of a context. It may change from
// false to true.
func IsAwaited(ctx context.Context) bool {
	isAwaited, ok := ctx.Value(readaheadKey{}).(func() bool)
	return !ok || isAwaited()
}

// ReaderAt reads object k of s as an io.ReaderAt, for the decoders of codec. It never reads
// short, unlike a file. Past the end of the object it returns an error and 0, so a decoder must
// know the size.
func ReaderAt(ctx context.Context, s Store, k names.Key) io.ReaderAt {
	return readerAt{ctx, s, k}
}

// A readerAt lives as long as one call, so it may hold the call's context.
type readerAt struct {
	ctx context.Context
	s   Store
	k   names.Key
}

func (r readerAt) ReadAt(p []byte, off int64) (int, error) {
	if err := r.s.ReadAt(r.ctx, r.k, p, off); err != nil {
		return 0, err
	}
	return len(p), nil
}

// WholeReader is a Store that reads an object of any length to its end in one request.
type WholeReader interface {
	// ReadWhole calls take with the bytes of object k from off on, in order, and with the
	// size of the object, at least once. An error of take ends it. The bytes are valid
	// during the call.
	ReadWhole(ctx context.Context, k names.Key, off int64, take func(b []byte, size int64) error) error
}

const (
	localPiece  = 256 << 10
	remotePiece = 8 << 20
)

// ReadWhole is ReadWhole of any store. A store without it is read in large pieces.
func ReadWhole(ctx context.Context, s Store, k names.Key, off int64, take func(b []byte, size int64) error) error {
	if w, ok := s.(WholeReader); ok {
		return w.ReadWhole(ctx, k, off, take)
	}
	if p, ok := s.(PartReader); ok {
		return readParts(ctx, p, k, off, take)
	}
	size, err := s.Size(ctx, k)
	if err != nil || off >= size {
		return orTake(err, size, take)
	}
	piece := int64(remotePiece)
	if Local(s) {
		piece = localPiece
	}
	buf := make([]byte, min(piece, size-off))
	for ; off < size; off += int64(len(buf)) {
		buf = buf[:min(int64(len(buf)), size-off)]
		if err := s.ReadAt(ctx, k, buf, off); err != nil {
			return err
		}
		if err := take(buf, size); err != nil {
			return err
		}
	}
	return nil
}

// orTake returns err or, if it is nil, the result of take for no bytes.
func orTake(err error, size int64, take func(b []byte, size int64) error) error {
	if err != nil {
		return err
	}
	return take(nil, size)
}

func readParts(ctx context.Context, s PartReader, k names.Key, off int64, take func(b []byte, size int64) error) error {
	for {
		part, err := s.ReadPart(ctx, k, off, remotePiece)
		if err = orTake(err, part.Size, func([]byte, int64) error { return take(part.Bytes, part.Size) }); err != nil {
			return err
		}
		off += int64(len(part.Bytes))
		if off >= part.Size {
			return nil
		}
		if len(part.Bytes) == 0 {
			return codec.Corrupt("object", off, "it ends here, its size is %d", part.Size)
		}
	}
}
