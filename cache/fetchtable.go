package cache

import (
	"bytes"
	"context"
	"errors"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/seen"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/xorb"
)

// fetchTable has the fetches of packed chunks that are running, in use, or read ahead. A reader
// that needs some of these chunks joins the fetch instead of sending another request.
type fetchTable struct {
	mu      sync.Mutex
	byXorb  map[codec.Hash]*fetch // the first of a list through fetch.next; guarded by mu
	local   bool                  // the origin is local; constant
	write   func(*fetch) error    // stores chunks from the origin on disk; may be nil; constant
	running sync.WaitGroup        // goroutines of fetches and of drain
	drops   *seen.Drops           // of the Cache; constant

	writes writeBehind // guarded by mu

	// diskWrites counts the fetches that ended because their chunks are on disk, or could not be
	// stored. If it changes after a look at the disk index, chunks may have been missed.
	diskWrites atomic.Int64
}

// A fetch is one request for consecutive chunks of a xorb. It ends when its last user has
// released it.
type fetch struct {
	xorb   codec.Hash
	chunks codec.ChunkRange
	cancel context.CancelFunc // ends the request when it has no users; may be nil; guarded by fetchTable.mu until the last user leaves

	partial      *xorb.Run     // the first chunks, while others arrive; may be nil; guarded by fetchTable.mu
	partialReady chan struct{} // closed when partial grows; nil: no reader waits; guarded by fetchTable.mu

	drops    int64  // of the Cache, at its start; constant
	skipDisk bool   // do not read it from disk; constant once it runs
	onEnd    func() // called after its end; nil: no call; constant once it runs

	done      chan struct{} // closed once all below are final
	run       *xorb.Run
	annotated *xorb.Run // run with the known hashes, if it is from the origin
	err       error
	buf       *buffer // the memory of run, if it is ours
	replica   int     // of the xorb
	fromDisk  bool    // all of it was read from disk

	copied []codec.ChunkRange // the chunks that were copied on disk, see moved.go

	next        *fetch       // of this xorb; guarded by fetchTable.mu
	users       int          // guarded by fetchTable.mu
	reservation *reservation // of the readahead that started it, or nil; guarded by fetchTable.mu
	read        chunkMarks   // the chunks that were read; changed with fetchTable.mu
	noWrite     bool         // do not write it to disk, or not again; guarded by fetchTable.mu
	queued      bool         // it waits for the disk, or was written; guarded by fetchTable.mu

	verified  chunkMarks  // the chunks that were compared with their hashes
	isAwaited atomic.Bool // a reader has joined it
}

// A part is the chunks of a fetch that one reader needs.
type part struct {
	*fetch
	sub    codec.ChunkRange
	leader bool // this reader must run the fetch
}

func (t *fetchTable) init() {
	t.byXorb = map[codec.Hash]*fetch{}
	t.writes.drainCtx, t.writes.cancelDrain = context.WithCancel(context.Background())
}

// maxFetch is the most chunks of one request: at most 16 MiB unpacked. A step of readahead
// (origin.ReadaheadStep) has half as many on average.
const maxFetch = 128

// chunkMarks has a mark for each chunk of a fetch.
type chunkMarks [maxFetch / 64]atomic.Uint64

// mark marks chunk i of the fetch.
func (m *chunkMarks) mark(i uint32) { m[i/64].Or(1 << (i % 64)) }

func (m *chunkMarks) has(i uint32) bool { return m[i/64].Load()&(1<<(i%64)) != 0 }

// count returns the number of marked chunks.
func (m *chunkMarks) count() (n int) {
	for i := range m {
		n += bits.OnesCount64(m[i].Load())
	}
	return n
}

// join appends the fetches that together have the chunks of want, in order. New ones are marked
// leader, and the caller runs them. Each part must be released. If the disk has changed since
// the caller saw diskWrites, join appends nothing and returns false. The caller then looks
// there again.
func (t *fetchTable) join(parts []part, x codec.Hash, want codec.ChunkRange, seen int64) ([]part, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.diskWrites.Load() != seen {
		return parts, false
	}
	for at := want.Start; at < want.End; {
		f, next := t.findLocked(x, at)
		own := f == nil
		if own {
			end := min(want.End, next, at+maxFetch)
			f = &fetch{xorb: x, chunks: codec.ChunkRange{Start: at, End: end}, done: make(chan struct{}), drops: t.drops.Count()}
			f.next, t.byXorb[x] = t.byXorb[x], f
		}
		f.users++
		sub := codec.ChunkRange{Start: at, End: min(want.End, f.chunks.End)}
		parts = append(parts, part{f, sub, own})
		at = sub.End
	}
	return parts, true
}

