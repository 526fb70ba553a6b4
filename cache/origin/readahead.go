package origin

import (
	"context"
	"io"

	"github.com/xetfs/xetfs/codec/names"
)

// ReadaheadStep is the length of the pieces, in bytes of a file, that a sequential reader requests
// with a large window. They end at multiples of it, so a Source can prepare the next ones.
const ReadaheadStep = 4 << 20

// ReadAheadSize is the length of a request of ReadAhead.
const ReadAheadSize = 4 << 20

// A ReadAhead reads an object of a known size from start to end in large pieces. Decoders
// make many small reads in order, and each would be a request. It serves one reader.
type ReadAhead struct {
	Below io.ReaderAt
	Size  int64
	Grow  func(n int64) error // called before the buffer grows to n bytes; nil: no call

	buf []byte
	off int64 // of buf
}

// ReadAt implements io.ReaderAt.
func (r *ReadAhead) ReadAt(p []byte, off int64) (int, error) {
	end := off + int64(len(p))
	if off < 0 || end > r.Size || len(p) >= ReadAheadSize {
		return r.Below.ReadAt(p, off)
	}
	if off < r.off || end > r.off+int64(len(r.buf)) {
		n := min(ReadAheadSize, r.Size-off)
		if err := r.reserve(n); err != nil {
			return 0, err
		}
		r.buf, r.off = r.buf[:n], off
		if _, err := r.Below.ReadAt(r.buf, off); err != nil {
			r.buf = r.buf[:0]
			return 0, err
		}
	}
	return copy(p, r.buf[off-r.off:]), nil
}

// reserve makes buf large enough for n bytes.
func (r *ReadAhead) reserve(n int64) error {
	if int64(cap(r.buf)) >= n {
		return nil
	}
	if r.Grow != nil {
		if err := r.Grow(n); err != nil {
			return err
		}
	}
	r.buf = make([]byte, n)
	return nil
}

// SequentialReader returns a reader for a caller that reads an object of a store from start to
// end. It reads ahead only from a remote store.
func SequentialReader(ctx context.Context, s Store, k names.Key, size int64) io.ReaderAt {
	if Local(s) {
		return ReaderAt(ctx, s, k)
	}
	return &ReadAhead{Below: ReaderAt(ctx, s, k), Size: size}
}
