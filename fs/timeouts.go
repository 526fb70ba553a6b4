package fs

import (
	"sync"
	"time"
)

// A timeoutHistory records the files with timed-out reads. After a failed readahead the kernel
// repeats the read of the page that a program waits for. It also delays readahead while other
// readers wait. Without the history a program would wait for the limit several times.
type timeoutHistory struct {
	mu    sync.Mutex
	files map[uint64]fileTimeouts // by inode; guarded by mu
}

type fileTimeouts struct {
	full time.Time // last read that failed after the full limit
	last time.Time // last read that failed
}

const (
	// timeoutRecent is the time after a failure in which reads have the short limit.
	timeoutRecent = time.Second

	// shortLimitShare divides the limit for such reads. shortLimitRow divides the time in which
	// they may follow each other: a slow store must have full reads in between.
	shortLimitShare = 60
	shortLimitRow   = 4
)

// limit returns the time limit of a read of a file.
func (th *timeoutHistory) limit(ino uint64, limit time.Duration) time.Duration {
	th.mu.Lock()
	defer th.mu.Unlock()
	if f, ok := th.files[ino]; ok && time.Since(f.last) < timeoutRecent && time.Since(f.full) < limit/shortLimitRow {
		return limit / shortLimitShare
	}
	return limit
}

// failed records a read that timed out, and drops old records.
func (th *timeoutHistory) failed(ino uint64, took, limit time.Duration) {
	if took < limit/shortLimitShare {
		return
	}
	now := time.Now()
	th.mu.Lock()
	defer th.mu.Unlock()
	for other, f := range th.files {
		if now.Sub(f.last) >= timeoutRecent {
			delete(th.files, other)
		}
	}
	f, ok := th.files[ino]
	if f.last = now; took > limit/2 {
		f.full = now
	} else if !ok {
		return // there was time left
	}
	if th.files == nil {
		th.files = map[uint64]fileTimeouts{}
	}
	th.files[ino] = f
}