// findLocked returns the fetch that has chunk i, or else the start of the next fetch.
func (t *fetchTable) findLocked(x codec.Hash, i uint32) (f *fetch, next uint32) {
	next = codec.MaxXorbChunks
	for f := t.byXorb[x]; f != nil; f = f.next {
		switch c := f.chunks; {
		case c.Start <= i && i < c.End:
			return f, 0
		case c.Start > i:
			next = min(next, c.Start)
		}
	}
	return nil, max(next, i+1)
}

// copyQueued returns a copy of the first chunks of r if they wait for the disk and are
// verified, or else nil. It shortens r to chunks with one source.
func (t *fetchTable) copyQueued(x codec.Hash, r *codec.ChunkRange) *xorb.Run {
	f := t.useQueued(x, r)
	if f == nil {
		return nil
	}
	defer t.leave(f)
	run := f.annotated.Slice(*r)
	run, err := xorb.ParseRun(bytes.Clone(run.Packed), *r, run.Hashes)
	if err != nil {
		return nil // impossible: it was a run before
	}
	return run
}

// useQueued returns the fetch with these chunks and adds a user.
func (t *fetchTable) useQueued(x codec.Hash, r *codec.ChunkRange) *fetch {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.queuedLocked(x, r.Start)
	for i := r.Start + 1; i < r.End; i++ {
		if t.queuedLocked(x, i) != f {
			r.End = i
		}
	}
	if f != nil {
		f.users++
	}
	return f
}

// queuedLocked returns the fetch that waits for the disk and has a verified chunk, or nil.
func (t *fetchTable) queuedLocked(x codec.Hash, chunk uint32) *fetch {
	f, _ := t.findLocked(x, chunk)
	if f == nil || !f.queued || !f.verified.has(chunk-f.chunks.Start) {
		return nil
	}
	return f
}

// release ends the use of a part, which was read if err is nil. The last user frees the memory.
func (t *fetchTable) release(p part, err error) {
	t.mu.Lock()
	h := p.reservation
	var passed bool
	switch {
	case err == nil:
		passed = p.markLocked(p.sub) && h != nil
	case errors.Is(err, codec.ErrCorrupt):
		// Later readers must not get the same bytes again.
		t.forgetLocked(p.fetch)
		p.noWrite = true
		passed = h != nil
	}
	if passed {
		p.unreserveLocked()
	}
	last := t.leaveLocked(p.fetch)
	t.mu.Unlock()
	if last {
		p.end()
	}
	if h != nil {
		h.advance(passed)
	}
}

// markLocked marks chunks sub as read and reports whether now all were.
func (f *fetch) markLocked(sub codec.ChunkRange) bool {
	for i := sub.Start; i < sub.End; i++ {
		f.read.mark(i - f.chunks.Start)
	}
	return f.allRead()
}

// allRead reports whether every chunk was read.
func (f *fetch) allRead() bool { return f.read.count() == f.chunks.Len() }

// unreserveLocked ends the use of a fetch by its readahead.
func (f *fetch) unreserveLocked() {
	f.reservation = nil
	f.users--
}

// leaveLocked removes a user and reports whether it was the last.
func (t *fetchTable) leaveLocked(f *fetch) bool {
	f.users--
	if f.users > 0 || t.enqueueFetchLocked(f) {
		return false
	}
	if f.queued {
		t.diskWrites.Add(1)
	}
	t.forgetLocked(f)
	return true
}

// forget removes a fetch, so that no other reader joins it.
func (t *fetchTable) forget(f *fetch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forgetLocked(f)
}

// forgetLocked removes a fetch, so that no other reader joins it.
func (t *fetchTable) forgetLocked(f *fetch) {
	head := fetch{next: t.byXorb[f.xorb]}
	for before := &head; before.next != nil; before = before.next {
		if before.next == f {
			before.next = f.next
			break
		}
	}
	if t.byXorb[f.xorb] = head.next; head.next == nil {
		delete(t.byXorb, f.xorb)
	}
}

// drop makes later readers request chunks r of xorb x again, and keeps running fetches of them
// from the disk.
func (t *fetchTable) drop(x codec.Hash, r codec.ChunkRange) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for f := t.byXorb[x]; f != nil; {
		next := f.next
		if f.chunks.Start < r.End && r.Start < f.chunks.End {
			f.noWrite = true
			t.forgetLocked(f)
		}
		f = next
	}
}

