package main

import (
	"context"
	"sync"

	"github.com/xetfs/xetfs/codec/pack"
)

// An assembly holds what was found until the shards are stored that describe it, and
// gives it out in the order in which it came.
type assembly struct {
	keepSHA bool

	mu      sync.Mutex
	pending []*foundBatch // guarded by mu
	waiting []waitingFile // files whose shard is not stored, in order; guarded by mu
	memory  int64         // of pending; guarded by mu
	ended   bool          // nothing will be pushed any more; guarded by mu

	ready chan struct{} // has something when pending may have a complete batch
	room  chan struct{} // has something when memory has become less
}

// A waitingFile waits for pack.Options.Done.
type waitingFile struct {
	b *foundBatch
	f *found
}

// maxPending bounds the memory of what waits: some 250,000 entries.
const maxPending = 128 << 20

func newAssembly(keepSHA bool) *assembly {
	return &assembly{keepSHA: keepSHA, ready: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// wake puts something into a channel that has room for one.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// expect says that f, in b, is the next file that is packed.
func (a *assembly) expect(b *foundBatch, f *found) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting = append(a.waiting, waitingFile{b, f})
	b.waiting++
}

// forget takes back the last expect.
func (a *assembly) forget(b *foundBatch) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting = a.waiting[:len(a.waiting)-1]
	b.waiting--
}

// done is told of each file that is stored, in the order of expect.
func (a *assembly) done(stored pack.File) {
	a.mu.Lock()
	defer a.mu.Unlock()
	next := a.waiting[0]
	a.waiting = a.waiting[1:]
	next.f.entry.ID, next.f.entry.Size = stored.ID, stored.Size
	if a.keepSHA {
		sum := stored.SHA256
		next.f.entry.SHA256 = &sum
	}
	next.b.waiting--
	if next.b.waiting == 0 {
		wake(a.ready)
	}
}

// push adds a batch all of whose files are packed. If too much waits, it waits, too, and
// has flush complete what can be completed.
func (a *assembly) push(ctx context.Context, b *foundBatch, flush func(context.Context) error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pending = append(a.pending, b)
	a.memory += b.memory
	wake(a.ready)
	for a.memory > maxPending && len(a.pending) > 1 {
		stuck := a.pending[0].waiting > 0
		a.mu.Unlock()
		err := a.relieve(ctx, stuck, flush)
		a.mu.Lock()
		if err != nil {
			return err
		}
	}
	return nil
}

// relieve waits until less may be pending.
func (a *assembly) relieve(ctx context.Context, stuck bool, flush func(context.Context) error) error {
	if stuck {
		return flush(ctx)
	}
	select {
	case <-a.room:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// end says that nothing will be pushed any more.
func (a *assembly) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	wake(a.ready)
}

// next returns the next batch if it is complete. After the last one it says ended. If
// neither, there may be something to be had when ready has something.
func (a *assembly) next() (b *foundBatch, ended bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.pending) == 0 {
		return nil, a.ended
	}
	b = a.pending[0]
	if b.waiting > 0 {
		return nil, false
	}
	a.pending[0] = nil
	a.pending = a.pending[1:]
	a.memory -= b.memory
	wake(a.room)
	return b, false
}
