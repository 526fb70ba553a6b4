package disk

import (
	"context"
	"errors"
	"fmt"
	"sync"
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
	wake       chan struct{}
	done       chan struct{}
	waitSlot   chan struct{} // held by the one who waits for room
	spaceFreed chan struct{} // told to ask again

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
		wake:       make(chan struct{}, 1),
		done:       make(chan struct{}),
		waitSlot:   make(chan struct{}, 1),
		spaceFreed: make(chan struct{}, 1),
	}
}

// wakeUp makes the writer look around.
func (wr *writer) wakeUp() { signal(wr.wake) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it is told already
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
	wr.wakeUp()
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
	wr.wakeUp()
	signal(wr.spaceFreed)
	return within(limit, wr.done)
}

// run is the writer's life.
func (wr *writer) run() {
	defer close(wr.done)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	wr.failed("making room", wr.makeRoom(0, 0))
	for {
		ops, closing := wr.take()
		for i := range ops {
			wr.handle(ops[i])
			wr.stored(ops[i].put)
			ops[i] = op{}
		}
		wr.publishFiles()
		wr.flush()
		busy := wr.housekeep()
		if len(ops) > 0 {
			continue
		}
		if closing {
			wr.finish()
			return
		}
		timer.Reset(wr.pause(busy))
		select {
		case <-wr.wake:
		case <-timer.C:
		case err := <-wr.syncing.result:
			wr.synced(err)
		}
	}
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
	signal(wr.spaceFreed)
	if p.release != nil {
		p.release()
	}
}

func (wr *writer) handle(o op) {
	idle := wr.s.health.suspended.Load()
	switch {
	case o.call != nil && idle:
		o.call.done <- ErrSuspended
	case o.name != nil && idle:
		o.name.done <- ErrSuspended
	case o.name != nil:
		wr.pendingFiles = append(wr.pendingFiles, o.name)
	case o.call != nil && o.call.run == nil:
		wr.syncing.wait(o.call.done)
		wr.startSync()
	case o.call != nil:
		err := o.call.run()
		wr.flush() // who waited may be killed now
		o.call.done <- err
	case idle:
	case o.drop != nil:
		wr.forget(o.drop)
	case o.put != nil:
		wr.store(o.put)
	}
}

// forget writes down that chunks are gone, and deletes a segment that has none left.
func (wr *writer) forget(d *dropOp) {
	wr.d.index.Drop(d.key, d.r) // they may have come again meanwhile
	wr.write(&wal.Record{Kind: wal.DropRecord, Key: d.key, Rows: []index.Row{{First: d.r.Start, N: d.r.Len()}}})
	wr.removeEmpty()
}

// housekeep does what is due besides, and says whether there is more of it.
func (wr *writer) housekeep() (busy bool) {
	select {
	case err := <-wr.syncing.result: // where there is always something to do nobody waits for it
		wr.synced(err)
	default:
	}
	if wr.s.health.suspended.Load() {
		wr.probe()
		return false
	}
	if wr.log == nil && !wr.s.health.full() || wr.log != nil && wr.log.IsGrown(wr.s.o.testing.journal) {
		wr.failed("writing the index", wr.rotate())
	}
	if wr.syncing.due(&wr.s.o) {
		wr.startSync()
	}
	wr.keepMinFree()
	return wr.deleteOrphan()
}

// keepMinFree makes room for others, who do not ask for it, when it is time to look.
func (wr *writer) keepMinFree() {
	if wr.minFree <= 0 || time.Since(wr.lastSpaceCheck) < wr.s.o.testing.spaceCheck {
		return
	}
	wr.lastSpaceCheck = now()
	if err := wr.makeRoom(0, 0); !isFull(err) { // if they take all of it nothing is to be said
		wr.failed("making room", err)
	}
}

func (wr *writer) failed(what string, err error) { wr.s.failed(what, err) }

// pause returns how long the writer may sleep.
func (wr *writer) pause(busy bool) time.Duration {
	switch {
	case wr.s.health.suspended.Load():
		return max(wr.s.o.testing.probe-time.Since(wr.probing.last), time.Millisecond)
	case busy:
		return 0
	}
	pause := time.Hour
	if wr.minFree > 0 {
		pause = wr.s.o.testing.spaceCheck - time.Since(wr.lastSpaceCheck)
	}
	if wr.syncing.unsynced > 0 && !wr.syncing.running {
		pause = min(pause, wr.s.o.SyncEvery-time.Since(wr.syncing.last))
	}
	return max(pause, time.Millisecond)
}

// finish makes everything last and says in the journal that all is well.
func (wr *writer) finish() {
	wr.settleSync()
	if wr.s.health.suspended.Load() {
		wr.abandonLog()
		return
	}
	if wr.log != nil {
		wr.write(&wal.Record{Kind: wal.CloseRecord})
	}
	wr.startSync()
	wr.settleSync()
	if wr.log != nil {
		wr.failed("closing the index", wr.log.Close())
	}
}
