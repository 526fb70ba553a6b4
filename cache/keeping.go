package cache

import (
	"sync"
	"time"

	"github.com/xetfs/xetfs/codec"
)

// keeping is what came from the origin and nobody uses any more, on its way to the disk.
// Who needs some of it takes part in its fetch until it can be found there.
type keeping struct {
	wanted func() bool   // whether the disk takes anything now; constant
	most   int64         // that bytes may be; constant
	room   chan struct{} // told when some of lent has come back
	late   chan struct{} // closed when nobody waits for the disk any more
	hurry  sync.Once

	// Guarded by fetches.mu:
	queue   []toKeep
	bytes   int64 // that those in the queue hold
	lent    int64 // bytes that the disk has got and not written yet
	lost    int64 // chunks that were not kept because too much waited
	working bool  // somebody takes them out
	closed  bool
}

// A toKeep is a fetch, or what is to be done when the disk has got the fetches before it.
type toKeep struct {
	there *fetch
	then  func() // if there is nil
}

const (
	// leastKeeping is how much may wait for the disk however little memory there is. What
	// comes when no more may wait is not kept: no reader is made to wait for it.
	leastKeeping = 32 << 20

	// maxLent is how much the disk gets at a time. Its own queue is longer, so that index
	// pages find room there.
	maxLent = 16 << 20

	// mostLate is how long close waits for the disk to take what is left.
	mostLate = 5 * time.Second

	// glance is how often who waits for the disk asks whether it takes anything at all.
	glance = 100 * time.Millisecond
)

// init makes k ready for a cache with so many bytes of memory, half of which it takes. A disk
// that writes more slowly than the origin gives, or finds no core that is free to write, has
// that much to catch up with; and where there is a disk few unpacked chunks are kept in memory.
func (k *keeping) init(m *memory, bytes int64, wanted func() bool) {
	k.wanted = wanted
	k.most = max(leastKeeping, bytes/2)
	k.room, k.late = make(chan struct{}, 1), make(chan struct{})
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
	if k.bytes+there.size() > k.most {
		k.lost += int64(there.chunks.Len())
		return false
	}
	there.users, there.spent = 1, true
	k.bytes += there.size()
	f.laterLocked(toKeep{there: there})
	return true
}

// afterKeeping does something when the disk has got all that waits for it now.
func (f *fetches) afterKeeping(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.keep != nil && !f.keeping.closed {
		f.laterLocked(toKeep{then: do})
	}
}

func (f *fetches) laterLocked(next toKeep) {
	k := &f.keeping
	k.queue = append(k.queue, next)
	if !k.working {
		k.working = true
		f.going.Go(f.keepAll)
	}
}

// keepAll puts on disk what is in the queue.
func (f *fetches) keepAll() {
	for {
		next, ok := f.nextKeeping()
		if !ok {
			return
		}
		if next.there == nil {
			next.then()
			continue
		}
		_ = f.keep(next.there) // then it is not kept
		f.mu.Lock()
		f.keeping.bytes -= next.there.size()
		f.mu.Unlock()
		f.leave(next.there)
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

// wait waits a moment for the disk to write something. It is false if the disk takes nothing
// at all, or it is too late.
func (k *keeping) wait() bool {
	select {
	case <-k.room:
	case <-time.After(glance):
	case <-k.late:
		return false
	}
	return k.wanted()
}

// hurryUp says that the cache is being closed: it waits for the disk a little longer, but not
// until it answers. stop is called when nobody waits any more.
func (k *keeping) hurryUp() (stop func() bool) {
	return time.AfterFunc(mostLate, func() {
		k.hurry.Do(func() {
			if k.late != nil {
				close(k.late)
			}
		})
	}).Stop
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

// Spare says that chunks are kept on disk in a whole file, too, so that they may go first.
func (c *Cache) Spare(terms []codec.Term) {
	if c.packed != nil {
		c.fetches.afterKeeping(func() { c.packed.Spare(terms) })
	}
}
