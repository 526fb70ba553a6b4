package cache

import (
	"context"
	"slices"
	"sync"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/xorb"
)

// fetches are the packed chunks that are on their way, being unpacked, or waiting for
// the reader they were fetched ahead for. A reader that needs some of them takes part
// in the fetch instead of asking the origin again.
type fetches struct {
	mu     sync.Mutex
	byXorb map[codec.Hash][]*fetch // guarded by mu
	going  sync.WaitGroup          // fetches in goroutines of their own
}

// A fetch is one request for consecutive chunks of a xorb. It lives until its last
// user has released it.
type fetch struct {
	xorb   codec.Hash
	chunks codec.ChunkRange
	cancel context.CancelFunc // ends the request when nobody wants it any more; may be nil

	done chan struct{} // closed once run, err and buf are final
	run  *xorb.Run
	err  error
	buf  *buffer // what run lies in, if it is ours

	users int   // guarded by fetches.mu
	ahead *hold // of the stream it was fetched ahead for, or nil; guarded by fetches.mu
}

// A part is the chunks of a fetch that one reader needs.
type part struct {
	*fetch
	sub codec.ChunkRange
	own bool // the reader that asked is the one to run the fetch
}

func (f *fetches) init() { f.byXorb = map[codec.Hash][]*fetch{} }

// maxFetch is the most chunks of one request: at most 8 MiB unpacked.
const maxFetch = 64

// join returns the fetches that together give the chunks of want, in order. Those that
// are new are marked own, and the caller runs them. Each part must be released.
func (f *fetches) join(parts []part, x codec.Hash, want codec.ChunkRange) []part {
	f.mu.Lock()
	defer f.mu.Unlock()
	for at := want.Start; at < want.End; {
		there, next := f.findLocked(x, at)
		own := there == nil
		if own {
			end := min(want.End, next, at+maxFetch)
			there = &fetch{xorb: x, chunks: codec.ChunkRange{Start: at, End: end}, done: make(chan struct{})}
			f.byXorb[x] = append(f.byXorb[x], there)
		}
		there.users++
		sub := codec.ChunkRange{Start: at, End: min(want.End, there.chunks.End)}
		parts = append(parts, part{there, sub, own})
		at = sub.End
	}
	return parts
}

// findLocked returns the fetch that has chunk i, or else where the next one begins.
func (f *fetches) findLocked(x codec.Hash, i uint32) (there *fetch, next uint32) {
	next = codec.MaxXorbChunks
	for _, there := range f.byXorb[x] {
		switch c := there.chunks; {
		case c.Start <= i && i < c.End:
			return there, 0
		case c.Start > i:
			next = min(next, c.Start)
		}
	}
	return nil, max(next, i+1)
}

// release ends the use of a part. The last user's release gives the memory back.
func (f *fetches) release(p part) {
	f.mu.Lock()
	h := p.ahead
	if h != nil && p.sub.End == p.chunks.End {
		// A stream has come to the end of what was fetched ahead for it.
		p.fetch.ahead = nil
		p.users--
	} else {
		h = nil
	}
	last := f.leaveLocked(p.fetch)
	f.mu.Unlock()
	if last {
		p.fetch.end()
	}
	if h != nil {
		h.passed()
	}
}

// leaveLocked takes one user away and says whether it was the last.
func (f *fetches) leaveLocked(there *fetch) bool {
	there.users--
	if there.users > 0 {
		return false
	}
	f.forgetLocked(there)
	return true
}

// forgetLocked makes sure that nobody else joins a fetch.
func (f *fetches) forgetLocked(there *fetch) {
	all := f.byXorb[there.xorb]
	i := slices.Index(all, there)
	if i < 0 {
		return
	}
	if len(all) == 1 {
		delete(f.byXorb, there.xorb)
		return
	}
	f.byXorb[there.xorb] = slices.Delete(all, i, i+1)
}

// end is called when nobody uses the fetch any more.
func (there *fetch) end() {
	if there.cancel != nil {
		there.cancel()
	}
	select {
	case <-there.done:
		there.buf.free()
	default: // still going; its buffer goes to the collector
	}
}

// finish makes the result of a fetch known. A failure is for those who wait, not for
// those who come later.
func (f *fetches) finish(there *fetch, run *xorb.Run, buf *buffer, err error) {
	there.run, there.buf, there.err = run, buf, err
	close(there.done)
	if err != nil {
		f.mu.Lock()
		f.forgetLocked(there)
		f.mu.Unlock()
	}
}

// wait returns when the part is there.
func (p part) wait(ctx context.Context) (*xorb.Run, error) {
	select {
	case <-p.done:
		return p.run, p.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// close waits for the fetches that go on in the background.
func (f *fetches) close() {
	f.mu.Lock()
	for _, all := range f.byXorb {
		for _, there := range all {
			if there.cancel != nil {
				there.cancel()
			}
		}
	}
	f.mu.Unlock()
	f.going.Wait()
}

// run asks the origin for the chunks of a fetch that the caller owns. A near origin is
// asked here and now; a far one in a goroutine, because the fetch may outlive the
// reader that began it.
func (c *Cache) run(ctx context.Context, there *fetch) {
	c.stats.misses.Add(int64(there.chunks.Len()))
	if c.near {
		run, buf, err := c.ask(context.WithoutCancel(ctx), there)
		c.fetches.finish(there, run, buf, err)
		return
	}
	ctx, there.cancel = context.WithCancel(context.WithoutCancel(ctx))
	c.fetches.going.Go(func() {
		run, buf, err := c.ask(ctx, there)
		c.fetches.finish(there, run, buf, err)
	})
}

// ask is one request to the origin.
func (c *Cache) ask(ctx context.Context, there *fetch) (run *xorb.Run, buf *buffer, err error) {
	defer guard(&err)
	if c.borrow == nil {
		run, err = c.src.Chunks(ctx, there.xorb, there.chunks)
	} else {
		run, err = c.borrow.ChunksIn(ctx, there.xorb, there.chunks, func(n int) []byte {
			buf = newBuffer(n)
			return buf.b
		})
	}
	if err != nil {
		return nil, nil, err
	}
	return c.trusted(run), buf, nil
}
