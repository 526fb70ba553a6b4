package cache

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/xetfs/xetfs/cache/flight"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/xorb"
)

// Read fills p with the unpacked bytes of chunks r of xorb x, after skip bytes. Chunks inside p
// are unpacked directly into it, in parallel. After an error the content of p is undefined.
func (c *Cache) Read(ctx context.Context, x codec.Hash, r codec.ChunkRange, skip int64, p []byte) error {
	return c.ReadLeaves(ctx, x, r, skip, p, nil)
}

// ReadLeaves is Read. It also sets one leaf for each chunk of r: its size, and its hash if it has
// bytes in p. It does nothing more if leaves is nil.
func (c *Cache) ReadLeaves(ctx context.Context, x codec.Hash, r codec.ChunkRange, skip int64, p []byte, leaves []merkle.Leaf) error {
	dropped := 0
	for try := 1; ; {
		err := c.readOnce(ctx, x, r, skip, p, leaves, dropped > maxDiskTries)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, errRetry):
			if errors.Is(err, errDiskCorrupt) {
				dropped++
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		case !c.shouldRetry(x, err, try, 1):
			return err
		default:
			try++
			ctx = origin.NoCache(ctx)
		}
	}
}

// A readOp is one call of Read.
type readOp struct {
	c     *Cache
	ctx   context.Context // of the one call
	xorb  codec.Hash
	r     codec.ChunkRange
	skip  int64
	p     []byte
	slots []chunkSlot // one for each chunk of r
	parts []part

	skipDisk bool // the disk cache has returned corrupt chunks

	slotsHere [24]chunkSlot // a read of 1 MiB allocates neither
	partsHere [2]part

	// Shared by the goroutines that unpack chunks:
	next   atomic.Int64 // next free chunk of slots
	mu     sync.Mutex
	failed error // the first; guarded by mu
}

// A chunkSlot is one chunk of a readOp: the origin and the destination of its bytes.
type chunkSlot struct {
	chunk  *chunk      // unpacked; nil: not in memory
	run    *xorb.Run   // else the packed chunks that include it
	from   *fetch      // the fetch of run
	call   *unpackCall // shared with other readers; may be nil
	leader bool        // this reader must finish the call
	off    int64       // from the start of the chunks of r
	size   int64
	hash   codec.Hash // of a chunk with bytes in p
}

var readOps = sync.Pool{New: func() any { return new(readOp) }}

func (c *Cache) readOnce(ctx context.Context, x codec.Hash, r codec.ChunkRange, skip int64, p []byte, leaves []merkle.Leaf, skipDisk bool) error {
	rd := readOps.Get().(*readOp)
	rd.c, rd.ctx, rd.xorb, rd.r, rd.skip, rd.p, rd.skipDisk = c, ctx, x, r, skip, p, skipDisk
	rd.slots, rd.parts = rd.slotsHere[:0], rd.partsHere[:0]
	for range r.Len() {
		rd.slots = append(rd.slots, chunkSlot{})
	}
	err := rd.readGuarded()
	if err == nil && leaves != nil {
		for i := range rd.slots {
			leaves[i] = merkle.Leaf{Hash: rd.slots[i].hash, Size: uint64(rd.slots[i].size)}
		}
	}
	rd.close(err)
	*rd = readOp{}
	readOps.Put(rd)
	return err
}

func (rd *readOp) readGuarded() (err error) {
	defer flight.Guard(&err)
	return rd.read()
}

func (rd *readOp) read() error {
	if rd.r.Len() <= 0 || rd.r.End > codec.MaxXorbChunks || rd.skip < 0 {
		return fmt.Errorf("xorb %s: chunks %v from byte %d on cannot be read", rd.xorb, rd.r, rd.skip)
	}
	rd.lookup()
	if err := rd.fetch(); err != nil {
		return err
	}
	// Shared chunks come first: two readers may wait for each other's chunks.
	if rd.waitsForOthers() {
		for i := range rd.slots {
			if rd.slots[i].leader {
				if err := rd.unpackShared(i); err != nil {
					return err
				}
			}
		}
		if err := rd.wait(); err != nil {
			return err
		}
	}
	if err := rd.setOffsets(); err != nil {
		return err
	}
	if err := rd.fillAll(); err != nil {
		return err
	}
	rd.countBytes()
	return nil
}

