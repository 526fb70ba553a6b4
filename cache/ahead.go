package cache

import (
	"context"
	"slices"
	"sync"

	"github.com/xetfs/xetfs/codec"
)

// budget is the memory that fetching ahead may take, shared by all streams of the
// mount. A stream that rests gives its part back: when another needs the room, what was
// fetched for the one that asked longest ago is dropped.
type budget struct {
	max int64

	mu     sync.Mutex
	used   int64    // guarded by mu
	aheads []*Ahead // those that hold something, longest at rest first; guarded by mu
}

func (b *budget) inUse() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// An Ahead fetches for one stream of reads what it will read next. It is safe for
// concurrent use.
type Ahead struct {
	c      *Cache
	closed bool    // guarded by c.budget.mu
	holds  []*hold // guarded by c.budget.mu
}

// A hold keeps a fetch alive until the stream has read it.
type hold struct {
	a     *Ahead
	fetch *fetch
	bytes int64 // taken from the budget
}

// packedGuess is what a chunk takes of the budget: its packed size is not known before
// it is there. Chunks are 64 KiB on average.
const packedGuess = 64 << 10

// NewAhead returns an Ahead for one stream.
func (c *Cache) NewAhead() *Ahead { return &Ahead{c: c} }

// Want asks for chunks that will soon be read and returns at once. It never makes a
// Read wait. Without effect where the origin is near. It returns false if there is no
// room for more.
func (a *Ahead) Want(x codec.Hash, r codec.ChunkRange) bool {
	if a.c.near || r.Len() <= 0 {
		return true
	}
	if !a.room(int64(r.Len()) * packedGuess) {
		return false
	}
	for _, p := range a.c.fetches.join(nil, x, r) {
		if p.own {
			a.c.run(context.Background(), p.fetch)
		}
		a.hold(p)
	}
	return true
}

// hold makes this stream a user of the fetch. One stream's hold is enough.
func (a *Ahead) hold(p part) {
	h := &hold{a: a, fetch: p.fetch, bytes: int64(p.chunks.Len()) * packedGuess}
	f, b := &a.c.fetches, &a.c.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	if p.fetch.ahead != nil || !p.own || a.closed {
		// Somebody uses it already, and it will be there as long as they do.
		if !f.leaveLocked(p.fetch) {
			return
		}
		defer p.fetch.end()
		return
	}
	p.fetch.ahead = h
	a.holds = append(a.holds, h)
	b.used += h.bytes
	b.activeLocked(a)
}

// activeLocked makes a the stream that asked last.
func (b *budget) activeLocked(a *Ahead) {
	if i := slices.Index(b.aheads, a); i >= 0 {
		b.aheads = slices.Delete(b.aheads, i, i+1)
	}
	if len(a.holds) > 0 {
		b.aheads = append(b.aheads, a)
	}
}

// room makes n bytes of the budget free, at the cost of other streams if need be, and
// says whether it could: a stream may take its fair share, not all.
func (a *Ahead) room(n int64) bool {
	b := &a.c.budget
	for {
		b.mu.Lock()
		var own int64
		for _, h := range a.holds {
			own += h.bytes
		}
		fits := b.used+n <= b.max
		fair := own+n <= b.max/int64(max(1, len(b.aheads)))
		var victim *hold
		if !fits && fair && len(b.aheads) > 0 && b.aheads[0] != a {
			victim = b.aheads[0].holds[0]
		}
		b.mu.Unlock()
		switch {
		case fits:
			return true
		case victim == nil:
			return false
		}
		victim.drop()
	}
}

// drop lets go of a fetch that nobody read.
func (h *hold) drop() {
	f := &h.a.c.fetches
	f.mu.Lock()
	if h.fetch.ahead != h {
		f.mu.Unlock()
		return
	}
	h.fetch.ahead = nil
	last := f.leaveLocked(h.fetch)
	f.mu.Unlock()
	if last {
		h.fetch.end()
	}
	h.passed()
}

// passed gives the hold's part of the budget back.
func (h *hold) passed() {
	b := &h.a.c.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(h.a.holds, h)
	if i < 0 {
		return
	}
	h.a.holds = slices.Delete(h.a.holds, i, i+1)
	b.used -= h.bytes
	if len(h.a.holds) == 0 {
		b.activeLocked(h.a)
	}
}

// Close drops what was fetched and not read.
func (a *Ahead) Close() {
	b := &a.c.budget
	b.mu.Lock()
	a.closed = true
	holds := slices.Clone(a.holds)
	b.mu.Unlock()
	for _, h := range holds {
		h.drop()
	}
}

// wasAhead says whether the fetch was made ahead of its reader.
func (there *fetch) wasAhead(c *Cache) bool {
	c.fetches.mu.Lock()
	defer c.fetches.mu.Unlock()
	return there.ahead != nil
}
