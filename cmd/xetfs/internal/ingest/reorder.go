package ingest

import (
	"context"
	"sync"

	"github.com/xetfs/xetfs/codec/pack"
)

// A reorderBuffer has the entries whose shards are not stored yet. It returns batches in the
// order of push.
type reorderBuffer struct {
	keepSHA bool

	mu      sync.Mutex
	pending []*batch      // guarded by mu
	waiting []waitingFile // files whose shard is not stored, in order; guarded by mu
	memory  int64         // of pending; guarded by mu
	ended   bool          // no further push; guarded by mu

	ready chan struct{} // non-empty when pending may have a complete batch
	room  chan struct{} // non-empty when memory has decreased
}

// A waitingFile waits for pack.Options.Done.
type waitingFile struct {
	b *batch
	e *Entry
}

// maxPending is the limit of memory: about 250,000 entries.
const maxPending = 128 << 20

func newReorderBuffer(keepSHA bool) *reorderBuffer {
	return &reorderBuffer{keepSHA: keepSHA, ready: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// wake fills a channel with room for one value.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// expect registers e, in b, as the next file that is packed.
func (rb *reorderBuffer) expect(b *batch, e *Entry) {
	rb.mu.Lock()
	defer rb.mu.Unlock()
	rb.waiting = append(rb.waiting, waitingFile{b, e})
	b.waiting++
}

// forget undoes the last expect.
func (rb *reorderBuffer) forget(b *batch) {
	rb.mu.Lock()
	defer rb.mu.Unlock()
	rb.waiting = rb.waiting[:len(rb.waiting)-1]
	b.waiting--
}

// done receives each file when its shard is stored, in the order of expect.
func (rb *reorderBuffer) done(stored pack.File) {
	rb.mu.Lock()
	defer rb.mu.Unlock()
	next := rb.waiting[0]
	rb.waiting = rb.waiting[1:]
	next.e.ID, next.e.Size = stored.ID, stored.Size
	if rb.keepSHA {
		sum := stored.SHA256
		next.e.SHA256 = &sum
	}
	next.b.waiting--
	if next.b.waiting == 0 {
		wake(rb.ready)
	}
}

// push adds a batch whose files are packed. Above maxPending it calls flush, which completes
// batches, or waits for next.
func (rb *reorderBuffer) push(ctx context.Context, b *batch, flush func(context.Context) error) error {
	rb.mu.Lock()
	defer rb.mu.Unlock()
	rb.pending = append(rb.pending, b)
	rb.memory += b.memory
	wake(rb.ready)
	for rb.memory > maxPending && len(rb.pending) > 1 {
		stuck := rb.pending[0].waiting > 0
		rb.mu.Unlock()
		err := rb.relieve(ctx, stuck, flush)
		rb.mu.Lock()
		if err != nil {
			return err
		}
	}
	return nil
}

// relieve waits until the memory may have decreased.
func (rb *reorderBuffer) relieve(ctx context.Context, stuck bool, flush func(context.Context) error) error {
	if stuck {
		return flush(ctx)
	}
	select {
	case <-rb.room:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// end marks the end of all batches.
func (rb *reorderBuffer) end() {
	rb.mu.Lock()
	defer rb.mu.Unlock()
	rb.ended = true
	wake(rb.ready)
}

// next returns the next batch if it is complete, or reports the end. Otherwise the caller waits
// for ready.
func (rb *reorderBuffer) next() (b *batch, ended bool) {
	rb.mu.Lock()
	defer rb.mu.Unlock()
	if len(rb.pending) == 0 {
		return nil, rb.ended
	}
	b = rb.pending[0]
	if b.waiting > 0 {
		return nil, false
	}
	rb.pending[0] = nil
	rb.pending = rb.pending[1:]
	rb.memory -= b.memory
	wake(rb.room)
	return b, false
}
