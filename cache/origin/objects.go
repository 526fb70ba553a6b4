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

// Objects is ObjectsWith in infoBytes of memory, and without a Keeper.
func Objects(s Store, infoBytes int64) Source {
	return ObjectsWith(s, ObjectsOptions{InfoBytes: infoBytes})
}

// ObjectsOptions tune ObjectsWith. The zero value is good.
type ObjectsOptions struct {
	InfoBytes int64 // of xorb infos, and pieces of far shards, in memory; 0: 64 MiB

	// Keep is asked before a far store where the chunks of a xorb lie and what a File Info
	// block says, and gets what the store answered. A near store needs none. nil: none.
	Keep Keeper

	// Scope names the store, if Keep is used for others, too: what one store says of a
	// file must not be read in the name of another.
	Scope string
}

// ObjectsWith reads files from the shards and xorbs of a Store. Chunk hashes come from a
// xorb's footer or, where it has none, from the CAS Info of the shards that were opened
// through FileInfo, which it remembers by xorb; a keyed shard's do not count.
func ObjectsWith(s Store, opts ObjectsOptions) Source {
	if opts.InfoBytes == 0 {
		opts.InfoBytes = 64 << 20
	}
	o := &objects{
		store:  s,
		near:   Near(s),
		shards: map[codec.Hash]*shard.Reader{},
		lists:  map[codec.Hash][]codec.Hash{},

		doubted: map[codec.Hash]bool{},
		walks:   make(chan struct{}, maxWalks),
	}
	if !o.near {
		o.kept.keeper, o.kept.scope = opts.Keep, opts.Scope
		o.parts.max = opts.InfoBytes / 4 // near by, the kernel has what was read last
	}
	o.infos.init(opts.InfoBytes-o.parts.max, o.loadInfo, &o.kept)
	return o
}

// objects is the Source over a Store.
type objects struct {
	store Store
	near  bool
	infos infos
	kept  kept

	finding flight[wantedFile, *shard.FileInfo]
	opening flight[codec.Hash, *shard.Reader]
	parts   parts // of far shards

	mu     sync.Mutex
	shards map[codec.Hash]*shard.Reader // open ones; guarded by mu
	lists  map[codec.Hash][]codec.Hash  // xorb → shards that may list its chunks; guarded by mu
	likely codec.Hash                   // elsewhere; guarded by mu

	doubted map[codec.Hash]bool // guarded by mu

	walks chan struct{} // turns of those who read large pieces
}

var (
	_ Source     = (*objects)(nil)
	_ Rejecter   = (*objects)(nil)
	_ Hashing    = (*objects)(nil)
	_ Borrowing  = (*objects)(nil)
	_ Adopting   = (*objects)(nil)
	_ Forgetting = (*objects)(nil)
	_ Describing = (*objects)(nil)
	_ Prompt     = (*objects)(nil)
)

// Near implements Source.
func (o *objects) Near() bool { return o.near }

// Narrow implements Source. It refuses a term that the xorb contradicts.
func (o *objects) Narrow(ctx context.Context, id codec.FileID, t codec.Term, p codec.Piece) (codec.ChunkRange, int64, error) {
	in, err := o.infos.get(ctx, t.Xorb)
	if err != nil {
		if errors.Is(err, ErrNotFound) {
			o.Forget(id)
		}
		return codec.ChunkRange{}, 0, err
	}
	if err := checkTerm(in.Info, t); err != nil {
		o.Forget(id)
		if in.Chunks == nil {
			o.doubt(t.Xorb)
		}
		return codec.ChunkRange{}, 0, fmt.Errorf("xorb %s: %w", t.Xorb, err)
	}
	r, skip := in.Narrow(t.Chunks, p.Skip, p.Size)
	return r, skip, nil
}

// maxDoubted is for how many xorbs doubt does something.
const maxDoubted = 1024

// doubt has the sizes of a xorb learnt again that no hash covers and a term contradicts:
// one of the two is damaged, and it may have been damaged on the way. It does so once,
// because of a far store that costs as much as the xorb.
func (o *objects) doubt(x codec.Hash) {
	o.mu.Lock()
	again := !o.doubted[x] && len(o.doubted) < maxDoubted
	if again {
		o.doubted[x] = true
	}
	o.mu.Unlock()
	if again {
		o.infos.drop(x)
	}
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
		if errors.Is(err, ErrNotFound) {
			o.infos.drop(x) // or Narrow would not notice
		}
		return nil, fmt.Errorf("xorb %s: %w", x, err)
	}
	o.kept.putLate()
	return run, nil
}

// ChunksNow implements Prompt.
func (o *objects) ChunksNow(x codec.Hash, r codec.ChunkRange, buffer func(size int) []byte) (*xorb.Run, bool) {
	s, ok := o.store.(PromptStore)
	if !ok || !o.near {
		return nil, false
	}
	in, ok := o.infos.lookup(x)
	if !ok || r.Start >= r.End || int(r.End) > in.Len() {
		return nil, false
	}
	start, end := in.PackedRange(r)
	packed := buffer(int(end - start))
	if !s.ReadNow(in.key, packed, start) {
		return nil, false
	}
	run, err := in.parse(packed, r)
	return run, err == nil
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
	if err := in.checkSizes(run); err != nil {
		return nil, err
	}
	return run, nil
}

// checkSizes says whether the chunks of run have the sizes that they should have.
func (in *info) checkSizes(run *xorb.Run) error {
	for i := run.Chunks.Start; i < run.Chunks.End; i++ {
		if from, to := in.UnpackedRange(codec.ChunkRange{Start: i, End: i + 1}); to-from != int64(run.Size(i)) {
			start, _ := in.PackedRange(run.Chunks)
			return codec.Corrupt("xorb", start, "chunk %d unpacks to %d bytes, its footer says %d", i, run.Size(i), to-from)
		}
	}
	return nil
}

// Adopt implements Adopting. Where the packed chunks were when they were read does not
// matter: they are the same wherever they lie.
func (o *objects) Adopt(ctx context.Context, x codec.Hash, run *xorb.Run) (*xorb.Run, error) {
	in, err := o.infos.get(ctx, x)
	if err != nil {
		return nil, err
	}
	r := run.Chunks
	if r.Start >= r.End || int(r.End) > in.Len() {
		return nil, codec.Corrupt("run", 0, "xorb %s has %d chunks, these are %v", x, in.Len(), r)
	}
	if err := in.checkSizes(run); err != nil {
		return nil, fmt.Errorf("xorb %s: %w", x, err)
	}
	adopted := *run
	adopted.Hashes = nil
	if in.Chunks != nil {
		adopted.Hashes = in.Chunks[r.Start:r.End]
	}
	return &adopted, nil
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

// Forget implements Forgetting.
func (o *objects) Forget(id codec.FileID) { o.kept.dropFile(id) }

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
