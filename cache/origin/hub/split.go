package hub

import (
	"context"
	"hash"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// NewSplit returns one Source over the files in Xet and those outside. The hash of a file or xorb
// decides.
func NewSplit(xet, plain origin.Source) origin.Source { return &split{xet, plain} }

type split struct{ xet, plain origin.Source }

var _ origin.Source = (*split)(nil)

// of returns the source of a file or xorb.
func (s *split) of(h codec.Hash) origin.Source {
	if h.IsPlain() {
		return s.plain
	}
	return s.xet
}

// Proves implements origin.Source.
func (s *split) Proves() bool { return false }

// FileInfo implements origin.Source.
func (s *split) FileInfo(ctx context.Context, id codec.FileID) (*shard.FileInfo, error) {
	return s.of(id.File).FileInfo(ctx, id)
}

// OpenFile implements origin.Source.
func (s *split) OpenFile(ctx context.Context, id codec.FileID) (*shard.FileInfo, *origin.LargeFile, error) {
	return s.of(id.File).OpenFile(ctx, id)
}

// FileInfos implements origin.Source. Files outside Xet need no request, so they are first.
func (s *split) FileInfos(ctx context.Context, ids []codec.FileID, yield func(i int, fi *shard.FileInfo, err error)) {
	for _, isPlain := range []bool{true, false} {
		var part []codec.FileID
		var at []int // of them in ids
		for i, id := range ids {
			if id.File.IsPlain() == isPlain {
				part, at = append(part, id), append(at, i)
			}
		}
		if len(part) > 0 {
			s.of(part[0].File).FileInfos(ctx, part, func(i int, fi *shard.FileInfo, err error) { yield(at[i], fi, err) })
		}
	}
}

// Places implements origin.PlaceReader, for files in Xet.
func (s *split) Places(ctx context.Context, x codec.Hash, r codec.ChunkRange) (origin.Places, error) {
	p, ok := s.of(x).(origin.PlaceReader)
	if !ok {
		return nil, origin.ErrNotFound
	}
	return p.Places(ctx, x, r)
}

// RequestPlaces implements origin.PlaceReader, for files in Xet.
func (s *split) RequestPlaces(ctx context.Context, id codec.FileID) ([]codec.Term, error) {
	p, ok := s.of(id.File).(origin.PlaceReader)
	if !ok {
		return nil, origin.ErrNotFound
	}
	return p.RequestPlaces(ctx, id)
}

// LearnPlaces implements origin.PlaceReader, for files in Xet.
func (s *split) LearnPlaces(x codec.Hash, run *xorb.Run) {
	if p, ok := s.of(x).(origin.PlaceReader); ok {
		p.LearnPlaces(x, run)
	}
}

// Narrow implements origin.Source.
func (s *split) Narrow(ctx context.Context, id codec.FileID, t codec.Term, p codec.Piece) (codec.ChunkRange, int64, error) {
	return s.of(t.Xorb).Narrow(ctx, id, t, p)
}

// Chunks implements origin.Source.
func (s *split) Chunks(ctx context.Context, x codec.Hash, r codec.ChunkRange, o origin.ReadOptions) (*xorb.Run, error) {
	return s.of(x).Chunks(ctx, x, r, o)
}

// PackedSize implements origin.Source.
func (s *split) PackedSize(x codec.Hash, r codec.ChunkRange) int64 { return s.of(x).PackedSize(x, r) }

// TryChunks implements origin.Source.
func (s *split) TryChunks(x codec.Hash, r codec.ChunkRange, buffer func(n int) []byte) (*xorb.Run, bool) {
	return s.of(x).TryChunks(x, r, buffer)
}

// Annotate implements origin.Source.
func (s *split) Annotate(ctx context.Context, x codec.Hash, run *xorb.Run) (*xorb.Run, error) {
	return s.of(x).Annotate(ctx, x, run)
}

// Hashed implements origin.Source.
func (s *split) Hashed(ctx context.Context, x codec.Hash, r codec.ChunkRange) (bool, error) {
	return s.of(x).Hashed(ctx, x, r)
}

// Prove implements origin.Source.
func (s *split) Prove(chunks []origin.ChunkHashes) {
	var plain, xet []origin.ChunkHashes
	for _, c := range chunks {
		if c.Xorb.IsPlain() {
			plain = append(plain, c)
		} else {
			xet = append(xet, c)
		}
	}
	if len(plain) > 0 {
		s.plain.Prove(plain)
	}
	if len(xet) > 0 {
		s.xet.Prove(xet)
	}
}

// Proven implements origin.Source.
func (s *split) Proven(x codec.Hash, r codec.ChunkRange) []merkle.Leaf { return s.of(x).Proven(x, r) }

// ContentHash implements origin.Source.
func (s *split) ContentHash(id codec.FileID) (h hash.Hash, want []byte, err error) {
	return s.of(id.File).ContentHash(id)
}

// Hold implements origin.Source.
func (s *split) Hold(id codec.FileID) (release func()) { return s.of(id.File).Hold(id) }

// Reject implements origin.Source.
func (s *split) Reject(x codec.Hash) int { return s.of(x).Reject(x) }

// Forget implements origin.Source.
func (s *split) Forget(id codec.FileID) { s.of(id.File).Forget(id) }

// Local implements origin.Source.
func (s *split) Local() bool { return false }
