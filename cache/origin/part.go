package origin

import (
	"context"

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
