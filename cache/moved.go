package cache

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/xetfs/xetfs/cache/byhash"
	"github.com/xetfs/xetfs/cache/flight"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/xorb"
)

// The disk cache has chunks by xorb. A repack copies chunks into new xorbs. A request for chunks of
// a xorb therefore copies those that the disk cache has of other xorbs, and fetches the others. The
// table that finds them is built at the first request, from the stored hashes of the xorbs on disk.
//
// A copied chunk is trusted as little as one from the origin. Its reader or the write to the disk
// compares it with its hash in the new xorb. A retry bypasses the copies.

// movedShare is the part of the memory that movedChunks gets, at least minMoved bytes.
const (
	movedShare = 16
	minMoved   = 1 << 20
)

// maxTableWait is how long requests wait for the first table. They fetch what it lacks then, and
// later requests use the table once it is complete.
const maxTableWait = 500 * time.Millisecond

// movedChunks finds chunks on disk by their hashes.
type movedChunks struct {
	*byhash.Table
	start sync.Once
	ready chan struct{} // closed when no request waits for the table any more
}

func newMovedChunks(maxBytes int64) *movedChunks {
	return &movedChunks{Table: byhash.New(maxBytes), ready: make(chan struct{})}
}

// chunksWithCopies returns chunks r of xorb x, as Source.Chunks. The chunks of copied are from disk.
func (c *Cache) chunksWithCopies(ctx context.Context, x codec.Hash, r codec.ChunkRange, o origin.ReadOptions) (run *xorb.Run, copied []codec.ChunkRange, err error) {
	if found := c.copyMoved(ctx, x, r); len(found) > 0 {
		fetched, err := c.requestOthers(ctx, x, r, found)
		if err != nil {
			return nil, nil, err
		}
		if run, copied = c.assemble(ctx, x, r, found, fetched); run != nil {
			return run, copied, nil
		}
	}
	run, err = c.requestChunks(ctx, x, r, o)
	return run, nil, err
}

// requestChunks sends one request to the origin.
func (c *Cache) requestChunks(ctx context.Context, x codec.Hash, r codec.ChunkRange, o origin.ReadOptions) (*xorb.Run, error) {
	c.stats.misses.Add(int64(r.Len()))
	return c.src.Chunks(ctx, x, r, o)
}

// requestOthers requests the chunks of r that are not in found, all at once.
func (c *Cache) requestOthers(ctx context.Context, x codec.Hash, r codec.ChunkRange, found []*xorb.Run) ([]*xorb.Run, error) {
	var others codec.ChunkSet
	others.Add(r)
	for _, run := range found {
		others.Remove(run.Chunks)
	}
	ranges := slices.Collect(others.Ranges(coalesceChunks, codec.MaxXorbChunks))
	runs, errs := make([]*xorb.Run, len(ranges)), make([]error, len(ranges))
	var all sync.WaitGroup
	for i, r := range ranges {
		all.Go(func() {
			defer flight.Guard(&errs[i])
			runs[i], errs[i] = c.requestChunks(ctx, x, r, origin.ReadOptions{})
		})
	}
	all.Wait()
	return runs, cmp.Or(errs...)
}

// assemble returns a run of the chunks r, from fetched or else from found; nil if they cannot be those
// of xorb x.
func (c *Cache) assemble(ctx context.Context, x codec.Hash, r codec.ChunkRange, found, fetched []*xorb.Run) (run *xorb.Run, copied []codec.ChunkRange) {
	var parts []*xorb.Run
	copyTo := func(end uint32) {
		for _, run := range found {
			sub := codec.ChunkRange{Start: max(r.Start, run.Chunks.Start), End: min(end, run.Chunks.End)}
			if sub.Start < sub.End {
				parts, copied = append(parts, run.Slice(sub)), append(copied, sub)
			}
		}
	}
	all := r
	for _, run := range fetched {
		copyTo(run.Chunks.Start)
		parts = append(parts, run)
		r.Start = run.Chunks.End
	}
	copyTo(r.End)
	run, err := xorb.Join(parts, nil)
	if err == nil {
		run, err = c.src.Annotate(ctx, x, run)
	}
	if err != nil || run.Chunks != all {
		return nil, nil
	}
	for _, sub := range copied {
		c.stats.diskHits.Add(int64(sub.Len()))
	}
	return run, copied
}

