package cache

import (
	"errors"
	"sync"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
)

// replicas counts, for each xorb of which the origin has several copies, how many were
// given up. Whoever fails says which one it had: of many readers that fail at once the
// first gives it up, and the others do not hit the copy that comes next.
type replicas struct {
	mu     sync.Mutex
	byXorb map[codec.Hash]replicaState // of those that ever failed; guarded by mu
}

// An replicaState says which copy of a xorb is read.
type replicaState struct {
	index         int // given up so far
	otherReplicas int // copies beside this one
}

func (c *replicas) init() { c.byXorb = map[codec.Hash]replicaState{} }

// current returns which copy of xorb x a request that begins now will read.
func (c *replicas) current(x codec.Hash) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byXorb[x].index
}

// A replicaError says which copy of a xorb was damaged.
type replicaError struct {
	index int
	err   error
}

func (e *replicaError) Error() string { return e.err.Error() }
func (e *replicaError) Unwrap() error { return e.err }

// ShouldRetry says whether what failed with err is worth another try, the n-th: the origin
// has other copies of xorb x, and the one in use is damaged. It tells the origin so. What
// came damaged from afar may have been damaged on the way, and is worth one more try.
//
// What was kept on disk and turned out to be damaged is not the origin's fault.
func (c *Cache) ShouldRetry(x codec.Hash, err error, n int) bool {
	if errors.Is(err, errDiskCorrupt) {
		return n <= maxDiskTries
	}
	first := 1
	if c.packed != nil {
		first = 2 // the try before may have found damage on disk
	}
	return c.shouldRetry(x, err, n, first)
}

// shouldRetry is Again for what came from the origin. Up to the first tries another one is
// always worth while from afar.
func (c *Cache) shouldRetry(x codec.Hash, err error, n, first int) bool {
	if !c.isReplicaFault(err) {
		return false
	}
	once := !c.local && n <= first
	var of *replicaError
	c.replicas.mu.Lock()
	defer c.replicas.mu.Unlock()
	now := c.replicas.byXorb[x]
	if !errors.As(err, &of) || of.index == now.index {
		// The lock is held across this call, which waits for nothing: two who failed
		// on one copy must not reject two.
		now.otherReplicas = c.src.Reject(x)
		now.index++
		if now.otherReplicas > 0 {
			c.replicas.byXorb[x] = now
		}
	}
	// A reader may also share the failures of some who began with older copies.
	return once || now.otherReplicas > 0 && n <= 2*now.otherReplicas+4
}

// isReplicaFault says whether err may be the fault of the one copy that was read. A file that
// has gone or cannot be read is no better than a damaged one, but a far origin that
// does not answer says nothing about its copies.
func (c *Cache) isReplicaFault(err error) bool {
	return errors.Is(err, codec.ErrCorrupt) ||
		c.local && (errors.Is(err, origin.ErrNotFound) || errors.Is(err, origin.ErrUnavailable))
}
