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
	copy int // of their xorb, that was read

	// Where chunks are kept on disk:
	c      *Cache
	xorb   codec.Hash
	kept   []codec.ChunkRange // what was on disk
	seen   []atomic.Bool      // which chunks have unpacked; nil: all were on disk
	unseen atomic.Int64       // how many have not
}

// Run returns the chunks themselves, packed, for whoever must know where each ends. It
// goes past the memory cache. What is on disk comes from there, and what is not is kept
// there once all of it was unpacked with the Run's Unpack.
func (c *Cache) Run(ctx context.Context, x codec.Hash, r codec.ChunkRange) (*Run, error) {
	run := &Run{copy: c.copies.current(x)}
	if c.packed == nil {
		got, err := c.src.Chunks(ctx, x, r, origin.ReadOptions{})
		if err != nil {
			return nil, &copyError{run.copy, err}
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
		run, kept, err := r.c.piece(ctx, r.xorb, at)
		if err != nil {
			for _, run := range all {
				r.c.keepRun(r.xorb, run) // nobody will unpack it
			}
			return &copyError{r.copy, err}
		}
		if kept {
			r.kept = append(r.kept, run.Chunks)
		}
		all = append(all, run)
		at.Start = run.Chunks.End
	}
	run, err := joined(all)
	if err != nil {
		return err
	}
	r.Run = run
	if len(r.kept) < len(all) {
		r.seen = make([]atomic.Bool, run.Chunks.Len())
		r.unseen.Store(int64(run.Chunks.Len()))
	}
	return nil
}

// piece returns the first chunks of r: as many as are on disk, or as are asked of the
// origin at once.
func (c *Cache) piece(ctx context.Context, x codec.Hash, r codec.ChunkRange) (run *xorb.Run, kept bool, err error) {
	seen := c.fetches.diskWrites.Load()
	absent := c.absent(x, r)
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
		return c.piece(ctx, x, r) // maybe some of it is on disk now
	}
	b := &bringing{c: c, xorb: x}
	if run, err = b.ask(ctx, absent); err != nil {
		c.keepRun(x, run) // as far as it came
		return nil, false, err
	}
	return run, false, nil
}

// Keep puts on disk what came from the origin, if it was not unpacked: for whoever gives up,
// so that who comes next need not ask again. It does not wait for the disk.
func (r *Run) Keep() {
	if r.seen != nil && r.unseen.Load() > 0 {
		r.c.keepRun(r.xorb, r.Run)
	}
}

// keepRun puts on disk the chunks of a run that are not there and are what their hashes say,
// when that has room for them.
func (c *Cache) keepRun(x codec.Hash, run *xorb.Run) {
	if run != nil && c.packed.WriteErr() == nil {
		b := &bringing{c: c, xorb: x, next: run.Chunks.Start, lend: c.packed.PutRunNoCopy}
		b.keep(run, 1) // it is a cache
		b.handOver(run)
	}
}

// absent returns the first range of r that is not on disk. It includes up to coalesceChunks
// chunks between two that are absent. If all are on disk it is empty, and at the end of r.
func (c *Cache) absent(x codec.Hash, r codec.ChunkRange) codec.ChunkRange {
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

// joined returns one run of runs that follow each other.
func joined(all []*xorb.Run) (*xorb.Run, error) {
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
		r.unpacked(chunk)
		return nil
	}
	if !r.wasKept(chunk) {
		return &copyError{r.copy, err}
	}
	for _, k := range r.kept { // all, so that one try more is enough
		r.c.packed.Drop(r.xorb, k)
	}
	return diskCorrupt(r.xorb, err)
}

// wasKept says whether a chunk came from disk.
func (r *Run) wasKept(chunk uint32) bool {
	return slices.ContainsFunc(r.kept, func(k codec.ChunkRange) bool { return k.Start <= chunk && chunk < k.End })
}

// unpacked notes that a chunk is good. With the last one the run is put on disk.
func (r *Run) unpacked(chunk uint32) {
	if r.seen != nil && !r.seen[chunk-r.Chunks.Start].Swap(true) && r.unseen.Add(-1) == 0 {
		_ = r.c.packed.PutRunNoCopy(r.xorb, r.Run, func() {}) // it is a cache
	}
}
