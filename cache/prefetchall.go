package cache

import (
	"context"
	"sync/atomic"

	"github.com/xetfs/xetfs/codec"
)

// maxPlanned is how many requests of plans run at once, for all streams. It is a third of what
// the origin may get at once, so the request of a waiting reader never queues behind a plan.
const maxPlanned = 16

// chunkOverhead is added to the estimated size of a planned chunk: its header, and a part of the
// size class of its buffer.
const chunkOverhead = 1 << 10

// PrefetchAll requests the chunks of a plan, which will soon be read in any order. It waits for
// earlier requests of plans, but not for its own last ones. It skips chunks that are in memory or
// on disk, and chunks for which the budget has no room. It returns early when ctx ends. Chunks of
// a plan are dropped when chunks of the third plan after it are requested or read.
func (a *Readahead) PrefetchAll(ctx context.Context, p *Plan) {
	run := &planRun{a: a, seq: a.startPlan(), freed: make(chan struct{}, 1)}
	for _, q := range a.c.requests(p, (*plannedChunks).readaheadGap) {
		each := min(maxPacked, q.Bytes/int64(q.Chunks.Len())+chunkOverhead)
		ok := a.eachMissing(q.Xorb, q.Chunks, each, func(r codec.ChunkRange, seen int64) (done, ok bool) {
			return run.fetch(ctx, q.Xorb, r, seen, each)
		})
		if !ok {
			return
		}
	}
}

// startPlan returns the number of a new plan, and drops what older plans have left.
func (a *Readahead) startPlan() int64 {
	b := &a.c.budget
	b.mu.Lock()
	a.count++
	seq, behind := a.count, a.behindLocked(a.count)
	b.mu.Unlock()
	for _, other := range behind {
		other.drop()
	}
	return seq
}

// A planRun is one call of PrefetchAll.
type planRun struct {
	a       *Readahead
	seq     int64
	running atomic.Int64  // ranges in transfer
	freed   chan struct{} // signals the end of one of them
}

// fetch prefetches one range as soon as a slot is free. Chunks take less of the budget once they
// have arrived, so without room it waits for the other ranges of the plan. It returns ok = false
// when ctx ends.
func (run *planRun) fetch(ctx context.Context, x codec.Hash, r codec.ChunkRange, seen, each int64) (done, ok bool) {
	slots := run.a.c.planSlots
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return false, false
	}
	ended := func() {
		<-slots
		run.running.Add(-1)
		select {
		case run.freed <- struct{}{}:
		default:
		}
	}
	for {
		others := run.running.Add(1) - 1
		done, hasRoom := run.a.fetch(x, r, seen, prefetch{each: each, seq: run.seq, onEnd: ended})
		if hasRoom {
			return done, true
		}
		run.running.Add(-1)
		if others == 0 {
			<-slots
			return true, true // its reader requests it
		}
		select {
		case <-run.freed:
		case <-ctx.Done():
			<-slots
			return false, false
		}
	}
}
