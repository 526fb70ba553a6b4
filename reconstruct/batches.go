package reconstruct

import (
	"context"
	"sync"

	"github.com/xetfs/xetfs/cache"
	"github.com/xetfs/xetfs/codec"
)

// batchesAhead is how many batches of a far file are on their way at once while it is read
// from its beginning to its end: up to 4 MiB each.
const batchesAhead = 8

// A batch is some chunks of a term that follow each other.
type batch struct {
	term   int
	xorb   codec.Hash
	chunks codec.ChunkRange
}

// batchAt returns the batch of a file that begins with a chunk of a term, counted from its
// first.
func (f *File) batchAt(term int, chunk uint32) batch {
	t := f.info.Terms[term]
	first := t.Chunks.Start + chunk
	return batch{term, t.Xorb, codec.ChunkRange{Start: first, End: min(t.Chunks.End, first+batchChunks)}}
}

// after returns the batch behind b; false if there is none.
func (f *File) after(b batch) (batch, bool) {
	t := f.info.Terms[b.term]
	switch {
	case b.chunks.End < t.Chunks.End:
		return f.batchAt(b.term, b.chunks.End-t.Chunks.Start), true
	case b.term+1 < len(f.info.Terms):
		return f.batchAt(b.term+1, 0), true
	}
	return batch{}, false
}

// batches fetches the batches of a far file before they are asked for. It is for one
// reader, who asks for them in order. Near by it fetches what is asked for.
type batches struct {
	f      *File
	ctx    context.Context // of the fetches
	cancel context.CancelFunc
	going  sync.WaitGroup
	queue  []*fetching // in order
	last   *cache.Run  // that was given out; nil: none
}

// A fetching is a batch on its way.
type fetching struct {
	batch
	done chan struct{} // closed once run and err are final
	run  *cache.Run
	err  error
}

func newBatches(ctx context.Context, f *File) *batches {
	b := &batches{f: f}
	b.ctx, b.cancel = context.WithCancel(ctx)
	return b
}

// get returns a batch, which must be the first or follow the last one.
func (b *batches) get(want batch) (*cache.Run, error) {
	if b.f.r.c.Near() {
		return b.f.r.c.Run(b.ctx, want.xorb, want.chunks)
	}
	if len(b.queue) == 0 {
		b.begin(want)
	}
	for len(b.queue) < batchesAhead {
		next, ok := b.f.after(b.queue[len(b.queue)-1].batch)
		if !ok {
			break
		}
		b.begin(next)
	}
	first := b.queue[0]
	b.queue = b.queue[1:]
	select {
	case <-first.done:
		b.last = first.run
		return first.run, first.err
	case <-b.ctx.Done():
		b.queue = append(b.queue, first) // for close
		return nil, b.ctx.Err()
	}
}

func (b *batches) begin(next batch) {
	f := &fetching{batch: next, done: make(chan struct{})}
	b.queue = append(b.queue, f)
	b.going.Go(func() {
		defer close(f.done)
		defer guard(&f.err)
		f.run, f.err = b.f.r.c.Run(b.ctx, f.xorb, f.chunks)
	})
}

// close ends what is on its way. What has come of it, and nobody has read, goes to the disk.
func (b *batches) close() {
	b.cancel()
	b.going.Wait()
	b.keep(b.last)
	for _, f := range b.queue {
		b.keep(f.run)
	}
	b.last, b.queue = nil, nil
}

func (b *batches) keep(run *cache.Run) {
	if run != nil {
		run.Keep()
	}
}
