package cache

import (
	"errors"
	"iter"

	"github.com/xetfs/xetfs/cache/disk"
	"github.com/xetfs/xetfs/cache/flight"
	"github.com/xetfs/xetfs/codec"
)

// keep hands the chunks of a fetch to the disk that are not there. Each is compared with
// its hash before, if that is known, unless a reader has done so. The error is that of a
// bug.
func (c *Cache) keep(there *fetch) (err error) {
	defer flight.Guard(&err)
	if c.packed.WriteErr() != nil {
		return nil
	}
	for r := range c.wanting(there.xorb, there.chunks, there.goodFrom) {
		c.lend(there, r)
	}
	return nil
}

// wanting yields those of some chunks that are not on disk and are good, so many at a time as
// follow each other. good returns the first chunks of a range, up to one that is damaged.
func (c *Cache) wanting(x codec.Hash, all codec.ChunkRange, good func(codec.ChunkRange) codec.ChunkRange) iter.Seq[codec.ChunkRange] {
	return func(yield func(codec.ChunkRange) bool) {
		for _, r := range c.packed.Missing(x, all) {
			for r.Start < r.End {
				first := good(r)
				if first.Len() > 0 && !yield(first) {
					return
				}
				r.Start = first.End + 1 // which is damaged
			}
		}
	}
}

// lend lends chunks to the disk as soon as it takes them.
func (c *Cache) lend(there *fetch, r codec.ChunkRange) {
	f := &c.fetches
	f.use(there)
	free := func() { f.leave(there) }
	err := c.packed.PutRunWait(f.keeping.late, there.xorb, there.known.Slice(r), free)
	if err != nil { // it is a cache
		free()
	}
	if errors.Is(err, disk.ErrBusy) {
		f.forgo(r)
	}
}

// use adds a user to a fetch that is no reader.
func (f *fetches) use(there *fetch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	there.users++
}

// forgo notes that chunks are not kept.
func (f *fetches) forgo(r codec.ChunkRange) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keeping.lost += int64(r.Len())
}

// goodFrom returns the first chunks of r, up to one that is damaged.
func (there *fetch) goodFrom(r codec.ChunkRange) codec.ChunkRange {
	buf := newBuffer(codec.MaxChunkSize)
	defer buf.free()
	for i := r.Start; i < r.End; i++ {
		if !there.isGood(i, buf.b) {
			r.End = i
		}
	}
	return r
}

func (there *fetch) isGood(chunk uint32, buf []byte) bool {
	if there.known.Hashes == nil || there.good.Load()&(1<<(chunk-there.chunks.Start)) != 0 {
		return true
	}
	return there.known.Unpack(chunk, buf[:there.known.Size(chunk)]) == nil
}

// checked notes that a chunk was compared with its hash.
func (w *wanted) checked(chunk uint32) {
	if w.run.Hashes != nil {
		w.from.good.Or(1 << (chunk - w.from.chunks.Start))
	}
}