// countBytes counts the bytes in p by their source.
func (rd *readOp) countBytes() {
	var memory, disk, origin int64
	for i := range rd.slots {
		w := &rd.slots[i]
		from := w.off - rd.skip
		n := min(from+w.size, int64(len(rd.p))) - max(from, 0)
		switch {
		case n <= 0:
		case w.from == nil:
			memory += n
		case w.from.isFromDisk(rd.key(i).index):
			disk += n
		default:
			origin += n
		}
	}
	addSome(&rd.c.stats.memoryBytes, memory)
	addSome(&rd.c.stats.diskBytes, disk)
	addSome(&rd.c.stats.originBytes, origin)
}

// addSome adds n unless it is 0, because all cores share the counter.
func addSome(counter *atomic.Int64, n int64) {
	if n > 0 {
		counter.Add(n)
	}
}

func (rd *readOp) key(i int) chunkKey {
	return chunkKey{rd.xorb, rd.r.Start + uint32(i)}
}

// lookup finds the chunks in memory, and joins the calls for the chunks at the two ends.
func (rd *readOp) lookup() {
	last := len(rd.slots) - 1
	for i := range rd.slots {
		w := &rd.slots[i]
		if w.chunk = rd.c.inMemoryChunk(rd.key(i)); w.chunk != nil {
			rd.c.stats.memoryHits.Add(1)
			continue
		}
		if i != last && (i != 0 || rd.skip == 0) {
			continue // wholly inside p
		}
		w.chunk, w.call, w.leader = rd.c.joinUnpacking(rd.key(i))
		switch {
		case w.leader:
		case w.chunk != nil:
			rd.c.stats.memoryHits.Add(1)
		case rd.c.local:
			rd.c.stats.shared.Add(1)
		}
	}
}

// needed reports whether chunk i must be fetched. A reader that waits for another one to
// unpack a chunk takes part in a remote fetch, too. The fetch then continues if that other
// reader leaves.
func (rd *readOp) needed(i int) bool {
	w := &rd.slots[i]
	return w.chunk == nil && (w.call == nil || w.leader || !rd.c.local)
}

// coalesceChunks is the largest gap between missing chunks that one request to a remote
// origin reads through: 256 KiB on average.
const coalesceChunks = 4

// fetch gets the packed chunks. It sends one request for each missing range, and one disk read
// for each range on disk.
func (rd *readOp) fetch() error {
	var needed codec.ChunkSet
	for i := range rd.slots {
		if at := rd.r.Start + uint32(i); rd.needed(i) {
			needed.Add(codec.ChunkRange{Start: at, End: at + 1})
		}
	}
	for !needed.IsEmpty() {
		rd.join(&needed)
	}
	for _, p := range rd.parts {
		switch {
		case p.leader:
			p.skipDisk = rd.skipDisk
			if !rd.c.tryRun(rd.ctx, p.fetch) {
				rd.c.startFetch(rd.ctx, p.fetch)
			}
		case p.await(rd.c):
			rd.c.stats.aheadHits.Add(int64(p.sub.Len()))
		default:
			rd.c.stats.shared.Add(int64(p.sub.Len()))
		}
	}
	for _, p := range rd.parts {
		run, err := p.wait(rd.ctx, &rd.c.fetches)
		if err != nil {
			return err
		}
		for i := p.sub.Start; i < p.sub.End; i++ {
			w := &rd.slots[i-rd.r.Start]
			w.run, w.from = run, p.fetch
		}
	}
	return nil
}

