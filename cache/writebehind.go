package cache

import (
	"context"
	"time"

	"github.com/xetfs/xetfs/codec/xorb"
)

// writeBehind is the queue of fetched chunks without readers that are written to the disk
// cache. A reader of such chunks joins their fetch until the disk has them.
type writeBehind struct {
	accepts     func() bool     // whether the disk accepts writes now; constant
	maxBytes    int64           // limit of bytes; constant
	drainCtx    context.Context // ends the wait for the disk; constant
	cancelDrain func()          // ends drainCtx; constant

	// Guarded by fetches.mu:
	queue    []writeTask
	bytes    int64 // of the tasks in the queue
	skipped  int64 // chunks that found the queue full
	draining bool  // a goroutine runs drain
	closed   bool
}

// A writeTask runs when the disk has completed all tasks before it.
type writeTask struct {
	do   func()
	size int64 // bytes of memory that it holds
}

const (
	// minWriteBehind is the least limit of the queue. Chunks that find the queue full are not
	// stored: no reader waits for the disk.
	minWriteBehind = 16 << 20

	// maxDrain is how long close waits for a slow or hanging disk.
	maxDrain = 5 * time.Second
)

// init sets the limit to half of the memory of the cache. A disk may be slower than the origin,
// or all cores may be busy. The queue absorbs that difference. With a disk cache few unpacked
// chunks need memory.
func (w *writeBehind) init(m *memory, bytes int64, wanted func() bool) {
	w.accepts = wanted
	w.maxBytes = max(minWriteBehind, bytes/2)
	m.shrink(w.maxBytes - minWriteBehind)
}

// enqueueFetchLocked queues a fetch without users for the disk. It reports whether the queue is
// now a user of the fetch.
func (t *fetchTable) enqueueFetchLocked(f *fetch) bool {
	w := &t.writes
	if t.write == nil || w.closed || f.noWrite {
		return false
	}
	ended, failed := f.ended()
	if !ended || failed || f.fromDisk || !w.accepts() {
		return false
	}
	write := func() {
		_ = t.write(f) // it is a cache
		t.leave(f)
	}
	if !t.enqueueLocked(writeTask{write, f.size()}) {
		w.skipped += int64(f.chunks.Len())
		return false
	}
	f.users, f.noWrite, f.queued = 1, true, true
	return true
}

// enqueueRun queues a function that stores the chunks of run, unless the queue is full.
func (t *fetchTable) enqueueRun(run *xorb.Run, write func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.enqueueLocked(writeTask{write, int64(len(run.Packed))}) {
		t.writes.skipped += int64(run.Chunks.Len())
	}
}

// enqueueFunc queues a function behind all present tasks.
func (t *fetchTable) enqueueFunc(do func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.enqueueLocked(writeTask{do: do})
}

// enqueueLocked adds a task to the queue, unless the queue is full.
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

// drain runs the tasks of the queue.
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

// nextTask takes the oldest task out of the queue.
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

func (t *fetchTable) isClosed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.writes.closed
}

func (t *fetchTable) skippedChunks() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.writes.skipped
}

// leave removes a user that is no reader.
func (t *fetchTable) leave(f *fetch) {
	t.mu.Lock()
	last := t.leaveLocked(f)
	t.mu.Unlock()
	if last {
		f.end()
	}
}
