package cache

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/xorb"
)

// A Run is packed chunks with their sources.
type Run struct {
	*xorb.Run
	c         *Cache
	xorb      codec.Hash
	replica   int   // of the xorb
	drops     int64 // of the Cache, at the start
	unchecked bool  // see Refetch
	waits     bool  // see WaitForDisk
	known     bool  // see RunKnown

	// With a disk cache:
	fromDisk   []codec.ChunkRange // the chunks from disk
	verified   []atomic.Bool      // chunks that were unpacked; nil: all are from disk
	unverified atomic.Int64       // number of the others
	buf        *buffer            // of the packed bytes; nil: they are not pooled
}

// Run returns packed chunks, for callers that need the end of each. It bypasses the memory
// cache. Chunks on disk are read from there. The others are stored there once all of them were
// unpacked with the Unpack of the Run. The caller must compare the hash of the whole file, because
// some chunks may be unknown.
func (c *Cache) Run(ctx context.Context, x codec.Hash, r codec.ChunkRange) (*Run, error) {
	return c.run(ctx, x, r, false)
}

// RunKnown is Run that requests unknown chunks on disk again, as Read does. It is for files that
// other callers read at the same time: one wrong chunk would be an error of all of them.
func (c *Cache) RunKnown(ctx context.Context, x codec.Hash, r codec.ChunkRange) (*Run, error) {
	return c.run(ctx, x, r, true)
}

func (c *Cache) run(ctx context.Context, x codec.Hash, r codec.ChunkRange, known bool) (*Run, error) {
	run := &Run{replica: c.replicas.current(x), c: c, xorb: x, drops: c.drops.Count(), known: known}
	if c.packed == nil {
		o := origin.ReadOptions{}
		if c.src.Local() {
			o.Buffer = run.allocate
		}
		got, err := c.requestChunks(ctx, x, r, o)
		if err != nil {
			return nil, &replicaError{run.replica, err}
		}
		run.Run = got
		return run, nil
	}
	return run, run.collect(ctx, r)
}

// allocate returns a buffer for the packed chunks.
func (r *Run) allocate(n int) []byte {
	r.buf = newBuffer(n)
	return r.buf.b
}

// Free releases the packed bytes for other runs. No call that uses them may be running or follow.
// A Run without a call of Free is left to the garbage collector.
func (r *Run) Free() {
	r.buf.free()
	r.buf = nil
}

// WaitForDisk makes the last Unpack wait for a busy disk, at most for maxDrain. It is for a caller that reads
// the chunks again, and is called before the first Unpack.
func (r *Run) WaitForDisk() { r.waits = true }

// store gives the chunks from the origin to the disk, where they replace other copies. Unchecked chunks
// replace none: the copies may be proven.
func (r *Run) store() error {
	put := putFunc(r.c.packed.PutRunNoCopy)
	if r.waits {
		ctx, cancel := context.WithTimeout(context.Background(), maxDrain)
		defer cancel()
		put = r.c.putWaiting(ctx)
	}
	ranges := r.fetched()
	if r.unchecked {
		ranges = r.c.packed.Missing(r.xorb, r.Chunks)
	}
	var err error
	for _, k := range ranges {
		err = cmp.Or(err, put(r.xorb, r.Slice(k), func() {}))
	}
	return err
}

// fetched returns the chunks that are not from disk.
func (r *Run) fetched() []codec.ChunkRange {
	var fetched codec.ChunkSet
	fetched.Add(r.Chunks)
	for _, k := range r.fromDisk {
		fetched.Remove(k)
	}
	return slices.Collect(fetched.Ranges(0, codec.MaxXorbChunks))
}

// collect gets the chunks of r from disk and from the origin.
func (r *Run) collect(ctx context.Context, want codec.ChunkRange) error {
	var all []*xorb.Run
	for at := want; at.Start < at.End; {
		run, fromDisk, err := r.first(ctx, at)
		if err != nil {
			for _, run := range all {
				if !r.isFromDisk(run.Chunks.Start) {
					r.c.storeRun(r.xorb, run, r.drops) // no caller will unpack it
				}
			}
			return &replicaError{r.replica, err}
		}
		if fromDisk {
			r.fromDisk = append(r.fromDisk, run.Chunks)
		}
		all = append(all, run)
		at.Start = run.Chunks.End
	}
	run, err := xorb.Join(all, nil)
	if err != nil {
		return err
	}
	r.Run = run
	if len(r.fromDisk) < len(all) {
		r.expectUnpack()
	}
	return nil
}