// join joins the fetches of all needed chunks and removes these chunks from needed. It ends
// early if chunks reach the disk meanwhile: the caller calls it again.
func (rd *readOp) join(needed *codec.ChunkSet) {
	gap := uint32(0)
	if !rd.c.local {
		gap = coalesceChunks
	}
	seen := rd.c.fetches.diskWrites.Load()
	requested := rd.toRequest(*needed)
	if rd.joinRanges(&requested, gap, needed, seen) {
		rd.joinRanges(needed, 0, needed, seen) // these are on disk
	}
}

// joinRanges joins the fetches of some chunks. It returns false if chunks have reached the
// disk since fetches.diskWrites was seen.
func (rd *readOp) joinRanges(chunks *codec.ChunkSet, gap uint32, needed *codec.ChunkSet, seen int64) (ok bool) {
	for r := range chunks.Ranges(gap, codec.MaxXorbChunks) {
		if rd.parts, ok = rd.c.fetches.join(rd.parts, rd.xorb, r, seen); !ok {
			return false
		}
		needed.Remove(r)
	}
	return true
}

// toRequest returns the needed chunks that readers do not get from disk. It reads the index alone.
func (rd *readOp) toRequest(needed codec.ChunkSet) codec.ChunkSet {
	if rd.c.packed == nil || rd.skipDisk || len(rd.slots) == 1 {
		return needed
	}
	readable := rd.c.readableOnDisk(rd.xorb, rd.r)
	for r := range readable.Ranges(0, codec.MaxXorbChunks) {
		needed.Remove(r)
	}
	return needed
}

// waitsForOthers reports whether another reader unpacks any of the chunks.
func (rd *readOp) waitsForOthers() bool {
	first, last := &rd.slots[0], &rd.slots[len(rd.slots)-1]
	return (first.call != nil && !first.leader) || (last.call != nil && !last.leader)
}

// wait gets the chunks that other readers unpack.
func (rd *readOp) wait() error {
	for i := range rd.slots {
		w := &rd.slots[i]
		if w.call == nil || w.leader || w.chunk != nil {
			continue
		}
		var err error
		w.chunk, err = rd.c.unpacking.wait(rd.ctx, w.call)
		w.call = nil
		if err != nil && (!errors.Is(err, errRetry) || w.run == nil) {
			return err
		} // else this reader has the packed chunk
	}
	return nil
}

// setOffsets sets the place of each chunk, once all sizes are known.
func (rd *readOp) setOffsets() error {
	var off int64
	for i := range rd.slots {
		w := &rd.slots[i]
		w.off = off
		if w.chunk != nil {
			w.size = int64(len(w.chunk.Data))
		} else {
			w.size = int64(w.run.Size(rd.r.Start + uint32(i)))
		}
		off += w.size
	}
	if have := off - rd.skip; have < int64(len(rd.p)) {
		return fmt.Errorf("xorb %s: %w", rd.xorb, codec.Corrupt("chunks", off, "%v hold %d bytes, %d are wanted", rd.r, have, len(rd.p)))
	}
	return nil
}

// errorForWaiters returns the error for readers that wait for a chunk, after this reader has
// ended with err before that chunk.
func (rd *readOp) errorForWaiters(err error) error {
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return errRetry // it concerns this reader only
	case len(rd.slots) > 1:
		return errRetry // the error may concern another chunk
	}
	return err
}

// close ends the calls that this reader leads and leaves those that it did not wait for. It
// releases all fetches and chunks.
func (rd *readOp) close(err error) {
	for i := range rd.slots {
		w := &rd.slots[i]
		rd.finish(w, nil, rd.errorForWaiters(err))
		if w.call != nil {
			rd.c.unpacking.leave(w.call)
		}
		w.chunk.release()
	}
	for _, p := range rd.parts {
		rd.c.fetches.release(p, err)
	}
}
