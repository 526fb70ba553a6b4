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

// fetches are the packed chunks that are on their way, being unpacked, or waiting for
// the reader they were fetched ahead for. A reader that needs some of them takes part
// in the fetch instead of asking the origin again.
type fetches struct {
	mu     sync.Mutex
	byXorb map[codec.Hash]*fetch // the first of a list through fetch.next; guarded by mu
	near   bool                  // the origin is near; constant
	piece  bool                  // the first chunks of a fetch may be told before the others; constant
	keep   func(*fetch) error    // puts what came from the origin on disk; nil: nobody does; constant
	going  sync.WaitGroup        // fetches in goroutines of their own, and the one of keeping

	keeping keeping // guarded by mu

	// onDisk counts the fetches that are here no more because they are on disk, and maybe some
	// others. Who looked there before that found too little.
	onDisk atomic.Int64
}

// A fetch is one request for consecutive chunks of a xorb. It lives until its last
// user has released it.
type fetch struct {
	xorb   codec.Hash
	chunks codec.ChunkRange
	cancel context.CancelFunc // ends the request when nobody wants it any more; may be nil; guarded by fetches.mu until its last user leaves

	some *xorb.Run     // the first chunks, while others are on their way; nil: none; guarded by fetches.mu
	more chan struct{} // closed when there is more than some; nil: nobody waits; guarded by fetches.mu

	pastDisk bool // it is not to be read from disk; constant once it is run

	done  chan struct{} // closed once all below are final
	run   *xorb.Run
	known *xorb.Run // run with the hashes that are known, if it came from the origin
	err   error
	buf   *buffer // what run lies in, if it is ours
	copy  int     // of the xorb, that was read
	disk  bool    // all of it was read from disk

	next  *fetch // of this xorb; guarded by fetches.mu
	users int    // guarded by fetches.mu
	ahead *hold  // of the stream it was fetched ahead for, or nil; guarded by fetches.mu
	read  uint64 // a bit for each chunk that somebody has read; guarded by fetches.mu
	spent bool   // it is not to be kept on disk, or not again; guarded by fetches.mu

	good atomic.Uint64 // a bit for each chunk that was compared with its hash
}

// A part is the chunks of a fetch that one reader needs.
type part struct {
	*fetch
	sub codec.ChunkRange
	own bool // the reader that asked is the one to run the fetch
}

func (f *fetches) init() {
	f.byXorb = map[codec.Hash]*fetch{}
	f.keeping.late, f.keeping.giveUp = context.WithCancel(context.Background())
}

// maxFetch is the most chunks of one request: at most 8 MiB unpacked. The bits of
// fetch.read are as many.
const maxFetch = 64

// join appends the fetches that together give the chunks of want, in order. Those that
// are new are marked own, and the caller runs them. Each part must be released. It is
// false, and nothing was appended, if something came to the disk since onDisk was seen:
// the caller looks there again.
func (f *fetches) join(parts []part, x codec.Hash, want codec.ChunkRange, seen int64) ([]part, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.onDisk.Load() != seen {
		return parts, false
	}
	for at := want.Start; at < want.End; {
		there, next := f.findLocked(x, at)
		own := there == nil
		if own {
			end := min(want.End, next, at+maxFetch)
			there = &fetch{xorb: x, chunks: codec.ChunkRange{Start: at, End: end}, done: make(chan struct{})}
			there.next, f.byXorb[x] = f.byXorb[x], there
		}
		there.users++
		sub := codec.ChunkRange{Start: at, End: min(want.End, there.chunks.End)}
		parts = append(parts, part{there, sub, own})
		at = sub.End
	}
	return parts, true
}

// findLocked returns the fetch that has chunk i, or else where the next one begins.
func (f *fetches) findLocked(x codec.Hash, i uint32) (there *fetch, next uint32) {
	next = codec.MaxXorbChunks
	for there := f.byXorb[x]; there != nil; there = there.next {
		switch c := there.chunks; {
		case c.Start <= i && i < c.End:
			return there, 0
		case c.Start > i:
			next = min(next, c.Start)
		}
	}
	return nil, max(next, i+1)
}

// release ends the use of a part, which was read if err is nil. The last user's release
// gives the memory back.
func (f *fetches) release(p part, err error) {
	f.mu.Lock()
	h := p.ahead
	var passed bool
	switch {
	case err == nil:
		passed = p.markLocked(p.sub) && h != nil
	case errors.Is(err, codec.ErrCorrupt):
		// Whoever comes now must not get the same bytes again.
		f.forgetLocked(p.fetch)
		p.spent = true
		passed = h != nil
	}
	if passed {
		p.letGoLocked()
	}
	last := f.leaveLocked(p.fetch)
	f.mu.Unlock()
	if last {
		p.end()
	}
	if h != nil {
		h.touch(passed)
	}
}

