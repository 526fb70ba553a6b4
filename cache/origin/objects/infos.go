package objects

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/xetfs/xetfs/cache/flight"
	"github.com/xetfs/xetfs/cache/lru"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/metacache"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// infoChunkBytes is the memory of one chunk in an Info: a hash and two ends.
const infoChunkBytes = 40

// infoBytes returns the memory of an Info and of its list entry.
func infoBytes(in *xorb.Info) int64 {
	return 256 + infoChunkBytes*int64(len(in.PackedEnd))
}

// An info is the Info of a xorb, with the hash that it was requested by.
type info struct {
	*xorb.Info
	xorb codec.Hash
	key  names.Key // of the xorb, so that it need not be spelled for every read
}

// infos caches the infos of the xorbs that were used last, up to a number of bytes.
type infos struct {
	load func(ctx context.Context, x codec.Hash) (*xorb.Info, error)
	meta *metacache.Cache

	loads flight.Group[codec.Hash, *info]

	byXorb *lru.Clock[codec.Hash, *info] // changed with mu

	mu      sync.Mutex
	loading map[codec.Hash]*loadToken // of the loads whose results may be stored; guarded by mu
}

// A loadToken identifies one load by its address.
type loadToken struct{ _ byte } // so that each has an address of its own

func (c *infos) init(maxBytes int64, load func(ctx context.Context, x codec.Hash) (*xorb.Info, error), k *metacache.Cache) {
	c.load, c.meta = load, k
	c.byXorb, c.loading = lru.NewClock[codec.Hash, *info](maxBytes), map[codec.Hash]*loadToken{}
}

// get returns the info of xorb x, from memory, the metacache or the store. Concurrent callers
// share one load.
func (c *infos) get(ctx context.Context, x codec.Hash) (*info, error) {
	if in, ok := c.lookup(x); ok {
		return in, nil
	}
	return c.loads.Do(ctx, x, func(ctx context.Context) (*info, error) {
		if in, ok := c.lookup(x); ok {
			return in, nil // a call that has ended since has loaded it
		}
		token := c.begin(x)
		in := &info{c.meta.Info(ctx, x), x, names.XorbKey(x)}
		if in.Info != nil {
			c.end(token, in, nil, nil)
			return in, nil
		}
		var err error
		var value []byte
		if in.Info, err = c.load(ctx, x); err == nil {
			value = c.meta.EncodeInfo(x, in.Info)
		}
		c.end(token, in, value, err)
		return in, err
	})
}

var errWouldWait = errors.New("not in memory")

// tryGet returns the chunks of xorb x from memory, or errWouldWait.
func (c *infos) tryGet(x codec.Hash) (chunkList, error) {
	if in, ok := c.lookup(x); ok {
		return in.chunks(), nil
	}
	return chunkList{}, errWouldWait
}

// PackedSize implements Source.
func (o *objects) PackedSize(x codec.Hash, r codec.ChunkRange) int64 {
	in, ok := o.infos.lookup(x)
	if !ok || r.Start >= r.End || int(r.End) > in.Len() {
		return 0
	}
	start, end := in.PackedRange(r)
	return end - start
}

// begin notes that xorb x is being loaded.
func (c *infos) begin(x codec.Hash) (token *loadToken) {
	c.mu.Lock()
	defer c.mu.Unlock()
	token = new(loadToken)
	c.loading[x] = token
	return token
}

// end stores a loaded info in memory, and value in the metacache. It stores nothing after an
// error, or if the info was dropped meanwhile. A dropped info may describe a copy that is no
// longer in use.
func (c *infos) end(token *loadToken, in *info, value []byte, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.loading[in.xorb] != token {
		return
	}
	delete(c.loading, in.xorb)
	if err == nil {
		c.byXorb.Add(in.xorb, in, infoBytes(in.Info))
		c.meta.PutInfo(in.xorb, value) // under mu, or it could follow a concurrent drop
	}
}

// lookup returns an info from memory. It takes no lock, because each read looks up at least one.
func (c *infos) lookup(x codec.Hash) (*info, bool) { return c.byXorb.Get(x) }

