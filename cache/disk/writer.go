package disk

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xetfs/xetfs/cache/disk/internal/index"
	"github.com/xetfs/xetfs/cache/disk/internal/wal"
	"github.com/xetfs/xetfs/codec"
)

// A writer is the only goroutine that changes files. Other goroutines queue operations for it,
// so no lock is held during I/O. Only the content of whole files is written elsewhere; the
// writer makes room and renames.
type writer struct {
	s          *Store
	wake       wake
	done       chan struct{}
	waitSlot   chan struct{} // held by the caller that waits for room
	spaceFreed wake          // for the caller that holds waitSlot

	mu      sync.Mutex
	ops     []op  // guarded by mu
	bytes   int64 // of queued puts; guarded by mu
	closing bool  // guarded by mu

	pendingFiles []*pendingFile // files that get their names together; for the writer only
	writerState                 // for the writer only
}

// A writerState is the state of an open folder. A store that resumes starts a new one.
type writerState struct {
	d       *folder
	id      [16]byte        // of the cache
	log     *wal.Log        // nil: the journal failed, and a new one is due
	number  uint64          // of the last journal
	foreign map[string]bool // journals of other caches
	damaged string          // the journal to copy

	heads   [index.NumQueues]*index.Segment // the segments that are being written
	last    uint32                          // highest number that a segment ever had
	policy  *index.Policy
	orphans []orphan // files to delete
	stuck   []orphan // files that could not be deleted, oldest first
	minFree int64    // bytes of the file system that stay free
	space   spaceCheck
	syncing syncState
	probing prober
}

// An op is one operation: exactly one field is set.
type op struct {
	put  *putOp
	drop *dropOp
	call *callOp
	name *pendingFile
}

// A putOp stores consecutive chunks of one object.
type putOp struct {
	key     index.Key
	first   uint32
	data    []byte
	infos   []index.ChunkInfo
	release func() // called when data is not needed any more; nil: not called
}

func (p *putOp) chunks() codec.ChunkRange {
	return codec.ChunkRange{Start: p.first, End: p.first + uint32(len(p.infos))}
}

// slice returns the part of p that holds the chunks of r.
func (p *putOp) slice(r codec.ChunkRange) putOp {
	i, j := int(r.Start-p.first), int(r.End-p.first)
	off := index.TotalSize(p.infos[:i])
	return putOp{
		key:   p.key,
		first: r.Start,
		data:  p.data[off : off+index.TotalSize(p.infos[i:j])],
		infos: p.infos[i:j],
	}
}

// A dropOp records that the index has forgotten chunks, and drops those of earlier puts.
type dropOp struct {
	key index.Key
	r   codec.ChunkRange
}

// A callOp runs a function in the writer and returns its error to the caller.
type callOp struct {
	run  func() error // nil: sync
	done chan error   // of length 1
}

func newWriter(s *Store) *writer {
	return &writer{
		s:          s,
		wake:       newWake(),
		done:       make(chan struct{}),
		waitSlot:   make(chan struct{}, 1),
		spaceFreed: newWake(),
	}
}

// hasPuts reports whether puts are queued or under way.
func (wr *writer) hasPuts() bool {
	wr.mu.Lock()
	defer wr.mu.Unlock()
	return wr.bytes > 0
}

// add queues an operation, unless the writer is closing.
func (wr *writer) add(o op) error {
	wr.mu.Lock()
	defer wr.mu.Unlock()
	return wr.addLocked(o)
}

func (wr *writer) addLocked(o op) error {
	if wr.closing {
		return ErrClosed
	}
	wr.ops = append(wr.ops, o)
	wr.wake.signal()
	return nil
}

// tryPut queues chunks if the queue has room for them.
func (wr *writer) tryPut(p *putOp) error { return wr.put(p, wr.s.o.QueueBytes) }

// pageReserve is the room of the queue that only pages use. A page saves a request, so that
// waiting chunks must not keep it out.
const pageReserve = 4 << 20

// tryPutPage is tryPut for a page.
func (wr *writer) tryPutPage(p *putOp) error { return wr.put(p, wr.s.o.QueueBytes+pageReserve) }

