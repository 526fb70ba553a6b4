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

// A writer is the one goroutine that changes what is on disk. Others give it things to
// do and go their way; only whole files are written elsewhere, and the writer makes room
// for them and gives them their names. So no lock is held while the disk works.
type writer struct {
	s          *Store
	wake       wake
	done       chan struct{}
	waitSlot   chan struct{} // held by the one who waits for room
	spaceFreed wake          // for the caller that holds waitSlot

	mu      sync.Mutex
	ops     []op  // guarded by mu
	bytes   int64 // that wait in puts; guarded by mu
	closing bool  // guarded by mu

	pendingFiles []*pendingFile // files that wait for those that come with them; the writer's alone
	writerState                 // the writer's alone
}

// A writerState is what a writer knows about the folder, from one time that it is opened to the
// next.
type writerState struct {
	d       *folder
	id      [16]byte        // of the cache
	log     *wal.Log        // nil: the journal failed, and a new one must be made
	number  uint64          // of the last journal
	foreign map[string]bool // journals that are not of this cache
	damaged string          // the journal of which a copy is kept

	heads          [index.NumQueues]*index.Segment // those that are written to
	last           uint32                          // highest number of a segment that was ever seen
	policy         *index.Policy
	orphans        []orphan  // files to delete
	stuck          []orphan  // files that could not be deleted, oldest first
	minFree        int64     // bytes of the file system to leave free
	lastSpaceCheck time.Time // when it was last looked whether they are
	syncing        syncState
	probing        prober
}

// An op is one thing to do: exactly one field is set.
type op struct {
	put  *putOp
	drop *dropOp
	call *callOp
	name *pendingFile
}

// A putOp is consecutive chunks of one object, about to be stored.
type putOp struct {
	key     index.Key
	first   uint32
	data    []byte
	infos   []index.ChunkInfo
	release func() // called when data is not needed any more; nil: it is nobody else's
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

// A dropOp is chunks that the index has forgotten already.
type dropOp struct {
	key index.Key
	r   codec.ChunkRange
}

// A callOp is a function that the writer runs. Its error goes to who waits.
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

// add gives the writer something to do, unless it is closing.
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

// tryPut takes chunks if the queue has room for them.
func (wr *writer) tryPut(p *putOp) error { return wr.put(p, wr.s.o.QueueBytes) }

// put takes chunks if so many bytes wait with them at most.
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

// putWait waits until half of the queue has room for chunks. The other half is left to
// those who do not wait.
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

// do runs f in the writer and returns its error. It may wait for as long as the disk
// does.
func (wr *writer) do(f func() error) error { return wr.call(context.Background(), &callOp{run: f}) }

// later makes the writer run f when it comes to it, if the disk works.
func (wr *writer) later(f func()) {
	run := func() error { f(); return nil }
	_ = wr.add(op{call: &callOp{run: run, done: make(chan error, 1)}}) // a closed one need not
}

// sync returns when everything that was put before lasts.
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

// close ends the writer and waits for it, but not for ever.
func (wr *writer) close(limit time.Duration) error {
	wr.mu.Lock()
	wr.closing = true
	wr.mu.Unlock()
	wr.wake.signal()
	wr.spaceFreed.signal()
	return within(limit, wr.done)
}

// take returns what there is to do.
func (wr *writer) take() (ops []op, closing bool) {
	wr.mu.Lock()
	defer wr.mu.Unlock()
	ops, wr.ops = wr.ops, nil
	return ops, wr.closing
}

// stored takes notice that the bytes of p wait no more, wherever they are now.
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

// A pendingFile is a whole file that was laid down, about to get its name.
type pendingFile struct {
	d    *folder
	w    *index.WholeFile
	done chan error // of length 1
}

// An orphan is a file that is to be deleted. Its bytes count until it is deleted.
type orphan struct {
	name string
	size int64
	sort *atomic.Int64 // of Stats

	file *index.WholeFile // counts until its last handle is closed, too; nil for other files
}

// syncState is what is to be synced, and the one sync that is under way.
type syncState struct {
	result   chan error
	running  bool
	unsynced int64     // bytes written since the last one began
	last     time.Time // when that was
	segments []*index.Segment
	dirs     bool         // segments were made
	waiting  []chan error // for the next one
	waiters  []chan error // for the one under way
	log      *wal.Log     // that it syncs
}

// prober is how a suspended store finds out that the disk works again.
type prober struct {
	last time.Time
	good int // looks in a row that went well
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
