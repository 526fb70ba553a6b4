// Package claims computes the SHA-256 of open files from their reads, where a path claims one that nothing
// has proven. The caller reports a false one.
//
// In order of use: Set.Acquire for each handle; Claim.Begin, Claim.Add and Claim.End for each read; and
// Set.Release.
package claims

import (
	"context"
	"crypto/sha256"
	"hash"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// maxOrdered is how far ahead a read waits for its turn. The kernel's readahead has up to 16 MiB of reads
// under way, which end in any order. Each follows another one, and holding it costs a copy.
const maxOrdered = 16 << 20

// maxHeld bounds the bytes that all claims hold of early reads.
const maxHeld = 8 << 20

// turnLimit is how long an early read waits for its turn before it is held. One that is not the next waits
// as long for room. The kernel has sent the reads before it, but their goroutines may not run yet.
const turnLimit = 200 * time.Millisecond

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
	SHA256 [32]byte // of the whole file, by its path
}

// A Claim is an unproven SHA-256 of an open file. It hashes the reads that follow each other from the
// beginning to the end of the file. It is safe for concurrent use.
type Claim struct {
	Key
	size    int64 // of the file
	held    *atomic.Int64
	handles int // guarded by Set.mu

	mu      sync.Mutex
	changed *sync.Cond       // a read has ended, or next has moved; of mu
	reading []span           // the reads under way; guarded by mu
	sum     hash.Hash        // of the bytes before next; guarded by mu
	next    int64            // guarded by mu
	early   map[int64][]byte // reads after next, by offset; guarded by mu
	lost    bool             // an early read was dropped; guarded by mu
	isFalse bool             // the whole file has another SHA-256; guarded by mu
}

// A span is the bytes [off, end) of a file.
type span struct{ off, end int64 }

func (s *Set) newClaim(k Key, size int64) *Claim {
	c := &Claim{Key: k, size: size, held: &s.held, early: map[int64][]byte{}}
	c.changed = sync.NewCond(&c.mu)
	return c
}

// Acquire returns the claim of a file of size bytes for one handle. If the claim is new, the kernel has to
// drop its pages of the file, which no Add has seen.
func (s *Set) Acquire(k Key, size int64) (c *Claim, isNew bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c = s.open[k]
	if c == nil || !c.canComplete() {
		c, isNew = s.newClaim(k, size), true
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

// Begin records that a read of up to n bytes at off is under way, until End. Both accept nil.
func (c *Claim) Begin(off, n int64) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reading = append(c.reading, span{off, off + n})
}

// End ends a read, with or without Add.
func (c *Claim) End(off, n int64) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.reading, span{off, off + n})
	c.reading = slices.Delete(c.reading, i, i+1)
	c.changed.Broadcast()
}

// Add adds a read of the bytes p at off. It returns the SHA-256 once, when the reads cover the whole file.
// If the claim is false, it also returns it to the reads that were under way then, and to later ones. Their
// bytes must not be used either. An early read waits for the reads before it that are under way, or is
// held. If it can do neither, Add drops the claim. The only error is that of ctx.
func (c *Claim) Add(ctx context.Context, p []byte, off int64) (sum [32]byte, complete bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.awaitTurnLocked(ctx, p, off); err != nil || off > c.next || c.next == c.size && !c.isFalse {
		return sum, false, err
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
	c.changed.Broadcast()
	if c.next < c.size {
		return sum, false, nil
	}
	sum = [32]byte(c.sum.Sum(nil))
	c.isFalse = sum != c.SHA256
	return sum, true, nil
}

// awaitTurnLocked waits for the reads before an early one, holds it, or drops the claim. It returns at once for
// other reads. The error is that of ctx.
func (c *Claim) awaitTurnLocked(ctx context.Context, p []byte, off int64) error {
	var end time.Time // of the wait
	for off > c.next && !c.lost {
		isNext, isLate := c.isNextLocked(off), !end.IsZero() && !time.Now().Before(end)
		switch {
		case isNext && !isLate: // a copy costs more
		case c.holdLocked(p, off):
			return nil
		case isNext:
		case isLate:
			c.lost = true
			c.dropAllLocked() // it would keep the room from claims that can complete
			c.changed.Broadcast()
			return nil
		}
		if end.IsZero() {
			end = time.Now().Add(turnLimit)
			defer time.AfterFunc(turnLimit, c.wake).Stop()
			defer context.AfterFunc(ctx, c.wake)()
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		c.changed.Wait()
	}
	return nil
}

// wake makes waiting reads look again.
func (c *Claim) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changed.Broadcast()
}

// isNextLocked reports whether the reads under way and the held ones have all bytes from next to off. A read
// in random order must not wait for others.
func (c *Claim) isNextLocked(off int64) bool {
	if off-c.next > maxOrdered {
		return false
	}
	for at := c.next; at < off; {
		i := slices.IndexFunc(c.reading, func(r span) bool { return r.off <= at && at < r.end && r.off < off })
		switch {
		case i >= 0:
			at = c.reading[i].end
		case len(c.early[at]) > 0:
			at += int64(len(c.early[at]))
		default:
			return false
		}
	}
	return true
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

// holdLocked copies an early read. It reports false without room.
func (c *Claim) holdLocked(p []byte, off int64) bool {
	if len(c.early[off]) >= len(p) {
		return true
	}
	if n := int64(len(p)); c.held.Add(n) > maxHeld {
		c.held.Add(-n)
		return false
	}
	c.dropLocked(off)
	c.early[off] = slices.Clone(p)
	return true
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
