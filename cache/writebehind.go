package cache

import (
	"context"
	"time"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/xorb"
)

// writeBehind is what came from the origin and nobody uses any more, on its way to the disk.
// Who needs some of it takes part in its fetch until it can be found there.
type writeBehind struct {
	accepts     func() bool     // whether the disk takes anything now; constant
	maxBytes    int64           // that bytes may be; constant
	drainCtx    context.Context // ends when nobody waits for the disk any more; constant
	cancelDrain func()          // ends it; constant

	// Guarded by fetches.mu:
	queue    []writeTask
	bytes    int64 // that those in the queue hold
	skipped  int64 // chunks that were not kept because too much waited
	draining bool  // somebody takes them out
	closed   bool
}

// A writeTask is what is to be done when the disk has got what waits before it.
type writeTask struct {
	do   func()
	size int64 // of the memory that it needs until then
}

const (
	// minWriteBehind is how much may wait for the disk however little memory there is. What
	// comes when no more may wait is not kept: no reader is made to wait for it.
	minWriteBehind = 32 << 20

	// maxDrain is how long close waits for the disk to take what is left, be it hanging.
	maxDrain = 5 * time.Second
)

// init makes k ready for a cache with so many bytes of memory, half of which it takes. A disk
// that writes more slowly than the origin gives, or finds no core that is free to write, has
// that much to catch up with; and where there is a disk few unpacked chunks are kept in memory.
func (w *writeBehind) init(m *memory, bytes int64, wanted func() bool) {
	w.accepts = wanted
	w.maxBytes = max(minWriteBehind, bytes/2)
	m.shrink(w.maxBytes - minWriteBehind)
}

// enqueueFetchLocked makes sure that a fetch which nobody uses any more is put on disk, and says
// whether that makes another user.
func (t *fetchTable) enqueueFetchLocked(f *fetch) bool {
	w := &t.writes
	if t.write == nil || w.closed || f.noWrite {
		return false
	}
	ended, failed := f.ended()
	if !ended || failed || f.fromDisk || !w.accepts() {
		return false
	}
	keep := func() {
		_ = t.write(f) // then it is not kept
		t.leave(f)
	}
	if !t.enqueueLocked(writeTask{keep, f.size()}) {
		w.skipped += int64(f.chunks.Len())
		return false
	}
	f.users, f.noWrite = 1, true
	return true
}

// enqueueRun has chunks kept when the disk has got all that waits for it now, unless that is
// too much.
func (t *fetchTable) enqueueRun(run *xorb.Run, keep func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.enqueueLocked(writeTask{keep, int64(len(run.Packed))}) {
		t.writes.skipped += int64(run.Chunks.Len())
	}
}

// enqueueFunc does something when the disk has got all that waits for it now.
func (t *fetchTable) enqueueFunc(do func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.enqueueLocked(writeTask{do: do})
}

// enqueueLocked puts something into the queue, unless too much is there.
func (t *fetchTable) enqueueLocked(next writeTask) bool {
	w := &t.writes
	if w.closed || w.bytes+next.size > w.maxBytes {
		return false
	}
	w.queue = append(w.queue, next)
	w.bytes += next.size
	if !w.draining {
		w.draining = true
		t.running.Go(t.drain)
	}
	return true
}

// drain puts on disk what is in the queue.
func (t *fetchTable) drain() {
	for {
		next, ok := t.nextTask()
		if !ok {
			return
		}
		next.do()
		t.mu.Lock()
		t.writes.bytes -= next.size
		t.mu.Unlock()
	}
}

// nextTask takes the oldest out of the queue.
func (t *fetchTable) nextTask() (next writeTask, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := &t.writes
	if len(w.queue) == 0 {
		w.draining = false
		return writeTask{}, false
	}
	next = w.queue[0]
	w.queue[0] = writeTask{}
	w.queue = w.queue[1:]
	return next, true
}

func (t *fetchTable) skippedChunks() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.writes.skipped
}

// leave takes one user away that is no reader.
func (t *fetchTable) leave(f *fetch) {
	t.mu.Lock()
	last := t.leaveLocked(f)
	t.mu.Unlock()
	if last {
		f.end()
	}
}

// MarkRedundant says that chunks are kept on disk in a whole file, too, so that they may go first.
func (c *Cache) MarkRedundant(terms []codec.Term) {
	if c.packed != nil {
		c.fetches.enqueueFunc(func() { c.packed.MarkRedundant(terms) })
	}
}
