package cache

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/xetfs/xetfs/cache/flight"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/xorb"
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
	w.hash = w.chunk.hash
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
	var err error
	w.hash, err = rd.unpack(w, key.index, dst)
	switch {
	case err != nil:
		err = rd.failure(w, err)
		rd.finish(w, nil, err)
		return err
	case rd.hasPacked(w):
		rd.finish(w, nil, errRetry)
	case w.leader:
		w.chunk = copyChunk(rd.c.memory.arena, key, w.hash, dst)
		rd.finish(w, w.chunk, nil)
		rd.c.memory.add(w.chunk)
	default:
		rd.c.memory.addCopy(key, w.hash, dst)
	}
	rd.markVerified(w, key.index)
	return nil
}

// hasPacked reports whether the packed chunk is on this machine, or soon will be.
func (rd *readOp) hasPacked(w *chunkSlot) bool {
	return rd.c.local || w.from.fromDisk || rd.c.storesPacked()
}

// shortRead is the most chunks of a read whose ends stay in memory, even if they are on disk, too.
// A longer read is part of a stream. The next read of the stream finds its first chunk in
// unpackGroup. Later reads need that chunk no more than those between the ends.
const shortRead = 4

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
	var err error
	if ch.hash, err = rd.unpack(w, key.index, ch.Data); err != nil {
		err = rd.failure(w, err)
		rd.finish(w, nil, err)
		return err
	}
	rd.markVerified(w, key.index)
	w.chunk = ch
	rd.finish(w, ch, nil)
	if len(rd.slots) <= shortRead || !rd.hasPacked(w) {
		rd.c.memory.add(ch)
	}
	return nil
}

// unpack is verify for a reader. With NoVerify it compares nothing.
func (rd *readOp) unpack(w *chunkSlot, chunk uint32, dst []byte) (codec.Hash, error) {
	if rd.c.noVerify {
		return codec.Hash{}, w.run.UnpackUnchecked(chunk, dst)
	}
	return rd.c.verify(rd.xorb, w.run, chunk, dst, w.from.fromDisk)
}

// verify unpacks a chunk of a run of xorb x and compares it with its hash. It records the hash of
// a chunk that is not proven, from disk as a tentative one. A chunk that had another hash before is
// codec.ErrCorrupt, and both copies are dropped.
func (c *Cache) verify(x codec.Hash, run *xorb.Run, chunk uint32, dst []byte, fromDisk bool) (codec.Hash, error) {
	h, err := run.Unpack(chunk, dst)
	if err != nil || c.seen == nil {
		return h, err
	}
	leaf := merkle.Leaf{Hash: h, Size: uint64(len(dst))}
	if run.Hash(chunk) != (codec.Hash{}) {
		c.seen.Set(x, chunk, leaf)
		return h, nil
	}
	if c.seen.Note(x, chunk, leaf, fromDisk) {
		return h, nil
	}
	c.drop(x, codec.ChunkRange{Start: chunk, End: chunk + 1})
	return h, &codec.ChunkError{Chunk: int(chunk), Err: codec.Corrupt("chunk", 0, "its hash is %s, it was another one before", h)}
}

// unpackGroup lets readers that need a part of the same chunk share one unpacking. It also
// retains the chunks that were unpacked last. The next read of a stream starts in the last
// chunk, and finds it even if the memory cache refuses or delays chunks.
type unpackGroup struct {
	max int64 // limit of bytes

	mu    sync.Mutex
	byKey map[chunkKey]*unpackCall // guarded by mu
	done  []*unpackCall            // finished calls, oldest first; guarded by mu
	bytes int64                    // of finished chunks; guarded by mu
}

// An unpackCall is one chunk that one reader unpacks while others wait.
type unpackCall struct {
	key  chunkKey
	done chan struct{} // closed once chunk and err are final

	// Guarded by unpackGroup.mu until done is closed:
	waiting int // readers that will retain the chunk
	chunk   *chunk
	err     error
}

// errRetry is the error for waiting readers if the leader of a call ended without a result.
var errRetry = errors.New("the leading reader ended early")

func (c *unpackGroup) init(max int64) {
	c.max, c.byKey = max, map[chunkKey]*unpackCall{}
}

// join returns a recently unpacked chunk, which the caller must release, or else the call for
// it. If lead is true the call is new and the caller must finish it. Otherwise the caller must
// wait for it or leave it.
func (c *unpackGroup) join(key chunkKey) (ch *chunk, cl *unpackCall, lead bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cl, ok := c.byKey[key]
	switch {
	case !ok:
		cl = &unpackCall{key: key, done: make(chan struct{})}
		c.byKey[key] = cl
		return nil, cl, true
	case cl.chunk != nil:
		cl.chunk.retain()
		return cl.chunk, nil, false
	}
	cl.waiting++
	return nil, cl, false
}

// leave ends the wait of one reader.
func (c *unpackGroup) leave(cl *unpackCall) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cl.waiting--
	cl.chunk.release() // if the call has finished meanwhile
}

// finish ends a call that the caller leads. A chunk stays available for a while. An error is
// only for readers that wait now.
func (c *unpackGroup) finish(cl *unpackCall, ch *chunk, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cl.chunk, cl.err = ch, err
	if err != nil {
		close(cl.done)
		delete(c.byKey, cl.key)
		return
	}
	ch.users.Add(int32(cl.waiting) + 1) // one for the list; before another reader can release it
	close(cl.done)
	c.done = append(c.done, cl)
	c.bytes += roomOf(len(ch.Data))
	for c.bytes > c.max && len(c.done) > 0 {
		old := c.done[0]
		c.done[0] = nil
		c.done = c.done[1:]
		c.bytes -= roomOf(len(old.chunk.Data))
		if c.byKey[old.key] == old {
			delete(c.byKey, old.key)
		}
		old.chunk.release()
	}
}

// forget makes later readers unpack a chunk again.
func (c *unpackGroup) forget(ch *chunk) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cl := c.byKey[ch.key]; cl != nil && cl.chunk == ch {
		delete(c.byKey, ch.key)
	}
}

// close releases all chunks.
func (c *unpackGroup) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cl := range c.done {
		cl.chunk.release()
	}
	c.done = nil
}

// held returns the bytes of finished chunks.
func (c *unpackGroup) held() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}

// has reports whether the chunk is finished or a reader unpacks it.
func (c *unpackGroup) has(key chunkKey) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.byKey[key]
	return ok
}

// wait returns the chunk that another reader unpacks. The caller must release the chunk.
func (c *unpackGroup) wait(ctx context.Context, cl *unpackCall) (*chunk, error) {
	select {
	case <-cl.done:
		return cl.chunk, cl.err
	case <-ctx.Done():
		c.leave(cl)
		return nil, ctx.Err()
	}
}
