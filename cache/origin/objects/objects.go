package objects

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"sync"

	"github.com/xetfs/xetfs/cache/flight"
	"github.com/xetfs/xetfs/cache/lru"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/metacache"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// Options tune New. The zero value is good.
type Options struct {
	InfoBytes int64 // of xorb infos, and pieces of remote shards, in memory; 0: 64 MiB

	// Backend stores the infos of xorbs and the File Info blocks of a remote store. It is read
	// before the store, and receives the results. It is not used for a local store. nil:
	// nothing is stored.
	Backend metacache.Backend

	// Named declares that the ids of files are from pages that were proven by their hashes. A
	// shard whose bytes have the name in such an id proves its File Info blocks. Any other File
	// Info, and that of an id with Hint, is proven by the chunk hashes of its terms alone.
	Named bool

	// Scope names the store if Backend is shared with other stores. A description of a file from
	// one store must not be used for another.
	Scope string
}

// New returns a Source of the files in the shards and xorbs of a Store. It returns only proven
// results. Chunk hashes are in the footer of a xorb, or in the CAS Info of a shard that was
// opened through FileInfo. Otherwise they are computed from the bytes of the xorb. In each case
// they make the name of the xorb. The hashes of a keyed shard are not used.
func New(s origin.Store, opts Options) origin.Source {
	if opts.InfoBytes == 0 {
		opts.InfoBytes = 64 << 20
	}
	o := &objects{
		store:    s,
		local:    origin.Local(s),
		named:    opts.Named,
		lists:    map[codec.Hash][]codec.Hash{},
		walks:    make(chan struct{}, maxWalks),
		indexing: make(chan struct{}, maxIndexing),
		fetches:  newShardFetches(s),
	}
	var held int64
	if o.local {
		o.meta = metacache.New(nil, "", false)
	} else {
		o.meta = metacache.New(opts.Backend, opts.Scope, opts.Named)
		held = opts.InfoBytes / 4 // the kernel caches local files
	}
	o.opening.Detached = func(s wantedShard) bool { return o.fetches.arrive(s.hash) }
	o.shards.init(max(opts.InfoBytes/8, minOpen), held)
	o.chunkLists.byXorb = lru.New[codec.Hash, chunkList](max(opts.InfoBytes/8, minLists), nil)
	o.provenFiles.sums = lru.New[codec.Hash, struct{}](maxProven, nil)
	o.infos.init(opts.InfoBytes-held, o.loadInfo, o.meta)
	return o
}

// objects is the Source over a Store.
type objects struct {
	store origin.Store
	local bool
	infos infos
	meta  *metacache.Cache

	named bool

	finding      flight.Group[wantedFile, *shard.FileInfo]
	findingLarge flight.Group[wantedFile, *origin.LargeFile]

	opening flight.Group[wantedShard, *shardFile]

	shards      shardFiles
	chunkLists  chunkLists
	provenFiles provenFiles

	mu    sync.Mutex
	lists map[codec.Hash][]codec.Hash // xorb → shards that may list its chunks; guarded by mu
	hint  codec.Hash                  // shard of the last file that its named shard lacked; guarded by mu

	walks    chan struct{} // slots for reads of xorbs in large pieces
	indexing chan struct{} // slots for reads of File Info blocks of many terms
	fetches  *shardFetches
}

// maxIndexing is how many large File Info blocks are read at once. Each has two buffers of
// ReadAheadSize.
const maxIndexing = 2

// minOpen and minLists are the minimum bytes for the block hashes of shards, those of 2 GiB, and
// for chunk lists. They do not depend on Options.InfoBytes.
const (
	minOpen  = 5 << 20
	minLists = 2 << 20
)

var (
	_ origin.Source     = (*objects)(nil)
	_ origin.InfoReader = (*objects)(nil)
)

// Proves implements Source.
func (o *objects) Proves() bool { return true }

// Hold implements Source. A File Info that is proven may be read again at any time.
func (o *objects) Hold(codec.FileID) (release func()) { return func() {} }

// Prove implements Source.
func (o *objects) Prove([]origin.ChunkHashes) {}

