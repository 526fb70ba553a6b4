package cache

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
)

// A Readahead prefetches chunks for one stream of reads. It is safe for concurrent use.
type Readahead struct {
	c *Cache

	// Guarded by c.budget.mu:
	closed       bool
	reservations []*reservation // oldest first
	count        int64          // of reservations or plans so far
	last         int64          // budget.clock of its last prefetch
}

// A reservation keeps a fetch alive until the stream has read it.
type reservation struct {
	a     *Readahead
	fetch *fetch
	seq   int64 // among the reservations of a; the same for all of one plan
	bytes int64 // taken from the budget; guarded by c.budget.mu
}

const (
	// maxPacked is the most that a chunk takes of the budget until it has arrived. A chunk that
	// packing made larger takes a little more.
	maxPacked = codec.MaxChunkSize

	// maxReorder is how many reservations may be behind the one that is read: reads of one
	// stream overtake each other. Older ones are dropped. A reader that skips chunks leaves
	// reservations behind that it never reads completely.
	maxReorder = 2
)

// NewReadahead returns a Readahead for one stream.
func (c *Cache) NewReadahead() *Readahead { return &Readahead{c: c} }

// Prefetch requests chunks that will soon be read, and that have about bytes packed bytes; 0:
// unknown. Those on disk are read into the page cache. It never blocks and never delays a Read. It
// has no effect for a local origin. It returns false if the budget has no room for all of them, or
// the Readahead is closed.
func (a *Readahead) Prefetch(x codec.Hash, r codec.ChunkRange, bytes int64) bool {
	each := int64(maxPacked)
	if bytes > 0 {
		each = min(each, bytes/int64(r.Len())+chunkOverhead)
	}
	ok := a.eachMissing(x, r, each, func(absent codec.ChunkRange, seen int64) (done, ok bool) {
		return a.fetch(x, absent, seen, prefetch{each: each})
	})
	if ok && a.c.packed != nil {
		a.c.packed.WillRead(x, r)
	}
	return ok
}

// eachMissing calls do with the parts of r that are neither in memory nor on disk, until ok is
// false. Each takes at most a quarter of the budget. do returns done = false if the disk has
// changed since the caller saw fetchTable.diskWrites.
func (a *Readahead) eachMissing(x codec.Hash, r codec.ChunkRange, each int64, do func(r codec.ChunkRange, seen int64) (done, ok bool)) bool {
	if a.c.local {
		return true
	}
	most := uint32(min(maxFetch, max(1, a.c.budget.max/4/each)))
	for r.Start < r.End {
		seen := a.c.fetches.diskWrites.Load()
		chunks, next := a.c.toPrefetch(x, r), r.End
		for absent := range chunks.Ranges(coalesceChunks, most) {
			done, ok := do(absent, seen)
			if !ok {
				return false
			}
			if !done {
				next = absent.Start
				break
			}
		}
		r.Start = next
	}
	return true
}

// A prefetch says how a call of fetch prefetches.
type prefetch struct {
	each  int64  // bytes of the budget that a chunk takes until it has arrived
	seq   int64  // of the reservations; 0: each has its own
	onEnd func() // called when all fetches of the call have ended; nil: no call
}

// fetch prefetches a few chunks. It has no effect if the disk has changed since the caller saw
// fetchTable.diskWrites.
func (a *Readahead) fetch(x codec.Hash, r codec.ChunkRange, seen int64, how prefetch) (done, hasRoom bool) {
	room := int64(r.Len()) * how.each
	if !a.reserve(room) {
		return false, false
	}
	parts, done := a.c.fetches.join(nil, x, r, seen)
	ended := afterAll(parts, how.onEnd)
	for _, p := range parts {
		if p.leader {
			p.fetch.onEnd = ended
			a.c.startFetch(how.context(p.fetch), p.fetch)
		}
		room -= a.attach(p, how)
	}
	a.c.budget.release(room)
	return done, true
}

// context returns the context of the request for f. Requests of a plan yield to those of waiting
// readers. Those of a stream do not, because its reader waits for them soon.
func (how prefetch) context(f *fetch) context.Context {
	if how.seq == 0 {
		return context.Background()
	}
	return origin.WithReadahead(context.Background(), f.isAwaited.Load)
}

