package cache

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/xorb"
)

// fetchTable are the packed chunks that are on their way, being unpacked, or waiting for
// the reader they were fetched ahead for. A reader that needs some of them takes part
// in the fetch instead of asking the origin again.
type fetchTable struct {
	mu            sync.Mutex
	byXorb        map[codec.Hash]*fetch // the first of a list through fetch.next; guarded by mu
	local         bool                  // the origin is near; constant
	reportPartial bool                  // the first chunks of a fetch may be told before the others; constant
	write         func(*fetch) error    // puts what came from the origin on disk; nil: nobody does; constant
	running       sync.WaitGroup        // fetches in goroutines of their own, and the one of keeping

	writes writeBehind // guarded by mu

	// diskWrites counts the fetches that are here no more because they are on disk, and maybe some
	// others. Who looked there before that found too little.
	diskWrites atomic.Int64
}

// A fetch is one request for consecutive chunks of a xorb. It lives until its last
// user has released it.
type fetch struct {
	xorb   codec.Hash
	chunks codec.ChunkRange
	cancel context.CancelFunc // ends the request when nobody wants it any more; may be nil; guarded by fetches.mu until its last user leaves

	partial      *xorb.Run     // the first chunks, while others are on their way; nil: none; guarded by fetches.mu
	partialReady chan struct{} // closed when there is more than some; nil: nobody waits; guarded by fetches.mu

	skipDisk bool // it is not to be read from disk; constant once it is run

	done      chan struct{} // closed once all below are final
	run       *xorb.Run
	annotated *xorb.Run // run with the hashes that are known, if it came from the origin
	err       error
	buf       *buffer // what run lies in, if it is ours
	replica   int     // of the xorb, that was read
	fromDisk  bool    // all of it was read from disk

	next        *fetch       // of this xorb; guarded by fetches.mu
	users       int          // guarded by fetches.mu
	reservation *reservation // of the stream it was fetched ahead for, or nil; guarded by fetches.mu
	read        uint64       // a bit for each chunk that somebody has read; guarded by fetches.mu
	noWrite     bool         // it is not to be kept on disk, or not again; guarded by fetches.mu

	verified atomic.Uint64 // a bit for each chunk that was compared with its hash
}

// A part is the chunks of a fetch that one reader needs.
type part struct {
	*fetch
	sub    codec.ChunkRange
	leader bool // the reader that asked is the one to run the fetch
}

func (t *fetchTable) init() {
	t.byXorb = map[codec.Hash]*fetch{}
	t.writes.drainCtx, t.writes.cancelDrain = context.WithCancel(context.Background())
}

// maxFetch is the most chunks of one request: at most 8 MiB unpacked. The bits of
// fetch.read are as many.
const maxFetch = 64

// join appends the fetches that together give the chunks of want, in order. Those that
// are new are marked own, and the caller runs them. Each part must be released. It is
// false, and nothing was appended, if something came to the disk since diskWrites was seen:
// the caller looks there again.
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
			f = &fetch{xorb: x, chunks: codec.ChunkRange{Start: at, End: end}, done: make(chan struct{})}
			f.next, t.byXorb[x] = t.byXorb[x], f
		}
		f.users++
		sub := codec.ChunkRange{Start: at, End: min(want.End, f.chunks.End)}
		parts = append(parts, part{f, sub, own})
		at = sub.End
	}
	return parts, true
}

// findLocked returns the fetch that has chunk i, or else where the next one begins.
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

// release ends the use of a part, which was read if err is nil. The last user's release
// gives the memory back.
func (t *fetchTable) release(p part, err error) {
	t.mu.Lock()
	h := p.reservation
	var passed bool
	switch {
	case err == nil:
		passed = p.markLocked(p.sub) && h != nil
	case errors.Is(err, codec.ErrCorrupt):
		// Whoever comes now must not get the same bytes again.
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

// markLocked notes that chunks sub were read and says whether now all were.
func (f *fetch) markLocked(sub codec.ChunkRange) bool {
	bits := uint64(1)<<sub.Len() - 1
	f.read |= bits << (sub.Start - f.chunks.Start)
	return f.allRead()
}

// allRead says whether every chunk was read by somebody.
func (f *fetch) allRead() bool { return f.read == uint64(1)<<f.chunks.Len()-1 }

// unreserveLocked ends the use of a fetch by the stream it was made ahead for.
func (f *fetch) unreserveLocked() {
	f.reservation = nil
	f.users--
}

// leaveLocked takes one user away and says whether it was the last.
func (t *fetchTable) leaveLocked(f *fetch) bool {
	f.users--
	if f.users > 0 || t.enqueueFetchLocked(f) {
		return false
	}
	if f.noWrite {
		t.diskWrites.Add(1)
	}
	t.forgetLocked(f)
	return true
}

// forget makes sure that nobody else joins a fetch.
func (t *fetchTable) forget(f *fetch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forgetLocked(f)
}

// forgetLocked makes sure that nobody else joins a fetch.
func (t *fetchTable) forgetLocked(f *fetch) {
	first := t.byXorb[f.xorb]
	switch {
	case first == f && f.next == nil:
		delete(t.byXorb, f.xorb)
		return
	case first == f:
		t.byXorb[f.xorb] = f.next
		return
	}
	for before := first; before != nil; before = before.next {
		if before.next == f {
			before.next = f.next
			return
		}
	}
}

// end is called when nobody uses the fetch any more.
func (f *fetch) end() {
	if f.cancel != nil {
		f.cancel()
	}
	select {
	case <-f.done:
		f.buf.free()
	default: // still going; its buffer goes to the collector
	}
}

// finish makes the result of a fetch known. A failure is for those who wait, not for
// those who come later.
func (t *fetchTable) finish(f *fetch, run *xorb.Run, err error) {
	t.mu.Lock()
	f.run, f.err = run, err
	if err != nil {
		f.buf = nil // the origin may be writing to it still
	}
	h, size := f.reservation, f.size() // its last user may free the buffer as soon as it is done
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

// ended says whether the result is there, and whether it is a failure.
func (f *fetch) ended() (ended, failed bool) {
	select {
	case <-f.done:
		return true, f.err != nil
	default:
		return false, false
	}
}

// size is the memory that a finished fetch holds. It must have users.
func (f *fetch) size() int64 {
	switch {
	case f.buf != nil:
		return int64(cap(f.buf.b))
	case f.run != nil:
		return int64(len(f.run.Packed))
	}
	return 0
}

// wait returns when the part is there. What is damaged, or where it is near cannot be read,
// may be a chunk that only another reader wants: then this one asks again, for its own.
func (p part) wait(ctx context.Context, t *fetchTable) (*xorb.Run, error) {
	for {
		if ended, _ := p.ended(); ended {
			return p.result(t) // without ctx.Done, which takes a goroutine
		}
		some, more := p.partialResult(t)
		if some != nil {
			return some, nil
		}
		select {
		case <-p.done:
			return p.result(t)
		case <-more:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// partialResult returns the first chunks of the fetch if all of the part are among them, or else
// what is closed when there are more of them.
func (p part) partialResult(t *fetchTable) (some *xorb.Run, more <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.partial != nil && p.partial.Chunks.End >= p.sub.End {
		return p.partial, nil
	}
	if ended, _ := p.ended(); p.partialReady == nil && t.reportPartial && !ended {
		p.partialReady = make(chan struct{})
	}
	return nil, p.partialReady
}

// setPartial is told of the first chunks of a fetch while others are on their way.
func (t *fetchTable) setPartial(f *fetch, some *xorb.Run) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f.partial = some
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

// close ends the fetches that go on in the background, and waits for them.
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
