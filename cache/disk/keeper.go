package disk

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/xetfs/xetfs/codec"
)

// A keeper is the one goroutine that changes what is on disk. Others give it things to
// do and go their way; only whole files are written elsewhere, and the keeper makes room
// for them and gives them their names. So no lock is held while the disk works.
type keeper struct {
	s    *Store
	wake chan struct{}
	done chan struct{}
	turn chan struct{} // held by the one who waits for room
	room chan struct{} // told to ask again

	mu      sync.Mutex
	ops     []op  // guarded by mu
	bytes   int64 // that wait in puts; guarded by mu
	closing bool  // guarded by mu

	named []*naming // files that wait for those that come with them; the keeper's alone
	state           // the keeper's alone
}

// A state is what a keeper knows about the folder, from one time that it is opened to the
// next.
type state struct {
	d       *folder
	id      [16]byte        // of the cache
	log     *log            // nil: the journal failed, and a new one must be made
	number  uint64          // of the last journal
	foreign map[string]bool // journals that are not of this cache
	damaged string          // the journal of which a copy is kept

	heads   [queues]*segment // those that are written to
	last    uint32           // highest number of a segment that was ever seen
	rows    rows
	held    [queues]int64 // bytes of the segments and whole files of a queue
	ghost   ghost
	orphans []orphan  // files to delete
	stuck   []orphan  // files that could not be deleted, oldest first
	floor   int64     // bytes of the file system to leave free
	looked  time.Time // when it was last looked whether they are
	syncing syncing
	probing probing
}

// An op is one thing to do: exactly one field is set.
type op struct {
	put  *put
	drop *drop
	call *call
	name *naming
}

// A put is consecutive chunks of one object, about to be stored.
type put struct {
	key    key
	first  uint32
	data   []byte
	pieces []piece
	free   func() // called when data is not needed any more; nil: it is nobody else's
}

func (p *put) chunks() codec.ChunkRange {
	return codec.ChunkRange{Start: p.first, End: p.first + uint32(len(p.pieces))}
}

// slice returns the part of p that holds the chunks of r.
func (p *put) slice(r codec.ChunkRange) put {
	i, j := int(r.Start-p.first), int(r.End-p.first)
	off := total(p.pieces[:i])
	return put{
		key:    p.key,
		first:  r.Start,
		data:   p.data[off : off+total(p.pieces[i:j])],
		pieces: p.pieces[i:j],
	}
}

func total(pieces []piece) (n int) {
	for _, p := range pieces {
		n += p.size
	}
	return n
}

// A drop is chunks that the index has forgotten already.
type drop struct {
	key key
	r   codec.ChunkRange
}

// A call is a function that the keeper runs. Its error goes to who waits.
type call struct {
	run  func() error // nil: sync
	done chan error   // of length 1
}

func newKeeper(s *Store) *keeper {
	return &keeper{
		s:    s,
		wake: make(chan struct{}, 1),
		done: make(chan struct{}),
		turn: make(chan struct{}, 1),
		room: make(chan struct{}, 1),
	}
}

// poke makes the keeper look around.
func (k *keeper) poke() { tell(k.wake) }

func tell(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it is told already
	}
}

// add gives the keeper something to do, unless it is closing.
func (k *keeper) add(o op) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.addLocked(o)
}

func (k *keeper) addLocked(o op) error {
	if k.closing {
		return ErrClosed
	}
	k.ops = append(k.ops, o)
	k.poke()
	return nil
}

// putNow takes chunks if the queue has room for them.
func (k *keeper) putNow(p *put) error { return k.put(p, k.s.o.QueueBytes) }

// put takes chunks if so many bytes wait with them at most.
func (k *keeper) put(p *put, most int64) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	size := int64(len(p.data))
	if k.bytes > 0 && k.bytes+size > most && !k.closing {
		return ErrBusy
	}
	err := k.addLocked(op{put: p})
	if err == nil {
		k.bytes += size
	}
	return err
}

// putPatiently waits until half of the queue has room for chunks. The other half is left to
// those who do not wait.
func (k *keeper) putPatiently(ctx context.Context, p *put) error {
	select {
	case k.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrBusy, ctx.Err())
	}
	defer func() { <-k.turn }()
	for {
		err := k.put(p, k.s.o.QueueBytes/2)
		if !errors.Is(err, ErrBusy) {
			return err
		}
		if err := k.s.Refuses(); err != nil {
			return err
		}
		select {
		case <-k.room:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrBusy, ctx.Err())
		}
	}
}

func (k *keeper) dropped(x key, r codec.ChunkRange) {
	_ = k.add(op{drop: &drop{x, r}}) // a closed store finds the damage again
}

// do runs f in the keeper and returns its error. It may wait for as long as the disk
// does.
func (k *keeper) do(f func() error) error { return k.call(context.Background(), &call{run: f}) }

// later makes the keeper run f when it comes to it, if the disk works.
func (k *keeper) later(f func()) {
	run := func() error { f(); return nil }
	_ = k.add(op{call: &call{run: run, done: make(chan error, 1)}}) // a closed one need not
}

// sync returns when everything that was put before lasts.
func (k *keeper) sync() error { return k.call(context.Background(), &call{}) }

