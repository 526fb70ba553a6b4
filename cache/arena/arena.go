package arena

import (
	"sync"

	"github.com/xetfs/xetfs/codec"
)

// An Arena takes large blocks from the heap and retains them. It prepares more memory in the
// background before the prepared part is used up. It is safe for concurrent use.
//
// Huge pages on demand were tried. They made no reader faster, and some wait while two
// megabytes are cleared.
type Arena struct {
	making sync.WaitGroup

	mu     sync.Mutex
	max    int      // units of all blocks; guarded by mu
	blocks []*block // guarded by mu
	at     int      // the block of the last allocation; guarded by mu
	units  int      // of all blocks, prepared or not; guarded by mu
	unused int      // prepared units; guarded by mu
	busy   bool     // grow runs; guarded by mu
	inHeap int      // bytes outside of all blocks; guarded by mu
}

// unit is the unit of allocation in bytes. An allocation is consecutive units.
const unit = 4 << 10

const (
	largest = codec.MaxChunkSize / unit // chunk, in units
	step    = 4 << 20 / unit            // units that are prepared at a time

	// A block is as large as all earlier ones together, between these limits, in units.
	minBlock, maxBlock = 4 << 20 / unit, 32 << 20 / unit
)

// New returns an Arena of up to maxBytes. It takes no memory before the first use.
func New(maxBytes int64) *Arena { return &Arena{max: int(maxBytes / unit)} }

// Shrink reduces the limit by n bytes, as far as they are not taken.
func (a *Arena) Shrink(n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.max = max(a.units, a.max-int(n/unit))
}

// Bytes are memory of an Arena, or of the heap if the Arena has no room.
type Bytes struct {
	Data  []byte
	block *block // nil: memory of the heap
	place int    // in block, in units
}

// Bytes returns n bytes with undefined content. They must be freed once.
func (a *Arena) Bytes(n int) (b Bytes) {
	if b.block, b.place = a.alloc(n); b.block != nil {
		b.Data = b.block.mem[b.place*unit:][:n:n]
	} else {
		b.Data = make([]byte, n)
	}
	return b
}

// Free returns bytes to the Arena. No caller may use them any more.
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

// Stays reports whether bytes may be retained for long. Few bytes of the heap may. Some are in
// the heap because the free units are not consecutive.
func (a *Arena) Stays(b Bytes) bool {
	if b.block != nil {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.inHeap <= a.max*unit/16 || a.growsLocked()
}

// Close waits for the background work.
func (a *Arena) Close() { a.making.Wait() }

// InUse returns how many bytes were not freed, including those of the heap. Memory of the Arena
// counts in units of 4 KiB. Tests of this package and of its callers find leaks with it.
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

// alloc returns a place for n bytes; nil if none is free.
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

// growsLocked reports whether more memory can be prepared.
func (a *Arena) growsLocked() bool {
	return a.busy || a.nextLocked() > 0 || len(a.blocks) > 0 && a.blocks[len(a.blocks)-1].unready() > 0
}

// nextLocked returns the units of the next block, or 0 at the limit.
func (a *Arena) nextLocked() int {
	n := min(maxBlock, max(minBlock, a.units))
	if left := a.max - a.units; left < n {
		return left / largest * largest
	}
	return n
}

// growLocked prepares more memory in the background, up to the limit.
func (a *Arena) growLocked() {
	if a.busy || !a.growsLocked() {
		return
	}
	a.busy = true
	a.making.Go(a.grow)
}

// grow prepares a step of the last block, or of a new one.
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
