package origin

import (
	"context"
	"io"

	"github.com/xetfs/xetfs/codec/names"
)

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
