package wrap

import (
	"context"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/xorb"
)

// Limit returns a Source that runs at most the given number of Chunks calls of src at once.
// Further calls wait for a slot or the end of their context. Other methods are not limited:
// opening a file must not wait for reads of data. TryChunks sends no request and needs no slot.
func Limit(src origin.Source, requests int) origin.Source {
	return limitSource{src, make(chan struct{}, max(1, requests))}
}

type limitSource struct {
	origin.Source
	slots chan struct{}
}

// Chunks implements Source. It calls Buffer only once it has a slot.
func (s limitSource) Chunks(ctx context.Context, x codec.Hash, r codec.ChunkRange, o origin.ReadOptions) (*xorb.Run, error) {
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-s.slots }()
	return s.Source.Chunks(ctx, x, r, o)
}
