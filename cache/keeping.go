package cache

import "github.com/xetfs/xetfs/codec"

// keeping is what came from the origin and nobody uses any more, on its way to the disk.
// Who needs some of it takes part in its fetch until it can be found there.
type keeping struct {
	queue   []*fetch
	bytes   int64 // that those in the queue hold
	working bool  // somebody takes them out
	closed  bool
}

// maxKeeping is the most that may wait to be handed to the disk. What comes when so much
// waits is not kept.
const maxKeeping = 32 << 20

// keepLocked makes sure that a fetch which nobody uses any more is put on disk, and says
// whether that makes another user.
func (f *fetches) keepLocked(there *fetch) bool {
	k := &f.keeping
	if f.keep == nil || k.closed || there.spent {
		return false
	}
	ended, failed := there.ended()
	if !ended || failed || there.disk || k.bytes+there.size() > maxKeeping {
		return false
	}
	there.users, there.spent = 1, true
	k.queue = append(k.queue, there)
	k.bytes += there.size()
	if !k.working {
		k.working = true
		f.going.Go(f.keepAll)
	}
	return true
}

// keepAll puts on disk what is in the queue.
func (f *fetches) keepAll() {
	for there := f.nextKeeping(); there != nil; there = f.nextKeeping() {
		_ = f.keep(there) // then it is not kept
		f.mu.Lock()
		f.keeping.bytes -= there.size()
		f.mu.Unlock()
		f.leave(there)
	}
}

// nextKeeping takes the oldest fetch out of the queue.
func (f *fetches) nextKeeping() *fetch {
	f.mu.Lock()
	defer f.mu.Unlock()
	k := &f.keeping
	if len(k.queue) == 0 {
		k.working = false
		return nil
	}
	next := k.queue[0]
	k.queue[0] = nil
	k.queue = k.queue[1:]
	return next
}

// leave takes one user away that is no reader.
func (f *fetches) leave(there *fetch) {
	f.mu.Lock()
	last := f.leaveLocked(there)
	f.mu.Unlock()
	if last {
		there.end()
	}
}

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

// lend lends chunks to the disk.
func (c *Cache) lend(there *fetch, r codec.ChunkRange) {
	c.fetches.mu.Lock()
	there.users++
	c.fetches.mu.Unlock()
	free := func() { c.fetches.leave(there) }
	if err := c.packed.LendRun(there.xorb, there.known.Slice(r), free); err != nil {
		free() // it is a cache
	}
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
