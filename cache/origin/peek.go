package origin

import (
	"context"
	"io"
	"sync/atomic"

	"github.com/xetfs/xetfs/codec/names"
)

// Peeking is a Store that gives a part of an object and its size in one request. It saves
// a far store the question for the size.
type Peeking interface {
	// Peek returns up to n bytes of object k from off on; if off is negative, its last
	// n bytes, or all of it. Behind the end there are none, which is no error.
	Peek(ctx context.Context, k names.Key, off int64, n int) (Part, error)
}

// Streaming is a Store that tells how far it has come.
type Streaming interface {
	// ReadStream is ReadAt. While it reads, it calls came with the number of bytes at
	// the beginning of p that are final; not with all of them.
	ReadStream(ctx context.Context, k names.Key, p []byte, off int64, came func(n int)) error
}

// A Part is consecutive bytes of an object.
type Part struct {
	Bytes []byte
	Off   int64 // of them in the object
	Size  int64 // of the object
}

// Tail is the off of Peek for the end of an object.
const Tail = -1

// peek is Peek for every store. Of one that cannot it reads nothing but the size.
func peek(ctx context.Context, s Store, k names.Key, off int64, n int) (Part, error) {
	if p, ok := s.(Peeking); ok {
		return p.Peek(ctx, k, off, n)
	}
	size, err := s.Size(ctx, k)
	return Part{Off: size, Size: size}, err
}

// fresh is the key of contexts whose requests must not be answered from caches.
type fresh struct{}

// Fresh returns a context for asking once more for what came damaged: a backend that
// knows of caches on the way passes them by.
func Fresh(ctx context.Context) context.Context { return context.WithValue(ctx, fresh{}, true) }

// IsFresh says whether ctx comes from Fresh.
func IsFresh(ctx context.Context) bool { return ctx.Value(fresh{}) != nil }

// A peeked reads an object of which a part is here already. The part may be taken away
// at any time.
type peeked struct {
	part  atomic.Pointer[Part]
	below io.ReaderAt
}

// ReadAt implements io.ReaderAt. What is not wholly in the part is asked for.
func (p *peeked) ReadAt(b []byte, off int64) (int, error) {
	part := p.part.Load()
	if part == nil || off < part.Off || off+int64(len(b)) > part.Off+int64(len(part.Bytes)) {
		return p.below.ReadAt(b, off)
	}
	return copy(b, part.Bytes[off-part.Off:]), nil
}

// newPeeked returns a reader of the object that part is of.
func newPeeked(ctx context.Context, s Store, k names.Key, part Part) *peeked {
	p := &peeked{below: ReaderAt(ctx, s, k)}
	p.part.Store(&part)
	return p
}

// aheadSize is how much a readAhead asks for at once.
const aheadSize = 4 << 20

// A readAhead reads an object of a known size from its beginning to its end, in large
// pieces: for decoders that make many small reads in order, each of which would be a
// request. It is for one reader at a time.
type readAhead struct {
	below io.ReaderAt
	size  int64
	grow  func(n int64) error // before buf is made for n bytes; nil: there is nothing to ask
	buf   []byte
	off   int64 // of buf
}

// ReadAt implements io.ReaderAt.
func (r *readAhead) ReadAt(p []byte, off int64) (int, error) {
	end := off + int64(len(p))
	if off < 0 || end > r.size || len(p) >= aheadSize {
		return r.below.ReadAt(p, off)
	}
	if off < r.off || end > r.off+int64(len(r.buf)) {
		n := min(aheadSize, r.size-off)
		if err := r.reserve(n); err != nil {
			return 0, err
		}
		r.buf, r.off = r.buf[:n], off
		if _, err := r.below.ReadAt(r.buf, off); err != nil {
			r.buf = r.buf[:0]
			return 0, err
		}
	}
	return copy(p, r.buf[off-r.off:]), nil
}

// reserve makes buf large enough for n bytes.
func (r *readAhead) reserve(n int64) error {
	if int64(cap(r.buf)) >= n {
		return nil
	}
	if r.grow != nil {
		if err := r.grow(n); err != nil {
			return err
		}
	}
	r.buf = make([]byte, n)
	return nil
}

// ReadAhead returns a reader for one who goes through an object of a store from beginning
// to end. Of a near store it reads what is asked for.
func ReadAhead(ctx context.Context, s Store, k names.Key, size int64) io.ReaderAt {
	if Near(s) {
		return ReaderAt(ctx, s, k)
	}
	return &readAhead{below: ReaderAt(ctx, s, k), size: size}
}
