package fs

import (
	"sync"
	"time"
)

// A timeoutHistory records the files with timed-out reads, or the folders with timed-out
// lookups. After a failed readahead the kernel repeats the read of the page that a program waits
// for. It also delays readahead while other readers wait, and sends lookups of one name one
// after the other. Without the history a program would wait for the limit several times.
type timeoutHistory struct {
	mu     sync.Mutex
	inodes map[uint64]inodeTimeouts // guarded by mu
}

type inodeTimeouts struct {
	full time.Time // last request that failed after the full limit
	last time.Time // last request that failed
}

const (
	// timeoutRecent is the time after a failure in which requests have the short limit.
	timeoutRecent = time.Second

	// shortLimitShare divides the limit of such requests. shortLimitRow divides the time in which
	// they may follow each other: a slow store must have full requests in between.
	shortLimitShare = 60
	shortLimitRow   = 4
)

// limit returns the time limit of a request for an inode.
func (th *timeoutHistory) limit(ino uint64, limit time.Duration) time.Duration {
	th.mu.Lock()
	defer th.mu.Unlock()
	if f, ok := th.inodes[ino]; ok && time.Since(f.last) < timeoutRecent && time.Since(f.full) < limit/shortLimitRow {
		return limit / shortLimitShare
	}
	return limit
}

// failed records a request that may have timed out, and drops old records.
func (th *timeoutHistory) failed(ino uint64, took, limit time.Duration) {
	if took < limit/shortLimitShare {
		return
	}
	now := time.Now()
	th.mu.Lock()
	defer th.mu.Unlock()
	for other, f := range th.inodes {
		if now.Sub(f.last) >= timeoutRecent {
			delete(th.inodes, other)
		}
	}
	f, ok := th.inodes[ino]
	if f.last = now; took > limit/2 {
		f.full = now
	} else if !ok {
		return // there was time left
	}
	if th.inodes == nil {
		th.inodes = map[uint64]inodeTimeouts{}
	}
	th.inodes[ino] = f
}
