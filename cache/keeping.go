package cache

import (
	"context"
	"time"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/xorb"
)

// keeping is what came from the origin and nobody uses any more, on its way to the disk.
// Who needs some of it takes part in its fetch until it can be found there.
type keeping struct {
	wanted func() bool     // whether the disk takes anything now; constant
	most   int64           // that bytes may be; constant
	late   context.Context // ends when nobody waits for the disk any more; constant
	giveUp func()          // ends it; constant

	// Guarded by fetches.mu:
	queue   []toKeep
	bytes   int64 // that those in the queue hold
	lost    int64 // chunks that were not kept because too much waited
	working bool  // somebody takes them out
	closed  bool
}

// A toKeep is what is to be done when the disk has got what waits before it.
type toKeep struct {
	do   func()
	size int64 // of the memory that it needs until then
}

const (
	// leastKeeping is how much may wait for the disk however little memory there is. What
	// comes when no more may wait is not kept: no reader is made to wait for it.
	leastKeeping = 32 << 20

	// mostLate is how long close waits for the disk to take what is left, be it hanging.
	mostLate = 5 * time.Second
)

// init makes k ready for a cache with so many bytes of memory, half of which it takes. A disk
// that writes more slowly than the origin gives, or finds no core that is free to write, has
// that much to catch up with; and where there is a disk few unpacked chunks are kept in memory.
func (k *keeping) init(m *memory, bytes int64, wanted func() bool) {
	k.wanted = wanted
	k.most = max(leastKeeping, bytes/2)
	m.shrink(k.most - leastKeeping)
}

// keepLocked makes sure that a fetch which nobody uses any more is put on disk, and says
// whether that makes another user.
func (f *fetches) keepLocked(there *fetch) bool {
	k := &f.keeping
	if f.keep == nil || k.closed || there.spent {
		return false
	}
	ended, failed := there.ended()
	if !ended || failed || there.disk || !k.wanted() {
		return false
	}
	keep := func() {
		_ = f.keep(there) // then it is not kept
		f.leave(there)
	}
	if !f.laterLocked(toKeep{keep, there.size()}) {
		k.lost += int64(there.chunks.Len())
		return false
	}
	there.users, there.spent = 1, true
	return true
}

// keepLater has chunks kept when the disk has got all that waits for it now, unless that is
// too much.
func (f *fetches) keepLater(run *xorb.Run, keep func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.laterLocked(toKeep{keep, int64(len(run.Packed))}) {
		f.keeping.lost += int64(run.Chunks.Len())
	}
}

// afterKeeping does something when the disk has got all that waits for it now.
func (f *fetches) afterKeeping(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.laterLocked(toKeep{do: do})
}

// laterLocked puts something into the queue, unless too much is there.
func (f *fetches) laterLocked(next toKeep) bool {
	k := &f.keeping
	if k.closed || k.bytes+next.size > k.most {
		return false
	}
	k.queue = append(k.queue, next)
	k.bytes += next.size
	if !k.working {
		k.working = true
		f.going.Go(f.keepAll)
	}
	return true
}

// keepAll puts on disk what is in the queue.
func (f *fetches) keepAll() {
	for {
		next, ok := f.nextKeeping()
		if !ok {
			return
		}
		next.do()
		f.mu.Lock()
		f.keeping.bytes -= next.size
		f.mu.Unlock()
	}
}

// nextKeeping takes the oldest out of the queue.
func (f *fetches) nextKeeping() (next toKeep, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	k := &f.keeping
	if len(k.queue) == 0 {
		k.working = false
		return toKeep{}, false
	}
	next = k.queue[0]
	k.queue[0] = toKeep{}
	k.queue = k.queue[1:]
	return next, true
}

func (f *fetches) notKept() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.keeping.lost
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

// MarkRedundant says that chunks are kept on disk in a whole file, too, so that they may go first.
func (c *Cache) Spare(terms []codec.Term) {
	if c.packed != nil {
		c.fetches.afterKeeping(func() { c.packed.MarkRedundant(terms) })
	}
}
