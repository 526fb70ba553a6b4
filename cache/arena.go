package cache

import (
	"sync"
	"sync/atomic"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/page"
)

// An arena is the memory of unpacked chunks. It takes large blocks from the heap and keeps
// them, because fresh memory is dear: the kernel hands it out page by page, which takes
// half as long for a chunk as to unpack and check it, and the collector would run the more
// often the more is read. Some is made ready in the background before what is ready is used
// up, in huge pages where the kernel has them.
type arena struct {
	making sync.WaitGroup

	mu     sync.Mutex
	max    int      // units of all blocks; guarded by mu
	blocks []*block // guarded by mu
	at     int      // the block that had room the last time; guarded by mu
	units  int      // of all blocks, also those that are not ready; guarded by mu
	unused int      // units that are ready; guarded by mu
	busy   bool     // some are being made ready; guarded by mu
	inHeap int      // bytes of chunks that found no place; guarded by mu
}

// unit is what an arena gives out, in bytes: chunks lie in some that follow each other.
const unit = 4 << 10

const (
	largest = codec.MaxChunkSize / unit // chunk, in units
	step    = 4 << 20 / unit            // how many units are made ready at a time

	// A block is as large as all before it together, between these, in units.
	minBlock, maxBlock = 4 << 20 / unit, 32 << 20 / unit
)

func (a *arena) init(maxBytes int64) { a.max = int(maxBytes / unit) }

// shrink takes n bytes away from what there may be, so far as there are not.
func (a *arena) shrink(n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.max = max(a.units, a.max-int(n/unit))
}

// A chunk is an unpacked chunk in memory, or an index page. Whoever has it calls release
// once; those who are handed it by somebody else retain it before. (Pages need neither: they
// are the collector's.)
type chunk struct {
	key   chunkKey
	page  *page.Page // whose bytes are data; nil: a chunk
	data  []byte
	arena *arena
	block *block // of the arena; nil: data is in the heap
	place int    // in block, in units
	users atomic.Int32
}

// chunk returns one of n bytes, which hold anything. It has one user. If there is no room it
// lies in the heap.
func (a *arena) chunk(key chunkKey, n int) *chunk {
	c := &chunk{key: key, arena: a}
	c.users.Store(1)
	if c.block, c.place = a.alloc(unitsOf(n)); c.block != nil {
		c.data = c.block.mem[c.place*unit:][:n:n]
	} else {
		c.data = make([]byte, n)
		a.countHeap(n)
	}
	return c
}

// copyOf returns a chunk with some bytes.
func (a *arena) copyOf(key chunkKey, data []byte) *chunk {
	c := a.chunk(key, len(data))
	copy(c.data, data)
	return c
}

// retain makes another user, unless there is none left: then the bytes are gone.
func (c *chunk) retain() bool {
	for {
		n := c.users.Load()
		if n == 0 {
			return false
		}
		if c.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// release ends one use. nil has none.
func (c *chunk) release() {
	if c == nil || c.page != nil || c.users.Add(-1) > 0 {
		return
	}
	if poison {
		spoil(c.data)
	}
	if c.block != nil {
		c.arena.free(c.block, c.place, unitsOf(len(c.data)))
	} else {
		c.arena.countHeap(-len(c.data))
	}
}

// stays says whether a chunk may be kept for long. Few of those in the heap may: there are
// some because what is free lies in places that are too small.
func (c *chunk) stays() bool {
	if c.block != nil {
		return true
	}
	a := c.arena
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.inHeap <= a.max*unit/16 || a.growsLocked()
}

func (a *arena) countHeap(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.inHeap += n
}

func unitsOf(n int) int { return max(1, (n+unit-1)/unit) }

// alloc returns a place of n units; no block if there is none.
func (a *arena) alloc(n int) (*block, int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.unused < min(step, a.units/4) {
		a.growLocked()
	}
	for i := range a.blocks {
		at := a.at + i
		if at >= len(a.blocks) {
			at -= len(a.blocks)
		}
		if place := a.blocks[at].take(n); place >= 0 {
			a.at = at
			a.unused -= n
			return a.blocks[at], place
		}
	}
	a.growLocked()
	return nil, 0
}

func (a *arena) free(b *block, place, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	b.mark(place, n, false)
	b.most = b.ready
	a.unused += n
}

// growsLocked says whether not everything is ready that there may be.
func (a *arena) growsLocked() bool {
	return a.busy || a.nextLocked() > 0 || len(a.blocks) > 0 && a.blocks[len(a.blocks)-1].unready() > 0
}

// nextLocked returns how many units the next block has; 0: there may be no more.
func (a *arena) nextLocked() int {
	n := min(maxBlock, max(minBlock, a.units))
	if left := a.max - a.units; left < n {
		return left / largest * largest
	}
	return n
}

// growLocked has more made ready, if there may be more.
func (a *arena) growLocked() {
	if a.busy || !a.growsLocked() {
		return
	}
	a.busy = true
	a.making.Go(a.grow)
}

// grow makes a step of the last block ready, or of a new one.
func (a *arena) grow() {
	a.mu.Lock()
	var b *block
	size := 0
	if n := len(a.blocks); n > 0 && a.blocks[n-1].unready() > 0 {
		b = a.blocks[n-1]
	} else {
		size = a.nextLocked()
		a.units += size
	}
	a.mu.Unlock()
	fresh := b == nil
	if fresh {
		b = newBlock(size * unit)
	}
	n := min(step, b.unready())
	b.touch(n)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.busy = false
	if fresh {
		a.blocks = append(a.blocks, b)
	}
	b.ready += n
	b.most = b.ready
	a.unused += n
}

// close waits until nothing goes on in the background.
func (a *arena) close() { a.making.Wait() }
