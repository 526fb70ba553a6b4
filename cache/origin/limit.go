package origin

import (
	"context"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/xorb"
)

// Limit returns a Source that asks src for chunks at most so many times at once; the
// others wait for their turn, or until they give up. What opening a file asks passes by:
// whoever looks around must not wait for those who wait for bytes.
func Limit(src Source, requests int) Source {
	return limiting{Through{src}, make(chan struct{}, max(1, requests))}
}

type limiting struct {
	Through
	turns chan struct{}
}

// Chunks implements Source.
func (s limiting) Chunks(ctx context.Context, x codec.Hash, r codec.ChunkRange) (*xorb.Run, error) {
	return s.ChunksIn(ctx, x, r, Into{})
}

// ChunksIn implements Borrowing. No buffer is borrowed before it is the caller's turn.
func (s limiting) ChunksIn(ctx context.Context, x codec.Hash, r codec.ChunkRange, into Into) (*xorb.Run, error) {
	select {
	case s.turns <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-s.turns }()
	return s.Through.ChunksIn(ctx, x, r, into)
}
