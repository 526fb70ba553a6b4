package cache

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

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

// A block is part of an arena. What is behind mem is guarded by arena.mu, but for the bytes.
type block struct {
	mem   []byte
	used  []uint64 // a bit for each unit
	ready int      // units from the first on whose pages are there
	most  int      // no free place has more units
	at    int      // where to look first
}

// step is how much is made ready at a time, and most the largest chunk, in units.
const (
	step = 4 << 20 / unit
	most = codec.MaxChunkSize / unit
)

// A block is as large as all before it together, between these, in units.
const minBlock, maxBlock = 4 << 20 / unit, 32 << 20 / unit

func (a *arena) init(maxBytes int64) { a.max = int(maxBytes / unit) }

// shrink takes n bytes away from what there may be, so far as there are not.
func (a *arena) shrink(n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.max = max(a.units, a.max-int(n/unit))
}

// A chunk is an unpacked chunk in memory, or an index page. Whoever has it calls release
// once; those who are handed it by somebody else retain it before.
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
	if c == nil || c.users.Add(-1) > 0 {
		return
	}
	if poison {
		spoil(c.data)
	}
	switch {
	case c.block != nil:
		c.arena.free(c.block, c.place, unitsOf(len(c.data)))
	case c.page == nil:
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
		return left / most * most
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

// hugePage is the size of a huge page, in bytes.
const hugePage = 2 << 20

func newBlock(size int) *block {
	b := &block{mem: make([]byte, size), used: make([]uint64, (size/unit+63)/64)}
	addr := uintptr(unsafe.Pointer(unsafe.SliceData(b.mem)))
	if skip := int(-addr & (hugePage - 1)); size >= skip+hugePage {
		// Without huge pages it is only slower.
		_ = unix.Madvise(b.mem[skip:skip+(size-skip)&^(hugePage-1)], unix.MADV_HUGEPAGE)
	}
	return b
}

func (b *block) unready() int { return len(b.mem)/unit - b.ready }

// touch has the kernel bring the pages of n more units. Nobody else writes there.
func (b *block) touch(n int) {
	for i := b.ready; i < b.ready+n; i++ {
		b.mem[i*unit] = 0
	}
}

// take marks n units that follow each other and returns the first of them, or -1.
func (b *block) take(n int) int {
	if n > b.most {
		return -1
	}
	place := b.find(n, b.at, b.ready)
	if place < 0 {
		place = b.find(n, 0, min(b.at+n, b.ready))
	}
	if place < 0 {
		b.most = n - 1
		return -1
	}
	b.mark(place, n, true)
	b.at = place + n
	return place
}

// find returns the first of n free units between from and end, or -1.
func (b *block) find(n, from, end int) int {
	for from+n <= end {
		from = b.next(from, end, false)
		to := b.next(from, min(end, from+n), true)
		if to-from == n {
			return from
		}
		from = to
	}
	return -1
}

// next returns the first unit between from and end that is used, or is not; end if there is
// none.
func (b *block) next(from, end int, used bool) int {
	for from < end {
		word := b.used[from/64]
		if !used {
			word = ^word
		}
		if word >>= from % 64; word != 0 {
			return min(end, from+bits.TrailingZeros64(word))
		}
		from = (from/64 + 1) * 64
	}
	return end
}

// mark notes that n units are used, or are not.
func (b *block) mark(place, n int, used bool) {
	for i := place; i < place+n; {
		first := i % 64
		some := min(64-first, place+n-i)
		mask := (uint64(1)<<some - 1) << first
		if used {
			b.used[i/64] |= mask
		} else {
			b.used[i/64] &^= mask
		}
		i += some
	}
}
