package fs

import (
	"sync"
	"time"
)

// late remembers the files of which a read has failed because its time was up. The kernel
// reads pages ahead, and when that fails it asks once more for the page that a program waits
// for; and it holds back what is read ahead for many programs until others have their
// answer. Without this a program would wait for the limit twice, or many times.
type late struct {
	mu    sync.Mutex
	files map[uint64]lateFile // by inode; guarded by mu
}

type lateFile struct {
	full time.Time // when a read failed that had all the time there is
	last time.Time // when any did
}

const (
	// lateFor is how soon after a failure a read is one that has waited already.
	lateFor = time.Second

	// lateShare is the part of the limit that such a read has, and lateRow the part of it
	// for which they may follow each other: a store that is only slow must not be too late
	// for ever.
	lateShare = 60
	lateRow   = 4
)

// limit returns how long a read may take that has come now.
func (l *late) limit(ino uint64, limit time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f, ok := l.files[ino]; ok && time.Since(f.last) < lateFor && time.Since(f.full) < limit/lateRow {
		return limit / lateShare
	}
	return limit
}

// failed notes a read that has failed after so long, if that was for want of time, and
// forgets what was long ago.
func (l *late) failed(ino uint64, took, limit time.Duration) {
	if took < limit/lateShare {
		return
	}
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for other, f := range l.files {
		if now.Sub(f.last) >= lateFor {
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
		l.files = map[uint64]lateFile{}
	}
	l.files[ino] = f
}
