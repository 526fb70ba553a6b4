package origin

import (
	"context"
	"errors"
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
	near := Near(s)
	var partBytes int64 // near by, the kernel has what was read last
	if !near {
		partBytes = infoBytes / 4
	}
	o := &objects{
		store:  s,
		near:   near,
		parts:  parts{max: partBytes},
		shards: map[codec.Hash]*shard.Reader{},
		lists:  map[codec.Hash][]codec.Hash{},
	}
	o.infos.init(infoBytes-partBytes, o.loadInfo)
	return o
}

// objects is the Source over a Store.
type objects struct {
	store Store
	near  bool
	infos infos

	finding flight[codec.FileID, *shard.FileInfo]
	opening flight[codec.Hash, *shard.Reader]
	parts   parts // of far shards

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
	return o.ChunksIn(ctx, x, r, Into{})
}

// ChunksIn implements Borrowing.
func (o *objects) ChunksIn(ctx context.Context, x codec.Hash, r codec.ChunkRange, into Into) (*xorb.Run, error) {
	in, err := o.infos.get(ctx, x)
	if err != nil {
		return nil, err
	}
	run, err := o.readRun(ctx, in, r, into)
	if err != nil {
		return nil, fmt.Errorf("xorb %s: %w", x, err)
	}
	return run, nil
}

func (o *objects) readRun(ctx context.Context, in *info, r codec.ChunkRange, into Into) (*xorb.Run, error) {
	if r.Start >= r.End || int(r.End) > in.Len() {
		return nil, codec.Corrupt("xorb", 0, "it has %d chunks, chunks %v are asked for", in.Len(), r)
	}
	start, end := in.PackedRange(r)
	var packed []byte
	if into.Buffer != nil {
		packed = into.Buffer(int(end - start))
	} else {
		packed = make([]byte, end-start)
	}
	var err error
	if s, ok := o.store.(Streaming); ok && into.Came != nil {
		err = s.ReadStream(ctx, in.key, packed, start, in.arrivals(packed, r, into.Came))
	} else {
		err = o.store.ReadAt(ctx, in.key, packed, start)
	}
	if err != nil {
		return nil, err
	}
	return in.parse(packed, r)
}

// parse makes a run of the packed chunks r.
func (in *info) parse(packed []byte, r codec.ChunkRange) (*xorb.Run, error) {
	start, end := in.PackedRange(r)
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

// arrivalStep is how much must have come for the next arrival to be told.
const arrivalStep = 128 << 10

// arrivals returns what is to be told how many bytes of packed, the chunks r, have come,
// and tells came of the chunks that are whole. What does not parse is told in the end, by
// an error.
func (in *info) arrivals(packed []byte, r codec.ChunkRange, came func(*xorb.Run)) func(n int) {
	there, next := r.Start, 0
	start, _ := in.PackedRange(r)
	return func(n int) {
		if n < next {
			return
		}
		for there < r.End-1 && int64(in.PackedEnd[there])-start <= int64(n) {
			there++
		}
		if there == r.Start {
			return
		}
		next = n + arrivalStep
		_, end := in.PackedRange(codec.ChunkRange{Start: r.Start, End: there})
		if run, err := in.parse(packed[:end-start], codec.ChunkRange{Start: r.Start, End: there}); err == nil {
			came(run)
		}
	}
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

// others says how often it is worth asking for an object again that failed with err,
// after telling the store: once for each other copy. What comes damaged from afar may
// have been damaged on the way, so it is asked for once more.
func (o *objects) others(k names.Key, err error) int {
	n := o.rejectKey(k)
	if !o.near && errors.Is(err, codec.ErrCorrupt) {
		return max(n, 1)
	}
	return n
}

func (o *objects) rejectKey(k names.Key) int {
	if s, ok := o.store.(KeyRejecter); ok {
		return s.RejectKey(k)
	}
	return 0
}