// put queues chunks if at most most bytes are queued then.
func (wr *writer) put(p *putOp, most int64) error {
	wr.mu.Lock()
	defer wr.mu.Unlock()
	size := int64(len(p.data))
	if wr.bytes > 0 && wr.bytes+size > most && !wr.closing {
		return ErrBusy
	}
	err := wr.addLocked(op{put: p})
	if err == nil {
		wr.bytes += size
	}
	return err
}

// putWait waits until half of the queue has room for chunks. The other half is for callers that
// do not wait.
func (wr *writer) putWait(ctx context.Context, p *putOp) error {
	select {
	case wr.waitSlot <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrBusy, ctx.Err())
	}
	defer func() { <-wr.waitSlot }()
	for {
		err := wr.put(p, wr.s.o.QueueBytes/2)
		if !errors.Is(err, ErrBusy) {
			return err
		}
		if err := wr.s.WriteErr(); err != nil {
			return err
		}
		select {
		case <-wr.spaceFreed:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrBusy, ctx.Err())
		}
	}
}

func (wr *writer) dropped(x index.Key, r codec.ChunkRange) {
	_ = wr.add(op{drop: &dropOp{x, r}}) // a closed store finds the damage again
}

// do runs f in the writer and returns its error. It may wait for as long as the disk blocks.
func (wr *writer) do(f func() error) error { return wr.call(context.Background(), &callOp{run: f}) }

// later queues f, which runs if the disk works.
func (wr *writer) later(f func()) {
	run := func() error { f(); return nil }
	_ = wr.add(op{call: &callOp{run: run, done: make(chan error, 1)}}) // a closed writer need not run it
}

// sync returns when all earlier puts are durable.
func (wr *writer) sync() error { return wr.call(context.Background(), &callOp{}) }

func (wr *writer) call(ctx context.Context, c *callOp) error {
	c.done = make(chan error, 1)
	if err := wr.add(op{call: c}); err != nil {
		return err
	}
	select {
	case err := <-c.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// close ends the writer and waits for it, at most for the limit.
func (wr *writer) close(limit time.Duration) error {
	wr.mu.Lock()
	wr.closing = true
	wr.mu.Unlock()
	wr.wake.signal()
	wr.spaceFreed.signal()
	return within(limit, wr.done)
}

// take returns all queued operations.
func (wr *writer) take() (ops []op, closing bool) {
	wr.mu.Lock()
	defer wr.mu.Unlock()
	ops, wr.ops = wr.ops, nil
	return ops, wr.closing
}

// stored removes the bytes of p from the queue.
func (wr *writer) stored(p *putOp) {
	if p == nil {
		return
	}
	wr.mu.Lock()
	wr.bytes -= int64(len(p.data))
	wr.mu.Unlock()
	wr.spaceFreed.signal()
	if p.release != nil {
		p.release()
	}
}

func (wr *writer) failed(what string, err error) { wr.s.failed(what, err) }

// A pendingFile is a whole file that is written and waits for its name.
type pendingFile struct {
	d    *folder
	w    *index.WholeFile
	done chan error // of length 1
}

// An orphan is a file that is to be deleted. Its bytes count until it is deleted.
type orphan struct {
	name string
	size int64
	sort *atomic.Int64 // the counter of its kind

	file *index.WholeFile // counts until its last handle is closed, too; nil for other files
}

// A syncState has the files to sync, and the sync that is under way.
type syncState struct {
	result   chan error
	running  bool
	unsynced int64     // bytes written or renamed since the start of the last sync
	last     time.Time // start of the last sync
	segments []*index.Segment
	dirs     bool         // segments were created
	waiting  []chan error // callers of the next sync
	waiters  []chan error // callers of the sync under way
	log      *wal.Log     // of the sync under way
}

// A prober finds out whether the disk of a suspended store works again.
type prober struct {
	last time.Time
	good int // successful probes in a row
}

// seal ends the segment that a queue is written to. The segment stays open for readers.
func (wr *writer) seal(q index.Queue) {
	if s := wr.heads[q]; s != nil {
		s.Pinned.Store(false)
		wr.heads[q] = nil
	}
}

// sealSegment ends a segment if a queue is written to it.
func (wr *writer) sealSegment(s *index.Segment) {
	for q, head := range wr.heads {
		if head == s {
			wr.seal(index.Queue(q))
		}
	}
}
