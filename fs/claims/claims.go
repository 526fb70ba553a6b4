// Package claims computes the SHA-256 of open files from their reads, where a path or an entry claims one
// that nothing has proven. The caller compares.
//
// In order of use: Set.Acquire for each handle, Claim.Add for each read, and Set.Release.
package claims

import (
	"crypto/sha256"
	"hash"
	"slices"
	"sync"
	"sync/atomic"
)

// maxHeld bounds the bytes that all claims hold of early reads. The kernel's readahead sends the
// reads of one program in almost any order.
const maxHeld = 8 << 20

// A Set has the claims of the open files of a mount. The handles of a file share one, because the
// kernel sends no READ for a page that another handle has read. The zero Set is ready for use.
type Set struct {
	held atomic.Int64 // bytes of early reads

	mu   sync.Mutex
	open map[Key]*Claim // guarded by mu
}

// A Key names the claim of an inode.
type Key struct {
	Ino    uint64
	File   any      // identity of the content, comparable: handles that differ in it share nothing
	SHA256 [32]byte // of the whole file, by its path or its entry
}

// A Claim is an unproven SHA-256 of an open file. It hashes the reads that follow each other from the
// beginning to the end of the file. It is safe for concurrent use.
type Claim struct {
	Key
	size    int64 // of the file
	held    *atomic.Int64
	handles int // guarded by Set.mu

	mu    sync.Mutex
	sum   hash.Hash        // of the bytes before next; guarded by mu
	next  int64            // guarded by mu
	early map[int64][]byte // reads after next, by offset; guarded by mu
	lost  bool             // an early read was dropped; guarded by mu
}

// Acquire returns the claim of a file of size bytes for one handle. If the claim is new, the kernel has to
// drop its pages of the file, which no Add has seen.
func (s *Set) Acquire(k Key, size int64) (c *Claim, isNew bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c = s.open[k]
	if c == nil || !c.canComplete() {
		c, isNew = &Claim{Key: k, size: size, held: &s.held}, true
		if s.open == nil {
			s.open = map[Key]*Claim{}
		}
		s.open[k] = c
	}
	c.handles++
	return c, isNew
}

// Release ends the use of a claim by one handle. It accepts nil.
func (s *Set) Release(c *Claim) {
	if c == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.handles--; c.handles > 0 {
		return
	}
	if s.open[c.Key] == c {
		delete(s.open, c.Key)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropAllLocked()
}

// Held returns the bytes that all claims hold of early reads.
func (s *Set) Held() int64 { return s.held.Load() }

// canComplete reports whether the claim has seen all reads so far, and lacks later ones.
func (c *Claim) canComplete() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.lost && c.next < c.size
}

// Add adds a read of the bytes p at off. It returns the SHA-256 once, when the reads cover the whole file.
// Without room, Add drops an early read, which must be repeated.
func (c *Claim) Add(p []byte, off int64) (sum [32]byte, complete bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == c.size {
		return sum, false
	}
	if off > c.next {
		c.holdLocked(p, off)
		return sum, false
	}
	c.hashLocked(p, off)
	for more := true; more; {
		more = false
		for off, p := range c.early {
			if off <= c.next {
				more = c.hashLocked(p, off) || more
				c.dropLocked(off)
			}
		}
	}
	if c.next < c.size {
		return sum, false
	}
	return [32]byte(c.sum.Sum(nil)), true
}

// hashLocked hashes the part of a read after next. It reports whether such a part exists.
func (c *Claim) hashLocked(p []byte, off int64) bool {
	if off+int64(len(p)) <= c.next {
		return false
	}
	if c.sum == nil {
		c.sum = sha256.New()
	}
	c.sum.Write(p[c.next-off:])
	c.next = off + int64(len(p))
	return true
}

func (c *Claim) holdLocked(p []byte, off int64) {
	if c.lost || len(c.early[off]) >= len(p) {
		return
	}
	if n := int64(len(p)); c.held.Add(n) > maxHeld {
		c.held.Add(-n)
		c.lost = true
		c.dropAllLocked() // it would keep the room from claims that can complete
		return
	}
	c.dropLocked(off)
	if c.early == nil {
		c.early = map[int64][]byte{}
	}
	c.early[off] = slices.Clone(p)
}

func (c *Claim) dropLocked(off int64) {
	c.held.Add(-int64(len(c.early[off])))
	delete(c.early, off)
}

// dropAllLocked drops the reads that the claim holds.
func (c *Claim) dropAllLocked() {
	for off := range c.early {
		c.dropLocked(off)
	}
}