// expectUnpack makes markVerified store the run once all chunks were unpacked.
func (r *Run) expectUnpack() {
	if r.c.packed != nil {
		r.verified = make([]atomic.Bool, r.Chunks.Len())
		r.unverified.Store(int64(r.Chunks.Len()))
	}
}

// first returns the first chunks of a range: up to the end of those on disk, or of one request to
// the origin.
func (r *Run) first(ctx context.Context, want codec.ChunkRange) (run *xorb.Run, fromDisk bool, err error) {
	c := r.c
	seen := c.fetches.diskWrites.Load()
	absent := r.firstAbsent(want)
	hasStored := absent.Start > want.Start
	if hasStored {
		run, ok := c.packed.Run(r.xorb, codec.ChunkRange{Start: want.Start, End: absent.Start})
		if ok {
			run, ok = c.annotate(ctx, r.xorb, run)
		}
		if ok {
			c.stats.diskHits.Add(int64(run.Chunks.Len()))
			return run, true, nil
		}
		absent.Start = want.Start
	}
	if run := c.fetches.copyQueued(r.xorb, &absent); run != nil {
		c.stats.shared.Add(int64(run.Chunks.Len()))
		return run, false, nil
	}
	if !hasStored && c.fetches.diskWrites.Load() != seen {
		return r.first(ctx, want) // some chunks may be on disk now
	}
	t := &transfer{c: c, xorb: r.xorb}
	if run, err = t.request(ctx, absent); err != nil {
		c.storeRun(r.xorb, run, r.drops) // the chunks that arrived
		return nil, false, err
	}
	return run, false, nil
}

// Store stores chunks from the origin on disk if the caller will not unpack them. It does not
// wait for the disk.
func (r *Run) Store() {
	if r.verified == nil || r.unverified.Load() == 0 {
		return
	}
	for _, k := range r.fetched() {
		r.c.storeRun(r.xorb, r.Slice(k), r.drops)
	}
}

// storeRun stores the missing chunks of a run that match their hashes, when the disk has room
// for them.
func (c *Cache) storeRun(x codec.Hash, run *xorb.Run, drops int64) {
	if run != nil && c.packed.WriteErr() == nil {
		s := &runStorer{c: c, xorb: x, drops: drops, next: run.Chunks.Start, put: c.packed.PutRunNoCopy}
		s.store(run, 1) // it is a cache
		s.storeLater(run)
	}
}

// firstAbsent returns the first range of want that it may not get from disk, with gaps of up to
// coalesceChunks. If all chunks are on disk, the range is empty and at the end of want.
func (r *Run) firstAbsent(want codec.ChunkRange) codec.ChunkRange {
	missing := r.c.packed.Missing
	if r.known {
		missing = r.c.MissingForReads
	}
	var gaps codec.ChunkSet
	for _, gap := range missing(r.xorb, want) {
		gaps.Add(gap)
	}
	for first := range gaps.Ranges(coalesceChunks, codec.MaxXorbChunks) {
		return first
	}
	return codec.ChunkRange{Start: want.End, End: want.End}
}

// Unpack is xorb.Run.Unpack. Its error is for ShouldRetry.
func (r *Run) Unpack(chunk uint32, dst []byte) (codec.Hash, error) {
	hash, err := r.verify(chunk, dst)
	if err == nil {
		r.markVerified(chunk)
		return hash, nil
	}
	if !r.isFromDisk(chunk) {
		return codec.Hash{}, &replicaError{r.replica, err}
	}
	for _, k := range r.fromDisk { // all of them, so that one more try is enough
		r.c.packed.Drop(r.xorb, k)
	}
	return codec.Hash{}, diskCorrupt(r.xorb, err)
}

// verify compares with the known hash, also with NoVerify: the disk cache only stores verified
// chunks.
func (r *Run) verify(chunk uint32, dst []byte) (codec.Hash, error) {
	if r.unchecked {
		return r.Run.Unpack(chunk, dst)
	}
	return r.c.verify(r.xorb, r.Run, chunk, dst, r.isFromDisk(chunk))
}

// isFromDisk reports whether a chunk is from disk.
func (r *Run) isFromDisk(chunk uint32) bool {
	return slices.ContainsFunc(r.fromDisk, func(k codec.ChunkRange) bool { return k.Start <= chunk && chunk < k.End })
}

// markVerified notes that a chunk is verified. The last one stores the run on disk.
func (r *Run) markVerified(chunk uint32) {
	if r.verified != nil && !r.verified[chunk-r.Chunks.Start].Swap(true) && r.unverified.Add(-1) == 0 {
		_ = r.c.put(r.drops, r.xorb, r.Run, r.store) // it is a cache
	}
}