// copyMoved returns the chunks of r that the disk has of other xorbs, as runs of xorb x in order.
func (c *Cache) copyMoved(ctx context.Context, x codec.Hash, r codec.ChunkRange) (found []*xorb.Run) {
	if c.moved == nil || origin.IsNoCache(ctx) || !c.awaitTable(ctx) || c.moved.IsEmpty() {
		return nil
	}
	if ok, err := c.src.Hashed(ctx, x, r); !ok || err != nil {
		return nil // the request returns the error
	}
	for _, m := range c.findMoved(x, r.Start, hashesOf(c.src.Proven(x, r))) {
		run, ok := c.packed.Run(m.xorb, m.chunks)
		if !ok {
			continue
		}
		to := codec.ChunkRange{Start: m.to, End: m.to + uint32(run.Chunks.Len())}
		if run, err := xorb.ParseRun(run.Packed, to, nil); err == nil {
			found = append(found, run)
		}
	}
	return found
}

// A movedRange is consecutive chunks of a xorb on disk. Another xorb has them from chunk to on.
type movedRange struct {
	xorb   codec.Hash
	chunks codec.ChunkRange
	to     uint32
}

// findMoved returns where the disk has chunks with these hashes. They are the hashes of chunks of
// xorb x, from chunk first on.
func (c *Cache) findMoved(x codec.Hash, first uint32, hashes []codec.Hash) (all []movedRange) {
	for i, h := range hashes {
		other, chunk, ok := c.moved.Find(h)
		one := codec.ChunkRange{Start: chunk, End: chunk + 1}
		if !ok || other == x || len(c.packed.Missing(other, one)) > 0 {
			continue
		}
		to := first + uint32(i)
		if n := len(all) - 1; n >= 0 {
			last := &all[n]
			if last.xorb == other && last.chunks.End == chunk && last.to+uint32(last.chunks.Len()) == to {
				last.chunks.End++
				continue
			}
		}
		all = append(all, movedRange{other, one, to})
	}
	return all
}

// noteStored records chunks that the disk stores now. It marks copies of them as redundant, which
// other xorbs have there.
func (c *Cache) noteStored(x codec.Hash, run *xorb.Run) {
	if c.moved == nil {
		return
	}
	var copies []codec.Term
	for _, m := range c.findMoved(x, run.Chunks.Start, run.Hashes) {
		copies = append(copies, codec.Term{Xorb: m.xorb, Chunks: m.chunks})
	}
	c.moved.Add(x, run.Chunks.Start, run.Hashes)
	if len(copies) > 0 {
		c.packed.MarkRedundant(copies)
	}
}

// awaitTable builds the table and waits for it. It returns false if ctx ends before.
func (c *Cache) awaitTable(ctx context.Context) bool {
	m := c.moved
	m.start.Do(func() {
		ready := sync.OnceFunc(func() { close(m.ready) })
		limit := time.AfterFunc(maxTableWait, ready)
		c.fetches.running.Go(func() {
			defer ready()
			defer limit.Stop()
			_ = c.fillTable() // the chunks that it lacks are fetched
		})
	})
	select {
	case <-m.ready:
		return true
	case <-ctx.Done():
		return false
	}
}

// fillTable adds the chunks on disk with stored hashes until the table is full. A panic is an error.
func (c *Cache) fillTable() (err error) {
	defer flight.Guard(&err)
	for x, ranges := range c.packed.Xorbs() {
		if c.moved.IsFull() || c.fetches.isClosed() {
			return nil
		}
		all := codec.ChunkRange{Start: ranges[0].Start, End: ranges[len(ranges)-1].End}
		hashes := hashesOf(c.src.Proven(x, all))
		if len(hashes) != all.Len() {
			continue
		}
		for _, r := range ranges {
			c.moved.Add(x, r.Start, hashes[r.Start-all.Start:r.End-all.Start])
		}
	}
	return nil
}

func hashesOf(leaves []merkle.Leaf) []codec.Hash {
	hashes := make([]codec.Hash, len(leaves))
	for i := range leaves {
		hashes[i] = leaves[i].Hash
	}
	return hashes
}