// end frees a fetch without users.
func (f *fetch) end() {
	if f.cancel != nil {
		f.cancel()
	}
	select {
	case <-f.done:
		f.buf.free()
	default: // it still runs; the garbage collector frees its buffer
	}
}

// finish sets the result of a fetch. An error is only for readers that wait now.
func (t *fetchTable) finish(f *fetch, run *xorb.Run, err error) {
	t.mu.Lock()
	f.run, f.err = run, err
	if err != nil {
		f.buf = nil // the origin may still write to it
	} else {
		f.partial = nil // it may be a small part of a large buffer
	}
	h, size := f.reservation, f.size() // after done its last user may free the buffer
	close(f.done)
	if err != nil {
		t.forgetLocked(f)
		if h != nil {
			f.unreserveLocked()
		}
	}
	t.mu.Unlock()
	switch {
	case h == nil:
	case err != nil:
		h.advance(true)
	default:
		h.resize(size)
	}
}

// await records that a reader waits for the fetch, and reports whether a readahead started it.
func (f *fetch) await(c *Cache) bool {
	f.isAwaited.Store(true)
	c.fetches.mu.Lock()
	defer c.fetches.mu.Unlock()
	return f.reservation != nil
}

// ended reports whether the fetch has ended, and whether it has failed.
func (f *fetch) ended() (ended, failed bool) {
	select {
	case <-f.done:
		return true, f.err != nil
	default:
		return false, false
	}
}

// isFromDisk reports whether a chunk of a finished fetch is from disk.
func (f *fetch) isFromDisk(chunk uint32) bool {
	return f.fromDisk || slices.ContainsFunc(f.copied, func(r codec.ChunkRange) bool { return r.Start <= chunk && chunk < r.End })
}

// size returns the memory of a finished fetch. It must have users.
func (f *fetch) size() int64 {
	switch {
	case f.buf != nil:
		return int64(cap(f.buf.b))
	case f.run != nil:
		return int64(len(f.run.Packed))
	}
	return 0
}

// wait returns when the part has arrived. An error of the fetch may concern a chunk that only
// another reader needs. In that case wait returns errRetry, and the reader retries with its own
// chunks.
func (p part) wait(ctx context.Context, t *fetchTable) (*xorb.Run, error) {
	for {
		if ended, _ := p.ended(); ended {
			return p.result(t) // without ctx.Done, which starts a goroutine
		}
		partial, ready := p.partialResult(t)
		if partial != nil {
			return partial, nil
		}
		select {
		case <-p.done:
			return p.result(t)
		case <-ready:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// partialResult returns the first chunks of the fetch if they include the part. Otherwise it
// returns a channel that is closed when more chunks arrive.
func (p part) partialResult(t *fetchTable) (run *xorb.Run, ready <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.partial != nil && p.partial.Chunks.End >= p.sub.End {
		return p.partial, nil
	}
	if ended, _ := p.ended(); p.partialReady == nil && !t.local && !ended {
		p.partialReady = make(chan struct{})
	}
	return nil, p.partialReady
}

// setPartial publishes the first chunks of a fetch while others arrive.
func (t *fetchTable) setPartial(f *fetch, run *xorb.Run) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f.partial = run
	if f.partialReady != nil {
		close(f.partialReady)
		f.partialReady = nil
	}
}

func (p part) result(t *fetchTable) (*xorb.Run, error) {
	if p.err != nil && !p.leader && p.sub != p.chunks {
		if errors.Is(p.err, codec.ErrCorrupt) || t.local && errors.Is(p.err, origin.ErrUnavailable) {
			return nil, errRetry
		}
	}
	return p.run, p.err
}

// skip counts chunks that are not stored.
func (t *fetchTable) skip(r codec.ChunkRange) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.writes.skipped += int64(r.Len())
}

// close cancels the fetches in the background, and waits for them.
func (t *fetchTable) close() {
	t.mu.Lock()
	t.writes.closed = true
	defer time.AfterFunc(maxDrain, t.writes.cancelDrain).Stop()
	for _, first := range t.byXorb {
		for f := first; f != nil; f = f.next {
			if f.cancel != nil {
				f.cancel()
			}
		}
	}
	t.mu.Unlock()
	t.running.Wait()
}