// afterAll returns a function that each leader of parts calls once, and that calls ended after
// the last of them. Without a leader, afterAll calls ended.
func afterAll(parts []part, ended func()) func() {
	if ended == nil {
		return nil
	}
	left := new(atomic.Int64)
	for _, p := range parts {
		if p.leader {
			left.Add(1)
		}
	}
	if left.Load() == 0 {
		ended()
	}
	return func() {
		if left.Add(-1) == 0 {
			ended()
		}
	}
}

// toPrefetch returns the chunks of r that readers get neither from memory nor from disk.
func (c *Cache) toPrefetch(x codec.Hash, r codec.ChunkRange) (chunks codec.ChunkSet) {
	readable := c.readableOnDisk(x, r)
	for i := r.Start; i < r.End; i++ {
		one := codec.ChunkRange{Start: i, End: i + 1}
		if readable.Count(one) == 0 && !c.inMemory(chunkKey{x, i}) {
			chunks.Add(one)
		}
	}
	return chunks
}

// inMemory reports whether a chunk is in memory or is being unpacked.
func (c *Cache) inMemory(key chunkKey) bool {
	if c.unpacking.has(key) {
		return true
	}
	return c.memory.has(key)
}

// attach makes this stream a user of a new fetch. A fetch with other users stays alive without
// it. attach returns the bytes of the budget that the fetch takes.
func (a *Readahead) attach(p part, how prefetch) int64 {
	t, b := &a.c.fetches, &a.c.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	ended, failed := p.ended()
	if !p.leader || p.reservation != nil || a.closed || p.allRead() || failed {
		if t.leaveLocked(p.fetch) {
			p.end()
		}
		return 0
	}
	h := &reservation{a: a, fetch: p.fetch, seq: how.seq, bytes: int64(p.chunks.Len()) * how.each}
	if h.seq == 0 {
		a.count++
		h.seq = a.count
	}
	if ended { // the size is known already
		h.bytes = p.size()
	}
	p.reservation = h
	a.reservations = append(a.reservations, h)
	b.touchLocked(a)
	return h.bytes
}

// drop releases a fetch that was not read.
func (r *reservation) drop() {
	t := &r.a.c.fetches
	t.mu.Lock()
	if r.fetch.reservation != r {
		t.mu.Unlock()
		r.advance(true) // another goroutine releases it
		return
	}
	r.fetch.reservation = nil
	last := t.leaveLocked(r.fetch)
	t.mu.Unlock()
	if last {
		r.fetch.end()
	}
	r.advance(true)
}

// advance is called when the stream has read chunks of r. If passed, r ends and returns its
// part of the budget. Reservations far behind r end, too.
func (r *reservation) advance(passed bool) {
	b := &r.a.c.budget
	b.mu.Lock()
	behind := r.a.behindLocked(r.seq)
	if i := slices.Index(r.a.reservations, r); passed && i >= 0 {
		r.a.reservations = slices.Delete(r.a.reservations, i, i+1)
		b.used -= r.bytes
		if len(r.a.reservations) == 0 {
			b.touchLocked(r.a)
		}
	}
	b.mu.Unlock()
	for _, other := range behind {
		other.drop()
	}
}

// behindLocked returns the reservations that are more than maxReorder behind seq. Fetches that a
// reader awaits stay until they have ended: a request may take longer than the ones behind it.
func (a *Readahead) behindLocked(seq int64) (behind []*reservation) {
	for _, other := range a.reservations {
		if ended, _ := other.fetch.ended(); other.seq < seq-maxReorder && (ended || !other.fetch.isAwaited.Load()) {
			behind = append(behind, other)
		}
	}
	return behind
}

// resize corrects the part of the budget, once the size is known.
func (r *reservation) resize(bytes int64) {
	b := &r.a.c.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if slices.Contains(r.a.reservations, r) {
		b.used += bytes - r.bytes
		r.bytes = bytes
	}
}

// Close drops all chunks that were fetched and not read.
func (a *Readahead) Close() {
	b := &a.c.budget
	b.mu.Lock()
	a.closed = true
	holds := slices.Clone(a.reservations)
	b.mu.Unlock()
	for _, h := range holds {
		h.drop()
	}
}
