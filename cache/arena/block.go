package arena

import (
	"math/bits"
	"syscall"
)

// A block is part of an Arena. All of it but mem is guarded by Arena.mu.
type block struct {
	mem   []byte
	used  []uint64 // a bit for each unit
	ready int      // prepared units, from the first on
	most  int      // no free place is larger, in units
	at    int      // start of the next search
}

func newBlock(size int) *block {
	return &block{mem: make([]byte, size), used: make([]uint64, (size/unit+63)/64)}
}

func (b *block) unready() int { return len(b.mem)/unit - b.ready }

// touch makes the kernel provide the pages of n more units. No other goroutine writes there. It
// yields often: a reader that wakes up on the same core would wait for milliseconds.
func (b *block) touch(n int) {
	for i := b.ready; i < b.ready+n; i++ {
		b.mem[i*unit] = 0
		if i%32 == 0 {
			_, _, _ = syscall.RawSyscall(syscall.SYS_SCHED_YIELD, 0, 0, 0)
		}
	}
}

// take marks n consecutive units as used and returns the first of them, or -1.
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

// next returns the first unit between from and end that is used, or is free; end if none is.
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

// mark marks n units as used or free.
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