func (k *keeper) call(ctx context.Context, c *call) error {
	c.done = make(chan error, 1)
	if err := k.add(op{call: c}); err != nil {
		return err
	}
	select {
	case err := <-c.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// close ends the keeper and waits for it, but not for ever.
func (k *keeper) close(limit time.Duration) error {
	k.mu.Lock()
	k.closing = true
	k.mu.Unlock()
	k.poke()
	tell(k.room)
	return within(limit, k.done)
}

// run is the keeper's life.
func (k *keeper) run() {
	defer close(k.done)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	k.failed("making room", k.makeRoom(0, 0))
	for {
		ops, closing := k.take()
		for i := range ops {
			k.handle(ops[i])
			k.stored(ops[i].put)
			ops[i] = op{}
		}
		k.publishNamed()
		k.flush()
		busy := k.settle()
		if len(ops) > 0 {
			continue
		}
		if closing {
			k.finish()
			return
		}
		timer.Reset(k.pause(busy))
		select {
		case <-k.wake:
		case <-timer.C:
		case err := <-k.syncing.result:
			k.synced(err)
		}
	}
}

// take returns what there is to do.
func (k *keeper) take() (ops []op, closing bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	ops, k.ops = k.ops, nil
	return ops, k.closing
}

// stored takes notice that the bytes of p wait no more, wherever they are now.
func (k *keeper) stored(p *put) {
	if p == nil {
		return
	}
	k.mu.Lock()
	k.bytes -= int64(len(p.data))
	k.mu.Unlock()
	tell(k.room)
	if p.free != nil {
		p.free()
	}
}

func (k *keeper) handle(o op) {
	idle := k.s.health.suspended.Load()
	switch {
	case o.call != nil && idle:
		o.call.done <- ErrSuspended
	case o.name != nil && idle:
		o.name.done <- ErrSuspended
	case o.name != nil:
		k.named = append(k.named, o.name)
	case o.call != nil && o.call.run == nil:
		k.syncing.wait(o.call.done)
		k.startSync()
	case o.call != nil:
		err := o.call.run()
		k.flush() // who waited may be killed now
		o.call.done <- err
	case idle:
	case o.drop != nil:
		k.forget(o.drop)
	case o.put != nil:
		k.store(o.put)
	}
}

// forget writes down that chunks are gone, and deletes a segment that has none left.
func (k *keeper) forget(d *drop) {
	k.d.index.drop(d.key, d.r) // they may have come again meanwhile
	k.write(&record{kind: dropRecord, key: d.key, rows: []row{{first: d.r.Start, n: d.r.Len()}}})
	k.removeEmpty()
}

// removeEmpty deletes the segments in which nothing can be found any more.
func (k *keeper) removeEmpty() {
	var empty []*segment
	k.d.index.mu.RLock()
	for _, s := range k.d.index.segments {
		if s.live == 0 && !s.pinned.Load() {
			empty = append(empty, s)
		}
	}
	k.d.index.mu.RUnlock()
	for _, s := range empty {
		k.remove(s)
	}
}

// settle does what is due besides, and says whether there is more of it.
func (k *keeper) settle() (busy bool) {
	select {
	case err := <-k.syncing.result: // where there is always something to do nobody waits for it
		k.synced(err)
	default:
	}
	if k.s.health.suspended.Load() {
		k.probe()
		return false
	}
	if k.log == nil && !k.s.health.full() || k.log != nil && k.log.grown(k.s.o.testing.journal) {
		k.failed("writing the index", k.rotate())
	}
	if k.syncing.due(&k.s.o) {
		k.startSync()
	}
	k.keepFloor()
	return k.deleteOrphan()
}

// keepFloor makes room for others, who do not ask for it, when it is time to look.
func (k *keeper) keepFloor() {
	if k.floor <= 0 || time.Since(k.looked) < k.s.o.testing.look {
		return
	}
	k.looked = now()
	if err := k.makeRoom(0, 0); !isFull(err) { // if they take all of it nothing is to be said
		k.failed("making room", err)
	}
}

func (k *keeper) failed(what string, err error) { k.s.failed(what, err) }

// pause returns how long the keeper may sleep.
func (k *keeper) pause(busy bool) time.Duration {
	switch {
	case k.s.health.suspended.Load():
		return max(k.s.o.testing.probe-time.Since(k.probing.last), time.Millisecond)
	case busy:
		return 0
	}
	pause := time.Hour
	if k.floor > 0 {
		pause = k.s.o.testing.look - time.Since(k.looked)
	}
	if k.syncing.unsynced > 0 && !k.syncing.running {
		pause = min(pause, k.s.o.SyncEvery-time.Since(k.syncing.last))
	}
	return max(pause, time.Millisecond)
}

// finish makes everything last and says in the journal that all is well.
func (k *keeper) finish() {
	k.settleSync()
	if k.s.health.suspended.Load() {
		k.abandonLog()
		return
	}
	if k.log != nil {
		k.write(&record{kind: closeRecord})
	}
	k.startSync()
	k.settleSync()
	if k.log != nil {
		k.failed("closing the index", k.log.f.Close())
	}
}
