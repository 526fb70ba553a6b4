package cache

import (
	"bytes"
	"context"
	"slices"
	"sync/atomic"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/xorb"
)

// A Run is packed chunks that know where they come from.
type Run struct {
	*xorb.Run
	replica int // of their xorb, that was read

	// Where chunks are kept on disk:
	c          *Cache
	xorb       codec.Hash
	fromDisk   []codec.ChunkRange // what was on disk
	verified   []atomic.Bool      // which chunks have unpacked; nil: all were on disk
	unverified atomic.Int64       // how many have not
}

// Run returns the chunks themselves, packed, for whoever must know where each ends. It
// goes past the memory cache. What is on disk comes from there, and what is not is kept
// there once all of it was unpacked with the Run's Unpack.
func (c *Cache) Run(ctx context.Context, x codec.Hash, r codec.ChunkRange) (*Run, error) {
	run := &Run{replica: c.replicas.current(x)}
	if c.packed == nil {
		got, err := c.src.Chunks(ctx, x, r, origin.ReadOptions{})
		if err != nil {
			return nil, &replicaError{run.replica, err}
		}
		run.Run = c.verifiable(got)
		return run, nil
	}
	// With NoVerify the chunks know their hashes all the same: what goes to disk was
	// compared with them.
	run.c, run.xorb = c, x
	return run, run.collect(ctx, r)
}

// collect gets the chunks of r from disk and from the origin.
func (r *Run) collect(ctx context.Context, want codec.ChunkRange) error {
	var all []*xorb.Run
	for at := want; at.Start < at.End; {
		run, kept, err := r.c.firstRun(ctx, r.xorb, at)
		if err != nil {
			for _, run := range all {
				r.c.storeRun(r.xorb, run) // nobody will unpack it
			}
			return &replicaError{r.replica, err}
		}
		if kept {
			r.fromDisk = append(r.fromDisk, run.Chunks)
		}
		all = append(all, run)
		at.Start = run.Chunks.End
	}
	run, err := concat(all)
	if err != nil {
		return err
	}
	r.Run = run
	if len(r.fromDisk) < len(all) {
		r.verified = make([]atomic.Bool, run.Chunks.Len())
		r.unverified.Store(int64(run.Chunks.Len()))
	}
	return nil
}

// firstRun returns the first chunks of r: as many as are on disk, or as are asked of the
// origin at once.
func (c *Cache) firstRun(ctx context.Context, x codec.Hash, r codec.ChunkRange) (run *xorb.Run, kept bool, err error) {
	seen := c.fetches.diskWrites.Load()
	absent := c.firstAbsent(x, r)
	some := absent.Start > r.Start
	if some {
		run, ok := c.packed.Run(x, codec.ChunkRange{Start: r.Start, End: absent.Start})
		if ok {
			run, ok = c.annotate(ctx, x, run)
		}
		if ok {
			c.stats.diskHits.Add(int64(run.Chunks.Len()))
			return run, true, nil
		}
		absent.Start = r.Start
	}
	if run := c.fetches.copyQueued(x, &absent); run != nil {
		c.stats.shared.Add(int64(run.Chunks.Len()))
		return run, false, nil
	}
	if !some && c.fetches.diskWrites.Load() != seen {
		return c.firstRun(ctx, x, r) // maybe some of it is on disk now
	}
	b := &download{c: c, xorb: x}
	if run, err = b.request(ctx, absent); err != nil {
		c.storeRun(x, run) // as far as it came
		return nil, false, err
	}
	return run, false, nil
}

// Store puts on disk what came from the origin, if it was not unpacked: for whoever gives up,
// so that who comes next need not ask again. It does not wait for the disk.
func (r *Run) Store() {
	if r.verified != nil && r.unverified.Load() > 0 {
		r.c.storeRun(r.xorb, r.Run)
	}
}

// storeRun puts on disk the chunks of a run that are not there and are what their hashes say,
// when that has room for them.
func (c *Cache) storeRun(x codec.Hash, run *xorb.Run) {
	if run != nil && c.packed.WriteErr() == nil {
		b := &download{c: c, xorb: x, next: run.Chunks.Start, put: c.packed.PutRunNoCopy}
		b.store(run, 1) // it is a cache
		b.storeLater(run)
	}
}

