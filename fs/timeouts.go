package fs

import (
	"sync"
	"time"
)

// timeouts remembers the files of which a read has failed because its time was up. The kernel
// reads pages ahead, and when that fails it asks once more for the page that a program waits
// for; and it holds back what is read ahead for many programs until others have their
// answer. Without this a program would wait for the limit twice, or many times.
type timeoutHistory struct {
	mu    sync.Mutex
	files map[uint64]fileTimeouts // by inode; guarded by mu
}

type fileTimeouts struct {
	full time.Time // when a read failed that had all the time there is
	last time.Time // when any did
}

const (
	// timeoutRecent is how soon after a failure a read is one that has waited already.
	timeoutRecent = time.Second

	// shortLimitShare is the part of the limit that such a read has, and shortLimitRow the part of it
	// for which they may follow each other: a store that is only slow must not be too late
	// for ever.
	shortLimitShare = 60
	shortLimitRow   = 4
)

// limit returns how long a read may take that has come now.
func (l *timeoutHistory) limit(ino uint64, limit time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f, ok := l.files[ino]; ok && time.Since(f.last) < timeoutRecent && time.Since(f.full) < limit/shortLimitRow {
		return limit / shortLimitShare
	}
	return limit
}

// failed notes a read that has failed after so long, if that was for want of time, and
// forgets what was long ago.
func (l *timeoutHistory) failed(ino uint64, took, limit time.Duration) {
	if took < limit/shortLimitShare {
		return
	}
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for other, f := range l.files {
		if now.Sub(f.last) >= timeoutRecent {
			delete(l.files, other)
		}
	}
	f, ok := l.files[ino]
	if f.last = now; took > limit/2 {
		f.full = now
	} else if !ok {
		return // there was time left
	}
	if l.files == nil {
		l.files = map[uint64]fileTimeouts{}
	}
	l.files[ino] = f
}
