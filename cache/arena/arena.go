// Package arena has memory for what comes and goes all the time: the unpacked chunks that a
// cache keeps. Fresh memory of the heap is dear. The kernel hands it out page by page, which
// for a chunk takes half as long as to unpack and to check it, and the collector runs the more
// often the more is read.
package arena

import (
	"sync"

	"github.com/xetfs/xetfs/codec"
)

// An Arena takes large blocks from the heap and keeps them. Some memory is made ready in the
// background before what is ready is used up. It is safe for concurrent use.
//
// Huge pages, where the kernel has them on demand, were tried: they made no reader faster, and
// some wait while two megabytes were cleared.
type Arena struct {
	making sync.WaitGroup

	mu     sync.Mutex
	max    int      // units of all blocks; guarded by mu
	blocks []*block // guarded by mu
	at     int      // the block that had room the last time; guarded by mu
	units  int      // of all blocks, also those that are not ready; guarded by mu
	unused int      // units that are ready; guarded by mu
	busy   bool     // some are being made ready; guarded by mu
	inHeap int      // bytes that found no place; guarded by mu
}

// unit is what is given out, in bytes: what lies in an Arena lies in units that follow each
// other.
const unit = 4 << 10

const (
	largest = codec.MaxChunkSize / unit // chunk, in units
	step    = 4 << 20 / unit            // how many units are made ready at a time

	// A block is as large as all before it together, between these, in units.
	minBlock, maxBlock = 4 << 20 / unit, 32 << 20 / unit
)

// New returns an Arena of so many bytes. None of them is taken before it is needed.
func New(maxBytes int64) *Arena { return &Arena{max: int(maxBytes / unit)} }

// Shrink takes n bytes away from what there may be, so far as they were not taken.
func (a *Arena) Shrink(n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.max = max(a.units, a.max-int(n/unit))
}

// Bytes lie in an Arena, or in the heap if that has no room.
type Bytes struct {
	Data  []byte
	block *block // nil: they are in the heap
	place int    // in block, in units
}

// Bytes returns n bytes, which hold anything. They must be freed once.
func (a *Arena) Bytes(n int) (b Bytes) {
	if b.block, b.place = a.alloc(n); b.block != nil {
		b.Data = b.block.mem[b.place*unit:][:n:n]
	} else {
		b.Data = make([]byte, n)
	}
	return b
}

// Free gives bytes back, which nobody may use any more.
func (a *Arena) Free(b Bytes) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if b.block == nil {
		a.inHeap -= len(b.Data)
		return
	}
	n := unitsOf(len(b.Data))
	b.block.mark(b.place, n, false)
	b.block.most = b.block.ready
	a.unused += n
}

// Stays reports whether bytes may be kept for long. Few of those in the heap may: there are
// some because what is free lies in places that are too small.
func (a *Arena) Stays(b Bytes) bool {
	if b.block != nil {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.inHeap <= a.max*unit/16 || a.growsLocked()
}

// Close waits until nothing goes on in the background.
func (a *Arena) Close() { a.making.Wait() }

// InUse returns how many bytes were not freed, those in the heap included. In the Arena they
// count in units of 4 KiB.
func (a *Arena) InUse() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.inHeap - a.unused*unit
	for _, b := range a.blocks {
		n += b.ready * unit
	}
	return n
}

func unitsOf(n int) int { return max(1, (n+unit-1)/unit) }

// alloc returns a place for n bytes; no block if there is none.
func (a *Arena) alloc(n int) (*block, int) {
	want := unitsOf(n)
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
		if place := a.blocks[at].take(want); place >= 0 {
			a.at = at
			a.unused -= want
			return a.blocks[at], place
		}
	}
	a.growLocked()
	a.inHeap += n
	return nil, 0
}

// growsLocked reports whether not everything is ready that there may be.
func (a *Arena) growsLocked() bool {
	return a.busy || a.nextLocked() > 0 || len(a.blocks) > 0 && a.blocks[len(a.blocks)-1].unready() > 0
}

// nextLocked returns how many units the next block has; 0: there may be no more.
func (a *Arena) nextLocked() int {
	n := min(maxBlock, max(minBlock, a.units))
	if left := a.max - a.units; left < n {
		return left / largest * largest
	}
	return n
}

// growLocked has more made ready, if there may be more.
func (a *Arena) growLocked() {
	if a.busy || !a.growsLocked() {
		return
	}
	a.busy = true
	a.making.Go(a.grow)
}

// grow makes a step of the last block ready, or of a new one.
func (a *Arena) grow() {
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