// markLocked notes that chunks sub were read and says whether now all were.
func (there *fetch) markLocked(sub codec.ChunkRange) bool {
	bits := uint64(1)<<sub.Len() - 1
	there.read |= bits << (sub.Start - there.chunks.Start)
	return there.allRead()
}

// allRead says whether every chunk was read by somebody.
func (there *fetch) allRead() bool { return there.read == uint64(1)<<there.chunks.Len()-1 }

// letGoLocked ends the use of a fetch by the stream it was made ahead for.
func (there *fetch) letGoLocked() {
	there.ahead = nil
	there.users--
}

// leaveLocked takes one user away and says whether it was the last.
func (f *fetches) leaveLocked(there *fetch) bool {
	there.users--
	if there.users > 0 || f.keepLocked(there) {
		return false
	}
	if there.spent {
		f.onDisk.Add(1)
	}
	f.forgetLocked(there)
	return true
}

// forget makes sure that nobody else joins a fetch.
func (f *fetches) forget(there *fetch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forgetLocked(there)
}

// forgetLocked makes sure that nobody else joins a fetch.
func (f *fetches) forgetLocked(there *fetch) {
	first := f.byXorb[there.xorb]
	switch {
	case first == there && there.next == nil:
		delete(f.byXorb, there.xorb)
		return
	case first == there:
		f.byXorb[there.xorb] = there.next
		return
	}
	for before := first; before != nil; before = before.next {
		if before.next == there {
			before.next = there.next
			return
		}
	}
}

// end is called when nobody uses the fetch any more.
func (there *fetch) end() {
	if there.cancel != nil {
		there.cancel()
	}
	select {
	case <-there.done:
		there.buf.free()
	default: // still going; its buffer goes to the collector
	}
}

// finish makes the result of a fetch known. A failure is for those who wait, not for
// those who come later.
func (f *fetches) finish(there *fetch, run *xorb.Run, err error) {
	f.mu.Lock()
	there.run, there.err = run, err
	if err != nil {
		there.buf = nil // the origin may be writing to it still
	}
	h, size := there.ahead, there.size() // its last user may free the buffer as soon as it is done
	close(there.done)
	if err != nil {
		f.forgetLocked(there)
		if h != nil {
			there.letGoLocked()
		}
	}
	f.mu.Unlock()
	switch {
	case h == nil:
	case err != nil:
		h.touch(true)
	default:
		h.resize(size)
	}
}

// ended says whether the result is there, and whether it is a failure.
func (there *fetch) ended() (ended, failed bool) {
	select {
	case <-there.done:
		return true, there.err != nil
	default:
		return false, false
	}
}

// size is the memory that a finished fetch holds. It must have users.
func (there *fetch) size() int64 {
	switch {
	case there.buf != nil:
		return int64(cap(there.buf.b))
	case there.run != nil:
		return int64(len(there.run.Packed))
	}
	return 0
}

// wait returns when the part is there. What is damaged, or where it is near cannot be read,
// may be a chunk that only another reader wants: then this one asks again, for its own.
func (p part) wait(ctx context.Context, f *fetches) (*xorb.Run, error) {
	for {
		if ended, _ := p.ended(); ended {
			return p.result(f) // without ctx.Done, which takes a goroutine
		}
		some, more := p.arrived(f)
		if some != nil {
			return some, nil
		}
		select {
		case <-p.done:
			return p.result(f)
		case <-more:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// arrived returns the first chunks of the fetch if all of the part are among them, or else
// what is closed when there are more of them.
func (p part) arrived(f *fetches) (some *xorb.Run, more <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p.some != nil && p.some.Chunks.End >= p.sub.End {
		return p.some, nil
	}
	if ended, _ := p.ended(); p.more == nil && f.piece && !ended {
		p.more = make(chan struct{})
	}
	return nil, p.more
}

// came is told of the first chunks of a fetch while others are on their way.
func (f *fetches) came(there *fetch, some *xorb.Run) {
	f.mu.Lock()
	defer f.mu.Unlock()
	there.some = some
	if there.more != nil {
		close(there.more)
		there.more = nil
	}
}

func (p part) result(f *fetches) (*xorb.Run, error) {
	if p.err != nil && !p.own && p.sub != p.chunks {
		if errors.Is(p.err, codec.ErrCorrupt) || f.near && errors.Is(p.err, origin.ErrUnavailable) {
			return nil, errAgain
		}
	}
	return p.run, p.err
}

// close ends the fetches that go on in the background, and waits for them.
func (f *fetches) close() {
	f.mu.Lock()
	f.keeping.closed = true
	defer time.AfterFunc(mostLate, f.keeping.giveUp).Stop()
	for _, first := range f.byXorb {
		for there := first; there != nil; there = there.next {
			if there.cancel != nil {
				there.cancel()
			}
		}
	}
	f.mu.Unlock()
	f.going.Wait()
}
