package reconstruct

import (
	"cmp"
	"context"
	"sync"

	"github.com/xetfs/xetfs/cache"
	"github.com/xetfs/xetfs/cache/flight"
	"github.com/xetfs/xetfs/codec"
)

// A sequential read always fetches some batches at once. A remote one fetches more if Options.Ahead
// allows it. A disk reads while the batches before are unpacked.
const (
	localBatches  = 4
	remoteBatches = 8
	maxBatches    = 64
)

// A batch is consecutive chunks of a term.
type batch struct {
	g      *group
	term   int // of g
	xorb   codec.Hash
	chunks codec.ChunkRange
}

// first returns the first batch of a file, which is not empty.
func (f *File) first(ctx context.Context) (batch, error) {
	g, err := f.group(ctx, 0)
	if err != nil {
		return batch{}, err
	}
	return g.batchAt(0, 0), nil
}

// batchAt returns the batch that starts with a chunk of a term, counted from its first.
func (g *group) batchAt(term int, chunk uint32) batch {
	t := g.layout.terms[term]
	first := t.Chunks.Start + chunk
	return batch{g, term, t.Xorb, codec.ChunkRange{Start: first, End: min(t.Chunks.End, first+batchChunks)}}
}

// packed returns the packed bytes of b, or about its unpacked bytes if they are not known.
func (b batch) packed() int64 {
	t := b.of()
	known := b.g.file.r.c.PackedSize(b.xorb, b.chunks)
	return cmp.Or(known, int64(t.Size)*int64(b.chunks.Len())/int64(t.Chunks.Len()))
}

// of returns the term that b is of.
func (b batch) of() codec.Term { return b.g.layout.terms[b.term] }

// ends reports whether b has the last chunks of its term.
func (b batch) ends() bool { return b.chunks.End == b.of().Chunks.End }

// next returns the batch behind b; false at the end.
func (b batch) next(ctx context.Context) (batch, bool, error) {
	f := b.g.file
	switch {
	case !b.ends():
		return b.g.batchAt(b.term, b.chunks.End-b.of().Chunks.Start), true, nil
	case b.term+1 < len(b.g.layout.terms):
		return b.g.batchAt(b.term+1, 0), true, nil
	case b.g.index+1 == f.groups():
		return batch{}, false, nil
	}
	g, err := f.group(ctx, b.g.index+1)
	if err != nil {
		return batch{}, false, err
	}
	return g.batchAt(0, 0), true, nil
}

// batches fetches the batches of a file ahead of one reader, which gets them in order.
type batches struct {
	f       *File
	ctx     context.Context // of the fetches
	cancel  context.CancelFunc
	running sync.WaitGroup
	queue   []*batchFetch // in order
	always  int           // batches that need no part of Reader.ahead
	most    int           // batches at once
	last    *cache.Run    // that was returned; nil: none
	run     runFunc
	waits   bool // see cache.Run.WaitForDisk
}

// A runFunc fetches chunks, as Cache.Run.
type runFunc func(ctx context.Context, x codec.Hash, r codec.ChunkRange) (*cache.Run, error)

// A batchFetch is a batch in the queue. Batches with the same chunks share a fetch.
type batchFetch struct {
	batch
	ahead int64 // bytes of Reader.ahead that it holds
	*runFetch
}

// A runFetch is the result of a runFunc.
type runFetch struct {
	done chan struct{} // closed once run and err are final
	run  *cache.Run
	err  error
}

func newBatches(ctx context.Context, f *File) *batches {
	b := &batches{f: f, run: f.r.c.Run, always: remoteBatches, most: maxBatches}
	if !f.gated && !f.isProven() && (f.hadHandle.Load() || !f.tracker.isEmpty()) {
		b.run = f.r.c.RunKnown // wrong chunks would end the use of the file for its readers
	}
	if f.r.c.Local() {
		b.always, b.most = localBatches, localBatches
	}
	b.ctx, b.cancel = context.WithCancel(ctx)
	return b
}

// get returns a batch, which must be the first or follow the last one.
func (b *batches) get(want batch) (*cache.Run, error) {
	if len(b.queue) == 0 {
		b.begin(want, 0)
	}
	for len(b.queue) < b.most {
		next, ok, err := b.queue[len(b.queue)-1].next(b.ctx)
		if !ok || err != nil {
			break // the reader gets the error at that batch
		}
		ahead := int64(0)
		if len(b.queue) >= b.always {
			if ahead = next.packed(); !b.f.r.ahead.TryAcquire(ahead) {
				break
			}
		}
		b.begin(next, ahead)
	}
	first := b.queue[0]
	b.queue = b.queue[1:]
	b.release(first)
	select {
	case <-first.done:
		b.last = first.run
		return first.run, first.err
	case <-b.ctx.Done():
		b.queue = append(b.queue, first) // for close
		return nil, b.ctx.Err()
	}
}

func (b *batches) begin(next batch, ahead int64) {
	f := b.sameFetch(next)
	if f == nil {
		f = &runFetch{done: make(chan struct{})}
		b.running.Go(func() {
			defer close(f.done)
			defer flight.Guard(&f.err)
			if f.run, f.err = b.run(b.ctx, next.xorb, next.chunks); f.err == nil && b.waits {
				f.run.WaitForDisk()
			}
		})
	}
	b.queue = append(b.queue, &batchFetch{batch: next, ahead: ahead, runFetch: f})
}

// sameFetch returns the fetch of the same chunks in the queue, or nil. A file with a hole repeats one chunk
// hundreds of times. Runs of a local source are read once, because their memory is used again.
func (b *batches) sameFetch(next batch) *runFetch {
	if b.f.r.c.Local() {
		return nil
	}
	for _, f := range b.queue {
		if f.xorb == next.xorb && f.chunks == next.chunks {
			return f.runFetch
		}
	}
	return nil
}

// close cancels the running fetches. Chunks that have arrived and were not read go to the disk.
func (b *batches) close() {
	b.cancel()
	b.running.Wait()
	b.store(b.last)
	for _, f := range b.queue {
		b.release(f)
		b.store(f.run)
	}
	b.last, b.queue = nil, nil
}

// restart is close, after which get may begin with any batch.
func (b *batches) restart(ctx context.Context) {
	b.close()
	b.ctx, b.cancel = context.WithCancel(ctx)
}

// release returns the part of Reader.ahead of a batch.
func (b *batches) release(f *batchFetch) {
	b.f.r.ahead.Release(f.ahead)
	f.ahead = 0
}

func (b *batches) store(run *cache.Run) {
	if run != nil {
		run.Store()
	}
}