// firstAbsent returns the first range of r that is not on disk. It includes up to coalesceChunks
// chunks between two that are absent. If all are on disk it is empty, and at the end of r.
func (c *Cache) firstAbsent(x codec.Hash, r codec.ChunkRange) codec.ChunkRange {
	var gaps codec.ChunkSet
	for _, gap := range c.packed.Missing(x, r) {
		gaps.Add(gap)
	}
	for first := range gaps.Ranges(coalesceChunks, codec.MaxXorbChunks) {
		return first
	}
	return codec.ChunkRange{Start: r.End, End: r.End}
}

// copyQueued cuts r down to its first chunks that can be had in one way, and returns a copy of
// them if they wait for the disk and are known to be good; nil: they do not, or are not.
func (t *fetchTable) copyQueued(x codec.Hash, r *codec.ChunkRange) *xorb.Run {
	f := t.useQueued(x, r)
	if f == nil {
		return nil
	}
	defer t.leave(f)
	run := f.annotated.Slice(*r)
	run, err := xorb.ParseRun(bytes.Clone(run.Packed), *r, run.Hashes)
	if err != nil {
		return nil // it was one before
	}
	return run
}

// useQueued returns the fetch that the copy is made of, as its user.
func (t *fetchTable) useQueued(x codec.Hash, r *codec.ChunkRange) *fetch {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.queuedLocked(x, r.Start)
	for i := r.Start + 1; i < r.End; i++ {
		if t.queuedLocked(x, i) != f {
			r.End = i
		}
	}
	if f != nil {
		f.users++
	}
	return f
}

// queuedLocked returns the fetch that waits for the disk and has a chunk that is good; nil:
// there is none.
func (t *fetchTable) queuedLocked(x codec.Hash, chunk uint32) *fetch {
	f, _ := t.findLocked(x, chunk)
	if f == nil || !f.noWrite || f.verified.Load()&(1<<(chunk-f.chunks.Start)) == 0 {
		return nil
	}
	return f
}

// concat returns one run of runs that follow each other.
func concat(all []*xorb.Run) (*xorb.Run, error) {
	if len(all) == 1 {
		return all[0], nil
	}
	size := 0
	for _, run := range all {
		size += len(run.Packed)
	}
	r := codec.ChunkRange{Start: all[0].Chunks.Start, End: all[len(all)-1].Chunks.End}
	packed, hashes := make([]byte, 0, size), make([]codec.Hash, 0, r.Len())
	for _, run := range all {
		packed = append(packed, run.Packed...)
		hashes = append(hashes, run.Hashes...)
	}
	if len(hashes) < r.Len() {
		hashes = nil // some are not known
	}
	return xorb.ParseRun(packed, r, hashes)
}

// Unpack is xorb.Run.Unpack; its error is for Cache.Again.
func (r *Run) Unpack(chunk uint32, dst []byte) error {
	err := r.Run.Unpack(chunk, dst)
	if err == nil {
		r.markVerified(chunk)
		return nil
	}
	if !r.isFromDisk(chunk) {
		return &replicaError{r.replica, err}
	}
	for _, k := range r.fromDisk { // all, so that one try more is enough
		r.c.packed.Drop(r.xorb, k)
	}
	return diskCorrupt(r.xorb, err)
}

// isFromDisk says whether a chunk came from disk.
func (r *Run) isFromDisk(chunk uint32) bool {
	return slices.ContainsFunc(r.fromDisk, func(k codec.ChunkRange) bool { return k.Start <= chunk && chunk < k.End })
}

// markVerified notes that a chunk is good. With the last one the run is put on disk.
func (r *Run) markVerified(chunk uint32) {
	if r.verified != nil && !r.verified[chunk-r.Chunks.Start].Swap(true) && r.unverified.Add(-1) == 0 {
		_ = r.c.packed.PutRunNoCopy(r.xorb, r.Run, func() {}) // it is a cache
	}
}
