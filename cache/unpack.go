package cache

import (
	"fmt"
	"sync"

	"github.com/xetfs/xetfs/cache/flight"
)

// fillAll fills in all chunks, on all free cores, and returns the first error.
func (rd *readOp) fillAll() error {
	if helpers := rd.findHelpers(); helpers > 0 {
		rd.workWith(helpers)
	} else {
		rd.work()
	}
	return rd.failed
}

// findHelpers takes free cores, as many as are useful, and returns their number.
func (rd *readOp) findHelpers() (n int) {
	for ; n < (len(rd.slots)-1)/minHelp; n++ {
		select {
		case rd.c.helpers <- struct{}{}:
		default:
			return n
		}
	}
	return n
}

func (rd *readOp) workWith(helpers int) {
	var help sync.WaitGroup
	for range helpers {
		help.Go(func() {
			defer func() { <-rd.c.helpers }()
			rd.work()
		})
	}
	rd.work()
	help.Wait()
}

// work fills in one free chunk after the other.
func (rd *readOp) work() {
	var err error
	defer func() {
		if err != nil {
			rd.fail(err)
		}
	}()
	defer flight.Guard(&err)
	for {
		i := int(rd.next.Add(1)) - 1
		if i >= len(rd.slots) {
			return
		}
		if err = rd.fill(i); err != nil {
			return
		}
	}
}

// fail records an error and stops the other goroutines.
func (rd *readOp) fail(err error) {
	rd.next.Store(int64(len(rd.slots)))
	rd.mu.Lock()
	defer rd.mu.Unlock()
	if rd.failed == nil {
		rd.failed = err
	}
}

// minHelp is how many chunks justify another core.
const minHelp = 4

// fill copies or unpacks the bytes of chunk i to their place.
func (rd *readOp) fill(i int) error {
	w := &rd.slots[i]
	from := w.off - rd.skip // of the chunk, in p
	if from+w.size <= 0 || from >= int64(len(rd.p)) {
		return nil // more chunks than needed
	}
	whole := from >= 0 && from+w.size <= int64(len(rd.p))
	if w.chunk == nil && whole {
		return rd.unpackInto(i, rd.p[from:from+w.size])
	}
	if w.chunk == nil {
		if err := rd.unpackShared(i); err != nil {
			return err
		}
	}
	if from < 0 {
		copy(rd.p, w.chunk.Data[-from:])
	} else {
		copy(rd.p[from:], w.chunk.Data)
	}
	return nil
}

// unpackInto unpacks a chunk directly into the reader's buffer. Waiting readers must then
// retry, if they find the packed chunk locally. This case is rare, and a copy would cost every
// read. Without a local copy of the chunk, memory gets a copy anyway, and so do waiting
// readers.
func (rd *readOp) unpackInto(i int, dst []byte) error {
	w, key := &rd.slots[i], rd.key(i)
	rd.c.stats.unpacked.Add(1)
	err := w.run.Unpack(key.index, dst)
	switch {
	case err != nil:
		err = rd.failure(w, err)
		rd.finish(w, nil, err)
		return err
	case rd.c.local || w.from.fromDisk || rd.c.storesPacked():
		rd.finish(w, nil, errRetry)
	case w.leader:
		w.chunk = copyChunk(rd.c.memory.arena, key, dst)
		rd.finish(w, w.chunk, nil)
		rd.c.memory.add(w.chunk)
	default:
		rd.c.memory.addCopy(key, dst)
	}
	w.markVerified(key.index)
	return nil
}

// finish ends the call for a chunk, if this reader leads it.
func (rd *readOp) finish(w *chunkSlot, ch *chunk, err error) {
	if w.leader {
		rd.c.unpacking.finish(w.call, ch, err)
		w.leader, w.call = false, nil
	}
}

// failure returns the error of a chunk that did not unpack.
func (rd *readOp) failure(w *chunkSlot, err error) error {
	if w.from.fromDisk {
		rd.c.fetches.forget(w.from)
		rd.c.dropFromDisk(rd.xorb, w.run)
		return diskCorrupt(rd.xorb, err)
	}
	return &replicaError{w.from.replica, fmt.Errorf("xorb %s: %w", rd.xorb, err)}
}

// unpackShared unpacks a chunk into memory, for this reader, waiting readers and later readers.
func (rd *readOp) unpackShared(i int) error {
	w, key := &rd.slots[i], rd.key(i)
	if w.chunk != nil {
		return nil
	}
	ch := newChunk(rd.c.memory.arena, key, w.run.Size(key.index))
	defer func() {
		if w.chunk == nil {
			ch.release() // an error or a panic
		}
	}()
	rd.c.stats.unpacked.Add(1)
	if err := w.run.Unpack(key.index, ch.Data); err != nil {
		err = rd.failure(w, err)
		rd.finish(w, nil, err)
		return err
	}
	w.markVerified(key.index)
	w.chunk = ch
	rd.finish(w, ch, nil)
	rd.c.memory.add(ch)
	return nil
}
