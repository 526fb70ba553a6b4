package origin

import (
	"bytes"
	"context"
	"fmt"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/shard"
)

// wholeShard is the largest shard that is read into memory. A larger one is read twice:
// its size is what a sparse file or a listing says.
const wholeShard = 8 << 20

// ReadShard opens a shard. It reads all bytes of the shard and compares their hash with the name. It reads a
// damaged shard again.
func ReadShard(ctx context.Context, s Store, h codec.Hash) (sh *shard.Reader, err error) {
	err = Reread(ctx, func(ctx context.Context) (err error) {
		sh, err = readShard(ctx, s, h)
		return err
	})
	return sh, err
}

func readShard(ctx context.Context, s Store, h codec.Hash) (*shard.Reader, error) {
	k := names.ShardKey(h)
	size, err := s.Size(ctx, k)
	if err != nil {
		return nil, err
	}
	if err := shard.CheckSize(size); err != nil {
		return nil, fmt.Errorf("%s: %w", k, err)
	}
	r := SequentialReader(ctx, s, k, size)
	if size <= wholeShard {
		b := make([]byte, size)
		if err := s.ReadAt(ctx, k, b, 0); err != nil {
			return nil, err
		}
		r = bytes.NewReader(b)
	}
	got, err := merkle.ReadChunk(r, size)
	if err != nil {
		return nil, err
	}
	if got != h {
		return nil, fmt.Errorf("%s: %w", k, codec.Corrupt("shard", 0, "its bytes have the hash %s", got))
	}
	sh, err := shard.NewReader(r, size)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k, err)
	}
	return sh, nil
}
