package cache

import (
	"errors"
	"sync"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
)

// replicas counts the rejected replicas of each xorb with several replicas. An error names the
// replica it concerns. If many readers fail at once, the first one rejects the replica, and the
// others do not reject the next one.
type replicas struct {
	mu     sync.Mutex
	byXorb map[codec.Hash]replicaState // of xorbs with an error; guarded by mu
}

// A replicaState is the replica of a xorb that is in use.
type replicaState struct {
	index         int // rejected so far
	otherReplicas int // besides this one
}

func (c *replicas) init() { c.byXorb = map[codec.Hash]replicaState{} }

// current returns the replica of xorb x that a request would read now.
func (c *replicas) current(x codec.Hash) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byXorb[x].index
}

// A replicaError names the replica of a xorb that was corrupt.
type replicaError struct {
	index int
	err   error
}

func (e *replicaError) Error() string { return e.err.Error() }
func (e *replicaError) Unwrap() error { return e.err }

// ShouldRetry reports whether to retry after the n-th try failed with err. It rejects the
// current replica of xorb x if err concerns it. Then it returns true if the origin has others.
// Data from a remote origin may be damaged on the way, so it returns true once more.
//
// Corrupt chunks of the disk cache are not attributed to the origin. The retry must use
// origin.NoCache: a copy of a moved chunk is attributed to the origin.
func (c *Cache) ShouldRetry(x codec.Hash, err error, n int) bool {
	if errors.Is(err, errDiskCorrupt) {
		return n <= maxDiskTries
	}
	first := 1
	if c.packed != nil {
		first = 2 // the previous try may have found corruption on disk
	}
	return c.shouldRetry(x, err, n, first)
}

// shouldRetry is ShouldRetry for errors of the origin. For a remote origin it always allows the
// first tries.
func (c *Cache) shouldRetry(x codec.Hash, err error, n, first int) bool {
	if !c.isReplicaFault(err) {
		return false
	}
	if errors.Is(err, codec.ErrCorrupt) {
		c.stats.corrupt.Add(1)
	}
	once := !c.local && n <= first
	var of *replicaError
	c.replicas.mu.Lock()
	defer c.replicas.mu.Unlock()
	now := c.replicas.byXorb[x]
	if !errors.As(err, &of) || of.index == now.index {
		// The lock is held across this call, which does not block: two readers with one failed
		// replica must not reject two.
		now.otherReplicas = c.src.Reject(x)
		now.index++
		if now.otherReplicas > 0 {
			c.replicas.byXorb[x] = now
		}
	}
	// A reader may also share failures of readers with older replicas.
	return once || now.otherReplicas > 0 && n <= 2*now.otherReplicas+4
}

// isReplicaFault reports whether err may concern the replica alone. On a local origin a missing
// or unreadable file counts as corrupt. A remote origin that does not answer is no evidence
// about its replicas.
func (c *Cache) isReplicaFault(err error) bool {
	return errors.Is(err, codec.ErrCorrupt) ||
		c.local && (errors.Is(err, origin.ErrNotFound) || errors.Is(err, origin.ErrUnavailable))
}
