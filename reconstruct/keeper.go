package reconstruct

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xetfs/xetfs/cache"
	"github.com/xetfs/xetfs/cache/flight"
	"github.com/xetfs/xetfs/codec"
)

// A keeper lays files down whole in the background, one at a time. It waits for a moment
// at which nobody reads before each batch that it asks for (batchChunks), and has no more
// than one on its way. What it needs of a far file was just read, so it mostly comes from
// the disk.
type keeper struct {
	r      *Reader
	policy Policy
	least  int64 // sizes of files that MaterializeAuto keeps
	most   int64
	times  int32 // how often they must have been read

	ctx    context.Context // ended by close
	stop   context.CancelFunc
	going  sync.WaitGroup
	start  time.Time
	active atomic.Int64 // reads under way
	ended  atomic.Int64 // when the last one ended, in ns since start

	mu      sync.Mutex
	queue   []*File               // guarded by mu
	queued  map[codec.Hash]bool   // those, and the one that is being laid down; guarded by mu
	failed  map[codec.Hash]failed // those that were not kept for an error; guarded by mu
	running bool                  // guarded by mu
}

// A failed is when a file may be tried again, and how long it waits next time.
type failed struct {
	again time.Time
	pause time.Duration
}

const (
	maxQueue  = 256 // files; what comes then is laid down when it is read again
	maxFailed = 1024

	firstPause = time.Minute
	mostPause  = time.Hour

	quiet    = 20 * time.Millisecond // without a read: nobody is reading
	glance   = 5 * time.Millisecond  // how often it looks for that
	patience = time.Second           // after which it takes one batch all the same
)

func (k *keeper) init(r *Reader, policy Policy) {
	k.r, k.start = r, time.Now()
	k.queued, k.failed = map[codec.Hash]bool{}, map[codec.Hash]failed{}
	k.ctx, k.stop = context.WithCancel(context.Background())
	kept := r.c.Stats().Disk
	if kept == nil {
		return
	}
	k.policy, k.least, k.times, k.most = policy, leastFar, timesFar, kept.MaxBytes/cacheShare
	if r.c.Near() {
		k.least, k.times = leastNear, timesNear
	}
}

// opened is called when somebody opens f to read it.
func (k *keeper) opened(f *File) {
	if k.policy == MaterializeAlways && f.Size() > 0 {
		k.add(f)
	}
}

// begins is called when a read begins, and what it returns when it ends.
func (k *keeper) begins() {
	if k.policy != MaterializeNever {
		k.active.Add(1)
	}
}

func (k *keeper) ends() {
	if k.policy != MaterializeNever {
		k.ended.Store(int64(time.Since(k.start)))
		k.active.Add(-1)
	}
}

// read is called when n bytes at off were read of chunks.
func (k *keeper) read(f *File, off, n int64) {
	if k.policy != MaterializeAuto || f.Size() < k.least || f.Size() > k.most {
		return
	}
	c := f.covered.Load()
	if c == nil {
		f.covered.CompareAndSwap(nil, newCoverage(f.Size()))
		c = f.covered.Load()
	}
	if !c.note(off, n) {
		return
	}
	f.covered.Store(newCoverage(f.Size()))
	if f.times.Add(1) >= k.times {
		k.add(f)
	}
}

// add has f laid down, if that is not under way and did not fail just now.
func (k *keeper) add(f *File) {
	h := f.id.File
	if k.r.c.HasFile(h) || !k.r.c.CanPutFile() || f.claimedWrong() {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ctx.Err() != nil || k.queued[h] || len(k.queue) == maxQueue || time.Now().Before(k.failed[h].again) {
		return
	}
	k.queued[h] = true
	k.queue = append(k.queue, f)
	if !k.running {
		k.running = true
		k.going.Go(k.run)
	}
}

func (k *keeper) run() {
	for f := k.next(nil, nil); f != nil; {
		err := k.layDown(f)
		f = k.next(f, err)
	}
}

// next takes account of what became of the last file and returns the next one, or nil.
func (k *keeper) next(last *File, err error) *File {
	k.mu.Lock()
	defer k.mu.Unlock()
	if last != nil {
		k.doneLocked(last.id.File, err)
	}
	if len(k.queue) == 0 || k.ctx.Err() != nil {
		k.running = false
		return nil
	}
	f := k.queue[0]
	k.queue = k.queue[1:]
	return f
}

func (k *keeper) doneLocked(h codec.Hash, err error) {
	delete(k.queued, h)
	if err == nil {
		delete(k.failed, h)
		return
	}
	if len(k.failed) >= maxFailed {
		clear(k.failed)
	}
	pause := min(max(firstPause, 2*k.failed[h].pause), mostPause)
	k.failed[h] = failed{time.Now().Add(pause), pause}
}

func (k *keeper) layDown(f *File) (err error) {
	defer flight.Guard(&err)
	w := newWhole(k.ctx, f, f.claim())
	w.get, w.paced = k.get, true
	return f.layDown(w, func(int64) {})
}

// get fetches a batch once nobody reads.
func (k *keeper) get(b batch) (*cache.Run, error) {
	if err := k.wait(); err != nil {
		return nil, err
	}
	return k.r.c.Run(k.ctx, b.xorb, b.chunks)
}

// wait returns when nobody reads, or patience is over.
func (k *keeper) wait() error {
	look := time.NewTicker(glance)
	defer look.Stop()
	for begin := time.Since(k.start); ; {
		now := time.Since(k.start)
		idle := k.active.Load() == 0 && now-time.Duration(k.ended.Load()) >= quiet
		if idle || now-begin >= patience {
			return k.ctx.Err()
		}
		select {
		case <-look.C:
		case <-k.ctx.Done():
			return k.ctx.Err()
		}
	}
}

func (k *keeper) close() {
	k.mu.Lock()
	k.stop() // under the lock: nothing begins after it
	k.mu.Unlock()
	k.going.Wait()
}
