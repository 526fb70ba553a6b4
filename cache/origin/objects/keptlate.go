package objects

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// latePuts are what a Keeper did not take, because it was busy with chunks: some bytes that
// save a request are worth another try. What comes first is forgotten first.
type latePuts struct {
	waiting atomic.Bool // there are some

	mu    sync.Mutex
	puts  []latePut // oldest first; guarded by mu
	bytes int       // of their values; guarded by mu
	tried time.Time // guarded by mu
}

type latePut struct {
	key   [32]byte
	value []byte
}

const (
	maxLateBytes = 4 << 20
	lateEvery    = time.Second // between tries
)

func (l *latePuts) add(key [32]byte, value []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.puts) == 0 {
		l.tried = time.Now()
	}
	l.puts = append(l.puts, latePut{key, value})
	l.bytes += len(value)
	for l.bytes > maxLateBytes {
		l.bytes -= len(l.puts[0].value)
		l.puts = slices.Delete(l.puts, 0, 1)
	}
	l.waiting.Store(len(l.puts) > 0)
}

// put tries again, if the last try is some time ago.
func (l *latePuts) put(keeper Keeper) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.tried) < lateEvery {
		return
	}
	l.tried = time.Now()
	l.deleteLocked(func(p latePut) bool { return keeper.PutPage(p.key, p.value) == nil })
}

// drop forgets what was to be put under a key.
func (l *latePuts) drop(key [32]byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deleteLocked(func(p latePut) bool { return p.key == key })
}

func (l *latePuts) deleteLocked(done func(latePut) bool) {
	l.puts = slices.DeleteFunc(l.puts, func(p latePut) bool {
		if !done(p) {
			return false
		}
		l.bytes -= len(p.value)
		return true
	})
	l.waiting.Store(len(l.puts) > 0)
}
