package cache

import (
	"errors"

	"github.com/xetfs/xetfs/cache/disk"
	"github.com/xetfs/xetfs/codec"
)

// keep hands the chunks of a fetch to the disk that are not there. Each is compared with
// its hash before, if that is known, unless a reader has done so. The error is that of a
// bug.
func (c *Cache) keep(there *fetch) (err error) {
	defer guard(&err)
	if c.packed.Refuses() != nil {
		return nil
	}
	for _, r := range c.packed.Missing(there.xorb, there.chunks) {
		for r.Start < r.End {
			good := there.goodFrom(r)
			if good.Len() > 0 {
				c.lend(there, good)
			}
			r.Start = good.End + 1 // which is damaged
		}
	}
	return nil
}

// lend lends chunks to the disk as soon as it takes them, and waits until it may get more.
func (c *Cache) lend(there *fetch, r codec.ChunkRange) {
	f, run := &c.fetches, there.known.Slice(r)
	size := int64(len(run.Packed))
	f.lent(there, size)
	free := func() {
		f.gotBack(there, size)
		select {
		case f.keeping.room <- struct{}{}:
		default:
		}
	}
	err := c.packed.LendRun(there.xorb, run, free)
	for errors.Is(err, disk.ErrBusy) && f.keeping.wait() {
		err = c.packed.LendRun(there.xorb, run, free)
	}
	if err != nil { // it is a cache
		f.gotBack(there, size)
		if errors.Is(err, disk.ErrBusy) {
			f.forgo(r)
		}
		return
	}
	for f.hasLent() > maxLent && f.keeping.wait() {
	}
}

// lent notes that the disk uses n bytes of a fetch.
func (f *fetches) lent(there *fetch, n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keeping.lent += n
	there.users++
}

// gotBack notes that it does not any more.
func (f *fetches) gotBack(there *fetch, n int64) {
	f.mu.Lock()
	f.keeping.lent -= n
	f.mu.Unlock()
	f.leave(there)
}

func (f *fetches) hasLent() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.keeping.lent
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
