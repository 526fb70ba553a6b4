package origin

import (
	"context"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// Through is what decorators embed: a Source that passes everything on to the one below
// it, also what that offers beyond Source. What the one below does not offer is
// answered as if there were nothing to offer.
type Through struct{ Source }

var (
	_ Source     = Through{}
	_ Rejecter   = Through{}
	_ Hashing    = Through{}
	_ Borrowing  = Through{}
	_ Adopting   = Through{}
	_ Forgetting = Through{}
	_ Describing = Through{}
	_ Opening    = Through{}
)

// Reject implements Rejecter.
func (t Through) Reject(x codec.Hash) int {
	if r, ok := t.Source.(Rejecter); ok {
		return r.Reject(x)
	}
	return 0
}

// Hashed implements Hashing.
func (t Through) Hashed(ctx context.Context, x codec.Hash) (bool, error) {
	if h, ok := t.Source.(Hashing); ok {
		return h.Hashed(ctx, x)
	}
	return false, nil
}

// ChunksIn implements Borrowing. Over a Source that does not borrow it is Chunks.
func (t Through) ChunksIn(ctx context.Context, x codec.Hash, r codec.ChunkRange, into Into) (*xorb.Run, error) {
	if b, ok := t.Source.(Borrowing); ok {
		return b.ChunksIn(ctx, x, r, into)
	}
	return t.Chunks(ctx, x, r)
}

// Adopt implements Adopting. A Source that does not adopt knows nothing more of run.
func (t Through) Adopt(ctx context.Context, x codec.Hash, run *xorb.Run) (*xorb.Run, error) {
	if a, ok := t.Source.(Adopting); ok {
		return a.Adopt(ctx, x, run)
	}
	return run, nil
}

// Forget implements Forgetting.
func (t Through) Forget(id codec.FileID) {
	if f, ok := t.Source.(Forgetting); ok {
		f.Forget(id)
	}
}

// OpenFile implements Opening.
func (t Through) OpenFile(ctx context.Context, id codec.FileID) (*shard.FileInfo, *LargeFile, error) {
	return OpenFile(ctx, t.Source, id)
}

// FileInfos implements Describing. A Source that does not describe is asked for one file
// after the other.
func (t Through) FileInfos(ctx context.Context, ids []codec.FileID, tell func(i int, fi *shard.FileInfo, err error)) {
	if d, ok := t.Source.(Describing); ok {
		d.FileInfos(ctx, ids, tell)
		return
	}
	for i, id := range ids {
		fi, err := t.Source.FileInfo(ctx, id)
		tell(i, fi, err)
	}
}