// known returns the info of xorb x from memory or the metacache, or nil. The store may have lost the
// xorb.
func (c *infos) known(x codec.Hash) *xorb.Info {
	if in, ok := c.lookup(x); ok {
		return in.Info
	}
	if in := c.meta.Info(context.Background(), x); in != nil {
		return in
	}
	return c.meta.Lost(x)
}

// drop removes the info of xorb x, which describes a corrupt copy. A later get does not return
// the result of a load that is running now.
func (c *infos) drop(x codec.Hash) {
	c.loads.Forget(x)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.loading, x)
	c.meta.DropInfo(x)
	c.byXorb.Remove(x)
}

// loadInfo reads the places of the chunks of xorb x, from its footer or, without one, from its
// chunk headers. A damaged copy is skipped if there is another.
func (o *objects) loadInfo(ctx context.Context, x codec.Hash) (*xorb.Info, error) {
	var first error
	for try := 0; ; try++ {
		in, err := o.readInfo(ctx, x)
		if err == nil {
			return in, nil
		}
		if first == nil {
			first = err
		}
		if isContextError(err) || try >= o.retries(names.XorbKey(x), err) {
			return nil, fmt.Errorf("xorb %s: %w", x, first)
		}
		ctx = origin.NoCache(ctx)
	}
}

// infoTail is the number of bytes at the end of a remote xorb that are requested before its size
// is known. Nearly every footer fits into them. xorb.ReadInfo reads the same number.
const infoTail = 64 << 10

// tailOf returns the number of bytes to request from the end of xorb x. They hold the whole
// footer if a shard in memory lists the chunks.
func (o *objects) tailOf(x codec.Hash) int {
	if o.local {
		return infoTail
	}
	for _, s := range o.shardsListing(x) {
		f := o.opened(s, true)
		if f == nil || !f.part.Load().Holds(0, int(f.size)) {
			continue
		}
		if block, err := f.XorbInfo(x); err == nil {
			return max(infoTail, xorb.FooterSize(len(block.Chunks)))
		}
	}
	return infoTail
}

func (o *objects) readInfo(ctx context.Context, x codec.Hash) (*xorb.Info, error) {
	k := names.XorbKey(x)
	part, err := origin.ReadPart(ctx, o.store, k, origin.Tail, o.tailOf(x))
	if err != nil {
		return nil, err
	}
	ahead, done := o.ahead(ctx, k, part.Size)
	defer done()
	r := newPieceReader(ahead, &part) // without a new footer, ReadInfo reads all chunk headers
	in, err := xorb.ReadInfo(r, part.Size)
	if errors.Is(err, xorb.ErrNoFooter) {
		return o.walkInfo(ctx, x, r, part.Size)
	}
	if err != nil {
		return nil, err
	}
	if in.Xorb != x {
		return nil, codec.Corrupt("xorb footer", 0, "it is the footer of xorb %s", in.Xorb)
	}
	return in, nil
}

// maxWalks is the maximum number of remote xorbs that are read from start to end at once. Each
// has a buffer of ReadAheadSize.
const maxWalks = 8

