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

// A materializer stores files as plain files in the background, one at a time, or learns their
// SHA-256. Before each batch (batchChunks) it waits until no reads run. It has at most one batch in
// transfer. The chunks of a remote file were just read, so most of them are on disk.
type materializer struct {
	r       *Reader
	policy  Policy
	minSize int64 // sizes of files for MaterializeAuto
	maxSize int64
	times   int32 // how often they must have been read

	running sync.WaitGroup
	start   time.Time
	active  atomic.Int64 // reads under way
	ended   atomic.Int64 // when the last one ended, in ns since start

	mu        sync.Mutex
	queue     []*File                   // guarded by mu
	queued    map[codec.Hash]bool       // the files of queue, and the current one; guarded by mu
	failed    map[codec.Hash]failedFile // files with an error; guarded by mu
	isRunning bool                      // guarded by mu
}

// A failedFile is when a file may be tried again, and how long it waits next time.
type failedFile struct {
	again time.Time
	pause time.Duration
}

const (
	maxQueue  = 256 // files; a further file is queued when it is read again
	maxFailed = 1024

	firstPause = time.Minute
	maxPause   = time.Hour

	// idleAfter is the time after the end of the last read when no reads run. A program uses a file
	// before it reads the next one, and materialization would take its processor time.
	idleAfter   = 500 * time.Millisecond
	idlePoll    = 5 * time.Millisecond // how often it looks for that
	maxIdleWait = time.Second          // after which it takes one batch all the same
)

func (m *materializer) init(r *Reader, policy Policy) {
	m.r, m.start = r, time.Now()
	m.queued, m.failed = map[codec.Hash]bool{}, map[codec.Hash]failedFile{}
	stats := r.c.Stats().Disk
	if stats == nil {
		return
	}
	m.policy, m.minSize, m.times, m.maxSize = policy, minRemote, timesRemote, stats.MaxBytes/cacheShare
	if r.c.Local() {
		m.minSize, m.times = minLocal, timesLocal
	}
}

// opened is called when f is opened for reading.
func (m *materializer) opened(f *File) {
	if m.policy == MaterializeAlways && f.Size() > 0 {
		m.add(f)
	}
}

// readStarts is called when a read begins, and readEnds when it ends.
func (m *materializer) readStarts() {
	if m.policy != MaterializeNever {
		m.active.Add(1)
	}
}

func (m *materializer) readEnds() {
	if m.policy != MaterializeNever {
		m.ended.Store(int64(time.Since(m.start)))
		m.active.Add(-1)
	}
}

// read records that n bytes at off were read from chunks.
func (m *materializer) read(f *File, off, n int64) {
	if m.policy != MaterializeAuto || f.Size() < m.minSize || f.Size() > m.maxSize {
		return
	}
	c := f.covered.Load()
	if c == nil {
		f.covered.CompareAndSwap(nil, newCoverage(f.Size(), minBlock, maxBlocks))
		c = f.covered.Load()
	}
	if !c.note(off, n) {
		return
	}
	f.covered.Store(newCoverage(f.Size(), minBlock, maxBlocks))
	if f.times.Add(1) >= m.times {
		m.add(f)
	}
}

// add queues f, unless it is queued, stored, or has just failed.
func (m *materializer) add(f *File) {
	if !m.r.c.HasFile(f.id.File) && m.r.c.CanPutFile() && !f.claimedWrong() {
		m.enqueue(f)
	}
}

// enqueue is add for a file that may be stored. Such a file has wantSum.
func (m *materializer) enqueue(f *File) {
	h := f.id.File
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.r.ctx.Err() != nil || m.queued[h] || len(m.queue) == maxQueue || time.Now().Before(m.failed[h].again) {
		return
	}
	m.queued[h] = true
	m.queue = append(m.queue, f)
	if !m.isRunning {
		m.isRunning = true
		m.running.Go(m.run)
	}
}

func (m *materializer) run() {
	for f := m.next(nil, nil); f != nil; {
		err := m.materialize(f)
		f = m.next(f, err)
	}
}

// next records the result of the last file and returns the next one, or nil.
func (m *materializer) next(last *File, err error) *File {
	m.mu.Lock()
	defer m.mu.Unlock()
	if last != nil {
		m.doneLocked(last.id.File, err)
	}
	if len(m.queue) == 0 || m.r.ctx.Err() != nil {
		m.isRunning = false
		return nil
	}
	f := m.queue[0]
	m.queue = m.queue[1:]
	return f
}

func (m *materializer) doneLocked(h codec.Hash, err error) {
	delete(m.queued, h)
	if err == nil {
		delete(m.failed, h)
		return
	}
	if len(m.failed) >= maxFailed {
		clear(m.failed)
	}
	pause := min(max(firstPause, 2*m.failed[h].pause), maxPause)
	m.failed[h] = failedFile{time.Now().Add(pause), pause}
}

func (m *materializer) materialize(f *File) (err error) {
	defer flight.Guard(&err)
	if want := f.wantSum.Swap(nil); want != nil {
		if !m.r.c.HasFile(f.id.File) {
			return nil // it was evicted meanwhile
		}
		return f.VerifySHA256(m.r.ctx, *want)
	}
	f = f.current() // a gated file may have been fetched once more since it was queued
	w := newVerifyReader(m.r.ctx, f, f.claim())
	w.addSum()
	w.batches.always, w.batches.most, w.batches.run = 1, 1, m.fetch
	return f.putFile(w, func(int64) {})
}

// fetch fetches chunks when no reads run. It uses no unknown chunks on disk, because the file has open
// handles.
func (m *materializer) fetch(ctx context.Context, x codec.Hash, r codec.ChunkRange) (*cache.Run, error) {
	if err := m.wait(); err != nil {
		return nil, err
	}
	return m.r.c.RunKnown(ctx, x, r)
}

// wait returns when no reads run, or after maxIdleWait.
func (m *materializer) wait() error {
	look := time.NewTicker(idlePoll)
	defer look.Stop()
	for begin := time.Since(m.start); ; {
		now := time.Since(m.start)
		idle := m.active.Load() == 0 && now-time.Duration(m.ended.Load()) >= idleAfter
		if idle || now-begin >= maxIdleWait {
			return m.r.ctx.Err()
		}
		select {
		case <-look.C:
		case <-m.r.ctx.Done():
			return m.r.ctx.Err()
		}
	}
}

func (m *materializer) close() {
	m.mu.Lock()
	m.r.stop() // under the lock: nothing begins after it
	m.mu.Unlock()
	m.running.Wait()
}
