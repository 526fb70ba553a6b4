package fs

import (
	"context"
	"crypto/sha256"
	"hash"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/xetfs/xetfs/codec/page"
)

// maxClaimBytes bounds the bytes that all claims hold of early reads. The kernel's readahead
// sends the reads of one program in almost any order.
const maxClaimBytes = 8 << 20

// A claim is an unproven SHA-256 of an open file: in its path, or in its entry if the source proves
// nothing. The claim hashes the reads that
// follow each other from the beginning to the end of the file.
type claim struct {
	want [32]byte

	mu    sync.Mutex
	sum   hash.Hash        // of the bytes before next; guarded by mu
	next  int64            // guarded by mu
	ahead map[int64][]byte // reads after next, by offset; guarded by mu
}

// claim returns the claim of an entry, or nil. An entry of a source without proofs is one of a
// listing, which nothing proves. A file outside Xet is named by the hash of its content.
func (f *filesystem) claim(v *volume, e *page.Entry) *claim {
	if e.SHA256 != nil && hasTerms(e) && !e.ID.File.IsPlain() && !f.engine.proves() {
		return &claim{want: *e.SHA256}
	}
	return v.claim(e.Path)
}

// claim returns the claim of a path, or nil.
func (v *volume) claim(path string) *claim {
	if v.claimer == nil {
		return nil
	}
	want, ok := v.claimer.ClaimedSHA256(path)
	if !ok {
		return nil
	}
	return &claim{want: want}
}

// add adds a read. It returns the SHA-256 once, when the reads cover all size bytes in order.
// Without room in held, add drops the read, and the claim stays incomplete.
func (c *claim) add(p []byte, off, size int64, held *atomic.Int64) (sum [32]byte, complete bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == size {
		return sum, false
	}
	if off > c.next {
		c.holdLocked(p, off, held)
		return sum, false
	}
	c.hashLocked(p, off)
	for more := true; more; {
		more = false
		for off, p := range c.ahead {
			if off <= c.next {
				more = c.hashLocked(p, off) || more
				c.dropLocked(off, held)
			}
		}
	}
	if c.next < size {
		return sum, false
	}
	return [32]byte(c.sum.Sum(nil)), true
}

// hashLocked hashes the part of a read after next. It reports whether such a part exists.
func (c *claim) hashLocked(p []byte, off int64) bool {
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

func (c *claim) holdLocked(p []byte, off int64, held *atomic.Int64) {
	n := int64(len(p))
	if len(c.ahead[off]) >= len(p) || held.Add(n) > maxClaimBytes {
		if len(c.ahead[off]) < len(p) {
			held.Add(-n)
		}
		return
	}
	c.dropLocked(off, held)
	if c.ahead == nil {
		c.ahead = map[int64][]byte{}
	}
	c.ahead[off] = slices.Clone(p)
}

func (c *claim) dropLocked(off int64, held *atomic.Int64) {
	held.Add(-int64(len(c.ahead[off])))
	delete(c.ahead, off)
}

// close drops the reads that the claim holds.
func (c *claim) close(held *atomic.Int64) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for off := range c.ahead {
		c.dropLocked(off, held)
	}
}

// falseClaim returns an error if the SHA-256 of an open file differs from its claim. It waits for
// the proof of a gated file, and compares another one if its SHA-256 is known.
func (f *filesystem) falseClaim(ctx context.Context, h *fileHandle) error {
	if h.claim == nil {
		return nil
	}
	if r, ok := h.reader.(unprovenReader); ok {
		return r.CheckSHA256(ctx, h.claim.want)
	}
	return f.engine.CheckSHA256(h.id, h.claim.want)
}

// checkClaim adds a read of an open file to its claim. For a false claim it returns an error and
// makes the kernel drop its pages of the file.
func (f *filesystem) checkClaim(h *fileHandle, p []byte, off int64) error {
	if h.claim == nil {
		return nil
	}
	sum, complete := h.claim.add(p, off, h.size, &f.claimBytes)
	if !complete {
		return nil
	}
	if r, ok := h.reader.(unprovenReader); ok {
		r.ProveSHA256(sum)
	} else {
		f.engine.ProveSHA256(h.id.File, sum)
	}
	err := f.engine.CheckSHA256(h.id, h.claim.want)
	if err != nil {
		f.background.Go(func() { f.kernel.InodeNotify(h.ino, 0, 0) }) // waits for reads in progress
	}
	return err
}