// Proven implements Source.
func (o *objects) Proven(x codec.Hash, r codec.ChunkRange) []merkle.Leaf {
	in := o.infos.known(x)
	if in == nil || r.Start >= r.End || int(r.End) > in.Len() {
		return nil
	}
	leaves := make([]merkle.Leaf, 0, r.Len())
	for i := r.Start; i < r.End; i++ {
		start, end := in.UnpackedRange(codec.ChunkRange{Start: i, End: i + 1})
		leaves = append(leaves, merkle.Leaf{Hash: in.Chunks[i], Size: uint64(end - start)})
	}
	return leaves
}

// ContentHash implements Source.
func (o *objects) ContentHash(codec.FileID) (h hash.Hash, want []byte, err error) {
	return nil, nil, nil
}

// Local implements Source.
func (o *objects) Local() bool { return o.local }

// Info implements origin.InfoReader. The hashes of the chunks make the name of the xorb.
func (o *objects) Info(ctx context.Context, x codec.Hash) (*xorb.Info, error) {
	in, err := o.infos.get(ctx, x)
	if err != nil {
		return nil, err
	}
	return in.Info, nil
}

// Narrow implements Source. It refuses a term that the xorb contradicts.
func (o *objects) Narrow(ctx context.Context, id codec.FileID, t codec.Term, p codec.Piece) (codec.ChunkRange, int64, error) {
	in, err := o.infos.get(ctx, t.Xorb)
	if err != nil {
		if errors.Is(err, origin.ErrNotFound) {
			o.Forget(id)
		}
		return codec.ChunkRange{}, 0, err
	}
	if err := checkTerm(in.UnpackedEnd, t); err != nil {
		o.Forget(id)
		return codec.ChunkRange{}, 0, fmt.Errorf("xorb %s: %w", t.Xorb, err)
	}
	r, skip := in.Narrow(t.Chunks, p.Skip, p.Size)
	return r, skip, nil
}

// checkTerm returns an error unless a term fits its xorb, whose chunks end at ends.
func checkTerm(ends []uint32, t codec.Term) error {
	if t.Chunks.Start >= t.Chunks.End || int64(t.Chunks.End) > int64(len(ends)) {
		return codec.Corrupt("term", 0, "names chunks %v of a xorb of %d chunks", t.Chunks, len(ends))
	}
	size := int64(ends[t.Chunks.End-1])
	if t.Chunks.Start > 0 {
		size -= int64(ends[t.Chunks.Start-1])
	}
	if size != int64(t.Size) {
		return codec.Corrupt("term", 0, "says that chunks %v are %d bytes, they are %d", t.Chunks, t.Size, size)
	}
	return nil
}

// Chunks implements Source.
func (o *objects) Chunks(ctx context.Context, x codec.Hash, r codec.ChunkRange, opts origin.ReadOptions) (*xorb.Run, error) {
	in, err := o.infos.get(ctx, x)
	if err != nil {
		return nil, err
	}
	run, err := o.readRun(ctx, in, r, opts)
	if err != nil {
		if errors.Is(err, origin.ErrNotFound) {
			o.infos.drop(x) // or Narrow would still succeed
			o.meta.PutLost(x, in.Info)
		}
		return nil, fmt.Errorf("xorb %s: %w", x, err)
	}
	return run, nil
}

// TryChunks implements Source.
func (o *objects) TryChunks(x codec.Hash, r codec.ChunkRange, buffer func(n int) []byte) (*xorb.Run, bool) {
	s, ok := o.store.(origin.TryReader)
	if !ok || !o.local {
		return nil, false
	}
	in, ok := o.infos.lookup(x)
	if !ok || r.Start >= r.End || int(r.End) > in.Len() {
		return nil, false
	}
	start, end := in.PackedRange(r)
	packed := buffer(int(end - start))
	if !s.TryReadAt(in.key, packed, start) {
		return nil, false
	}
	run, err := in.parse(packed, r)
	return run, err == nil
}

