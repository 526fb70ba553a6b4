package cache

import (
	"errors"
	"iter"

	"github.com/xetfs/xetfs/cache/disk"
	"github.com/xetfs/xetfs/cache/flight"
	"github.com/xetfs/xetfs/codec"
)

// writeFetch stores the missing chunks of a fetch on disk. Each chunk is compared with its
// hash, if known, unless a reader has done so. The error is that of a panic.
func (c *Cache) writeFetch(f *fetch) (err error) {
	defer flight.Guard(&err)
	if c.packed.WriteErr() != nil {
		return nil
	}
	for r := range c.absentVerified(f.xorb, f.chunks, f.verifiedFrom) {
		c.putOnDisk(f, r)
	}
	return nil
}

// absentVerified yields ranges of chunks that are not on disk and are verified. good returns
// the first chunks of a range, up to a corrupt one.
func (c *Cache) absentVerified(x codec.Hash, all codec.ChunkRange, good func(codec.ChunkRange) codec.ChunkRange) iter.Seq[codec.ChunkRange] {
	return func(yield func(codec.ChunkRange) bool) {
		for _, r := range c.packed.Missing(x, all) {
			for r.Start < r.End {
				first := good(r)
				if first.Len() > 0 && !yield(first) {
					return
				}
				r.Start = first.End + 1 // past the corrupt one
			}
		}
	}
}

// putOnDisk gives chunks to the disk as soon as it accepts them.
func (c *Cache) putOnDisk(f *fetch, r codec.ChunkRange) {
	t := &c.fetches
	t.retain(f)
	free := func() { t.leave(f) }
	err := c.packed.PutRunWait(t.writes.drainCtx, f.xorb, f.annotated.Slice(r), free)
	if err != nil { // it is a cache
		free()
	}
	if errors.Is(err, disk.ErrBusy) {
		t.skip(r)
	}
}

// retain adds a user that is no reader.
func (t *fetchTable) retain(f *fetch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f.users++
}

// skip counts chunks that are not stored.
func (t *fetchTable) skip(r codec.ChunkRange) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.writes.skipped += int64(r.Len())
}

// verifiedFrom returns the first chunks of r, up to a corrupt one.
func (f *fetch) verifiedFrom(r codec.ChunkRange) codec.ChunkRange {
	buf := newBuffer(codec.MaxChunkSize)
	defer buf.free()
	for i := r.Start; i < r.End; i++ {
		if !f.isVerified(i, buf.b) {
			r.End = i
		}
	}
	return r
}

func (f *fetch) isVerified(chunk uint32, buf []byte) bool {
	if f.annotated.Hashes == nil || f.verified.Load()&(1<<(chunk-f.chunks.Start)) != 0 {
		return true
	}
	return f.annotated.Unpack(chunk, buf[:f.annotated.Size(chunk)]) == nil
}

// markVerified notes that a chunk was compared with its hash.
func (w *chunkSlot) markVerified(chunk uint32) {
	if w.run.Hashes != nil {
		w.from.verified.Or(1 << (chunk - w.from.chunks.Start))
	}
}
