package origin

import (
	"context"
	"fmt"
	"sync"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// Objects reads files from the shards and xorbs of a Store. It keeps up to
// infoBytes of xorb infos; 0: 64 MiB. Chunk hashes come from a xorb's footer or, where
// it has none, from the CAS Info of the shards that were opened through FileInfo, which
// it remembers by xorb; a keyed shard's do not count.
func Objects(s Store, infoBytes int64) Source {
	if infoBytes == 0 {
		infoBytes = 64 << 20
	}
	o := &objects{
		store:  s,
		near:   Near(s),
		shards: map[codec.Hash]*shard.Reader{},
		lists:  map[codec.Hash][]codec.Hash{},
	}
	o.infos.init(infoBytes, o.loadInfo)
	return o
}

// objects is the Source over a Store.
type objects struct {
	store Store
	near  bool
	infos infos

	finding flight[codec.FileID, *shard.FileInfo]
	opening flight[codec.Hash, *shard.Reader]

	mu     sync.Mutex
	shards map[codec.Hash]*shard.Reader // open ones; guarded by mu
	lists  map[codec.Hash][]codec.Hash  // xorb → shards that may list its chunks; guarded by mu
	likely codec.Hash                   // elsewhere; guarded by mu
}

var (
	_ Source    = (*objects)(nil)
	_ Rejecter  = (*objects)(nil)
	_ Hashing   = (*objects)(nil)
	_ Borrowing = (*objects)(nil)
)

// Near implements Source.
func (o *objects) Near() bool { return o.near }

// Narrow implements Source. It refuses a term that the xorb contradicts.
func (o *objects) Narrow(ctx context.Context, _ codec.FileID, t codec.Term, p codec.Piece) (codec.ChunkRange, int64, error) {
	in, err := o.infos.get(ctx, t.Xorb)
	if err != nil {
		return codec.ChunkRange{}, 0, err
	}
	if err := checkTerm(in.Info, t); err != nil {
		return codec.ChunkRange{}, 0, fmt.Errorf("xorb %s: %w", t.Xorb, err)
	}
	r, skip := in.Narrow(t.Chunks, p.Skip, p.Size)
	return r, skip, nil
}

// checkTerm says whether a term fits the xorb it names.
func checkTerm(in *xorb.Info, t codec.Term) error {
	if t.Chunks.Start >= t.Chunks.End || int(t.Chunks.End) > in.Len() {
		return codec.Corrupt("term", 0, "names chunks %v of a xorb of %d chunks", t.Chunks, in.Len())
	}
	if start, end := in.UnpackedRange(t.Chunks); end-start != int64(t.Size) {
		return codec.Corrupt("term", 0, "says that chunks %v are %d bytes, they are %d", t.Chunks, t.Size, end-start)
	}
	return nil
}

// Chunks implements Source.
func (o *objects) Chunks(ctx context.Context, x codec.Hash, r codec.ChunkRange) (*xorb.Run, error) {
	return o.ChunksIn(ctx, x, r, nil)
}

// ChunksIn implements Borrowing.
func (o *objects) ChunksIn(ctx context.Context, x codec.Hash, r codec.ChunkRange, buffer func(size int) []byte) (*xorb.Run, error) {
	in, err := o.infos.get(ctx, x)
	if err != nil {
		return nil, err
	}
	run, err := o.readRun(ctx, in, r, buffer)
	if err != nil {
		return nil, fmt.Errorf("xorb %s: %w", x, err)
	}
	return run, nil
}

func (o *objects) readRun(ctx context.Context, in *info, r codec.ChunkRange, buffer func(size int) []byte) (*xorb.Run, error) {
	if r.Start >= r.End || int(r.End) > in.Len() {
		return nil, codec.Corrupt("xorb", 0, "it has %d chunks, chunks %v are asked for", in.Len(), r)
	}
	start, end := in.PackedRange(r)
	var packed []byte
	if buffer != nil {
		packed = buffer(int(end - start))
	} else {
		packed = make([]byte, end-start)
	}
	if err := o.store.ReadAt(ctx, in.key, packed, start); err != nil {
		return nil, err
	}
	var hashes []codec.Hash
	if in.Chunks != nil {
		hashes = in.Chunks[r.Start:r.End]
	}
	run, err := xorb.ParseRun(packed, r, hashes)
	if err != nil {
		return nil, fmt.Errorf("bytes [%d, %d): %w", start, end, err)
	}
	// The footer's offsets are covered by no hash: what they say must be what is there.
	for i := r.Start; i < r.End; i++ {
		if from, to := in.UnpackedRange(codec.ChunkRange{Start: i, End: i + 1}); to-from != int64(run.Size(i)) {
			return nil, codec.Corrupt("xorb", start, "chunk %d unpacks to %d bytes, its footer says %d", i, run.Size(i), to-from)
		}
	}
	return run, nil
}

// Hashed implements Hashing.
func (o *objects) Hashed(ctx context.Context, x codec.Hash) (bool, error) {
	in, err := o.infos.get(ctx, x)
	return err == nil && in.Chunks != nil, err
}

// Reject implements Rejecter.
func (o *objects) Reject(x codec.Hash) int {
	others := o.rejectKey(names.XorbKey(x))
	o.infos.drop(x) // not before: it would come back from the same copy
	return others
}

func (o *objects) rejectKey(k names.Key) int {
	if s, ok := o.store.(KeyRejecter); ok {
		return s.RejectKey(k)
	}
	return 0
}