func (o *objects) readRun(ctx context.Context, in *info, r codec.ChunkRange, opts origin.ReadOptions) (*xorb.Run, error) {
	if r.Start >= r.End || int(r.End) > in.Len() {
		return nil, codec.Corrupt("xorb", 0, "it has %d chunks, chunks %v are requested", in.Len(), r)
	}
	start, end := in.PackedRange(r)
	var packed []byte
	if opts.Buffer != nil {
		packed = opts.Buffer(int(end - start))
	} else {
		packed = make([]byte, end-start)
	}
	var err error
	if s, ok := o.store.(origin.ProgressReader); ok && opts.OnPartial != nil {
		err = s.ReadAtProgress(ctx, in.key, packed, start, in.arrivals(packed, r, opts.OnPartial))
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
	run, err := xorb.ParseRun(packed, r, in.Chunks[r.Start:r.End])
	if err != nil {
		return nil, fmt.Errorf("bytes [%d, %d): %w", start, end, err)
	}
	// The footer's offsets are covered by no hash, so they are compared with the bytes.
	if err := in.checkSizes(run); err != nil {
		return nil, err
	}
	return run, nil
}

// checkSizes returns an error unless the chunks of run have the sizes in the Info.
func (in *info) checkSizes(run *xorb.Run) error {
	for i := run.Chunks.Start; i < run.Chunks.End; i++ {
		if from, to := in.UnpackedRange(codec.ChunkRange{Start: i, End: i + 1}); to-from != int64(run.Size(i)) {
			start, _ := in.PackedRange(run.Chunks)
			return codec.Corrupt("xorb", start, "chunk %d unpacks to %d bytes, its footer says %d", i, run.Size(i), to-from)
		}
	}
	return nil
}

// Annotate implements Source. Packed chunks have the same bytes in every source.
func (o *objects) Annotate(ctx context.Context, x codec.Hash, run *xorb.Run) (*xorb.Run, error) {
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
	annotated := *run
	annotated.Hashes = in.Chunks[r.Start:r.End]
	return &annotated, nil
}

// arrivalStep is the number of bytes that arrive between two calls for a partial run.
const arrivalStep = 128 << 10

// arrivals returns a function for the number of bytes of packed, the chunks r, that have
// arrived. The function calls onPartial with the complete chunks. Bytes that do not parse
// cause no call, and an error at the end of the read.
func (in *info) arrivals(packed []byte, r codec.ChunkRange, onPartial func(*xorb.Run)) func(n int) {
	end, next := r.Start, 0 // the complete chunks are [r.Start, end)
	start, _ := in.PackedRange(r)
	return func(n int) {
		if n < next {
			return
		}
		for end < r.End-1 && int64(in.PackedEnd[end])-start <= int64(n) {
			end++
		}
		if end == r.Start {
			return
		}
		next = n + arrivalStep
		complete := codec.ChunkRange{Start: r.Start, End: end}
		_, packedEnd := in.PackedRange(complete)
		if run, err := in.parse(packed[:packedEnd-start], complete); err == nil {
			onPartial(run)
		}
	}
}

// Hashed implements Source. A xorb without an info cannot be read.
func (o *objects) Hashed(ctx context.Context, x codec.Hash, _ codec.ChunkRange) (bool, error) {
	_, err := o.infos.get(ctx, x)
	return err == nil, err
}

// Forget implements Source. It also drops the hint shard, which may be deleted by now.
func (o *objects) Forget(id codec.FileID) {
	o.meta.DropFile(id)
	o.meta.DropIndex(id)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.hint = codec.Hash{}
}

// Reject implements Source.
func (o *objects) Reject(x codec.Hash) int {
	n := o.rejectKey(names.XorbKey(x))
	o.infos.drop(x) // not before, or a load would read the same copy again
	return n
}

// retries marks the current copy of an object as corrupt after err, and returns how often a
// retry is useful. The result is the number of other copies. Corrupt bytes of a remote store
// may be damaged on the way only, so one retry is always useful.
func (o *objects) retries(k names.Key, err error) int {
	n := o.rejectKey(k)
	if !o.local && errors.Is(err, codec.ErrCorrupt) {
		return max(n, 1)
	}
	return n
}

func (o *objects) rejectKey(k names.Key) int {
	if s, ok := o.store.(origin.KeyRejecter); ok {
		return s.RejectKey(k)
	}
	return 0
}
