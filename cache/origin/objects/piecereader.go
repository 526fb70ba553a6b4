package objects

import (
	"context"
	"io"
	"sync/atomic"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/names"
)

// A pieceReader reads an object of which a part is in memory. Another goroutine may remove the
// part at any time.
type pieceReader struct {
	part  atomic.Pointer[origin.Part]
	below io.ReaderAt
}

// ReadAt implements io.ReaderAt. Bytes that are not wholly in the part are read from below.
func (p *pieceReader) ReadAt(b []byte, off int64) (int, error) {
	part := p.part.Load()
	if part == nil || off < part.Off || off+int64(len(b)) > part.Off+int64(len(part.Bytes)) {
		return p.below.ReadAt(b, off)
	}
	return copy(b, part.Bytes[off-part.Off:]), nil
}

// newPieceReader returns a reader of the object of a part.
func newPieceReader(ctx context.Context, s origin.Store, k names.Key, part origin.Part) *pieceReader {
	p := &pieceReader{below: origin.ReaderAt(ctx, s, k)}
	p.part.Store(&part)
	return p
}
