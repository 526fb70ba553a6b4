package origin

import (
	"context"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/xorb"
)

// An InfoReader is a Source that has the places of all chunks of a xorb, as a server of plans
// needs them. ErrNotFound: the xorb is absent.
type InfoReader interface {
	Info(ctx context.Context, x codec.Hash) (*xorb.Info, error)
}

// Places are the places of consecutive chunks of a xorb. xorb.Info has those of all chunks.
type Places interface {
	PackedRange(r codec.ChunkRange) (start, end int64)   // in the serialized xorb
	UnpackedRange(r codec.ChunkRange) (start, end int64) // from any chunk on
}

// A PlaceReader is a Source without infos. It has the places of chunks that plans or chunk headers
// have shown. ErrUnavailable: a place is not known.
type PlaceReader interface {
	Places(ctx context.Context, x codec.Hash, r codec.ChunkRange) (Places, error)

	// RequestPlaces requests the plan of a file again, for the places of its ranges. It returns the
	// terms of that plan. A stored plan remains.
	RequestPlaces(ctx context.Context, id codec.FileID) ([]codec.Term, error)

	// LearnPlaces learns the places of the chunks of a run from another place, if the place of
	// the first one is known.
	LearnPlaces(x codec.Hash, run *xorb.Run)
}