// ahead returns a ReadAhead that waits for a slot before its buffer becomes large. done
// releases the slot.
func (o *objects) ahead(ctx context.Context, k names.Key, size int64) (r io.ReaderAt, done func()) {
	if o.local {
		return origin.ReaderAt(ctx, o.store, k), func() {}
	}
	began := false
	grow := func(n int64) error {
		if began || n <= infoTail {
			return nil
		}
		select {
		case o.walks <- struct{}{}:
			began = true
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	done = func() {
		if began {
			<-o.walks
		}
	}
	return &origin.ReadAhead{Below: origin.ReaderAt(ctx, o.store, k), Size: size, Grow: grow}, done
}

// walkInfo is readInfo for a xorb without footer. It returns the chunk hashes from the CAS Info
// of a known shard, if one lists them. Otherwise it computes them from the bytes of all chunks.
func (o *objects) walkInfo(ctx context.Context, x codec.Hash, r io.ReaderAt, size int64) (*xorb.Info, error) {
	in, err := xorb.WalkInfo(r, size)
	if err != nil {
		return nil, err
	}
	if end := int64(in.PackedEnd[in.Len()-1]); end != size {
		return nil, codec.Corrupt("xorb", end, "%d bytes behind the last chunk are not a footer", size-end)
	}
	in.Xorb = x
	in.Chunks, err = o.casHashes(ctx, in)
	if in.Chunks != nil || err != nil && !errors.Is(err, codec.ErrCorrupt) && !errors.Is(err, origin.ErrNotFound) {
		return in, err
	}
	if err := hashChunks(ctx, in, r); err != nil {
		return nil, err
	}
	if root := in.Root(); root != x {
		return nil, codec.Corrupt("xorb", 0, "its chunks make xorb %s", root)
	}
	return in, nil
}

// hashChunks computes the hashes of all chunks of a xorb from their bytes.
func hashChunks(ctx context.Context, in *xorb.Info, r io.ReaderAt) error {
	in.Chunks = make([]codec.Hash, in.Len())
	var packed, unpacked []byte
	for i := range in.Chunks {
		if err := ctx.Err(); err != nil {
			return err
		}
		one := codec.ChunkRange{Start: uint32(i), End: uint32(i) + 1}
		start, end := in.PackedRange(one)
		packed = slices.Grow(packed[:0], int(end-start))[:end-start]
		if n, err := r.ReadAt(packed, start); n < len(packed) {
			return err
		}
		run, err := xorb.ParseRun(packed, one, nil)
		if err != nil {
			return err
		}
		unpacked = slices.Grow(unpacked[:0], run.Size(one.Start))[:run.Size(one.Start)]
		if in.Chunks[i], err = run.Unpack(one.Start, unpacked); err != nil {
			return err
		}
	}
	return nil
}

// casHashes returns the chunk hashes of a xorb from the CAS Info of a shard. It checks that
// they make the hash of the xorb. It returns nil if no known shard lists them.
func (o *objects) casHashes(ctx context.Context, in *xorb.Info) ([]codec.Hash, error) {
	var first error
	for _, s := range o.shardsListing(in.Xorb) {
		var hashes []codec.Hash
		err := o.fromShard(ctx, s, func(f *shardFile) error {
			var err error
			hashes, err = hashesIn(f.Reader, in)
			return err
		})
		if err == nil {
			return hashes, nil
		}
		if first == nil && !errors.Is(err, shard.ErrNoXorb) {
			first = err
		}
	}
	return nil, first
}

func hashesIn(r *shard.Reader, in *xorb.Info) ([]codec.Hash, error) {
	if r.Meta().Keyed {
		// The chunk hashes of the shard are keyed. They can be compared only with chunks, and
		// they do not make the hash of the xorb.
		return nil, shard.ErrNoXorb
	}
	block, err := r.XorbInfo(in.Xorb)
	if err != nil {
		return nil, err
	}
	return checkedHashes(in, block)
}

// checkedHashes returns the chunk hashes of a CAS Info block if it describes the xorb
// that in was read from.
func checkedHashes(in *xorb.Info, block *shard.XorbInfo) ([]codec.Hash, error) {
	if len(block.Chunks) != in.Len() {
		return nil, codec.Corrupt("cas info block", 0, "lists %d chunks, the xorb has %d", len(block.Chunks), in.Len())
	}
	hashes := make([]codec.Hash, in.Len())
	for i, c := range block.Chunks {
		if end := c.Start + c.Size; end != in.UnpackedEnd[i] {
			return nil, codec.Corrupt("cas info block", 0, "chunk %d ends at unpacked byte %d, in the xorb at %d", i, end, in.UnpackedEnd[i])
		}
		hashes[i] = c.Hash
	}
	checked := *in
	checked.Chunks = hashes
	if root := checked.Root(); root != in.Xorb {
		return nil, codec.Corrupt("cas info block", 0, "its chunks make xorb %s", root)
	}
	return hashes, nil
}
