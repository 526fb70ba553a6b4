package reconstruct

import (
	"context"
	"slices"
	"sync"

	"github.com/xetfs/xetfs/cache"
	"github.com/xetfs/xetfs/cache/flight"
	"github.com/xetfs/xetfs/codec"
)

// A Handle is a reader of one File that watches how it is read and fetches ahead. One
// open file descriptor is one Handle. Several streams of reads may run in it at once:
// loaders of model weights map a file and read it from many places, so the reads of a
// handle interleave a dozen sequential streams and look random to whoever remembers
// one offset. Each stream is followed by its place.
//
// A Handle is safe for concurrent use.
type Handle struct {
	f     *File
	ctx   context.Context // ended by Close
	close context.CancelFunc

	mu          sync.Mutex
	streams     []*stream // oldest use first; guarded by mu
	prefetching sync.WaitGroup
}

const (
	// maxStreams is how many places of a file are followed in one handle.
	maxStreams = 32

	// slack is how far from where a stream was expected a read may begin and still
	// continue it: the kernel's reads of one stream overtake each other, and readers
	// skip what they do not want.
	slack = 1 << 20

	// firstSlack is the same for the second read of a stream. It is small, or every
	// random read would continue one of the streams that random reads have begun.
	firstSlack = 64 << 10

	// growthLimit is how many times as much as a stream has read may be asked for ahead of it.
	// What is on its way together shares the link, so a window that is opened too far at
	// once makes the first reads of a stream wait for bytes that come much later.
	growthLimit = 6

	// refill is how much of a window, or a quarter of a small one, must be missing before
	// more is asked for: few large requests bring what comes first sooner than many small
	// ones.
	refill = 2 << 20

	// justRead is how much of what a stream has read may not show in memory yet.
	justRead = 512 << 10
)

// A stream is a row of reads that follow each other.
type stream struct {
	start      int64 // where the first read began
	next       int64 // where the next read is expected
	prefetched int64 // up to here chunks were asked for ahead
	window     int64 // bytes to keep asked for beyond next; 0 while it may be chance
	readahead  *cache.Readahead
	busy       bool // somebody is asking ahead for it
}

// Handle returns a new Handle of f.
func (f *File) Handle() *Handle {
	h := &Handle{f: f}
	h.ctx, h.close = context.WithCancel(context.Background())
	f.r.materializer.opened(f)
	return h
}

// File returns what h reads.
func (h *Handle) File() *File { return h.f }

// ReadAt is File.ReadAt, and fetches ahead beside it.
func (h *Handle) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	if !h.f.r.c.Near() && !h.f.r.c.HasFile(h.f.id.File) {
		h.track(off, int64(len(p)))
	}
	return h.f.ReadAt(ctx, p, off)
}

// Close stops fetching ahead and drops what was fetched and not read.
func (h *Handle) Close() error {
	h.mu.Lock()
	h.close() // under the lock: nobody begins to ask after it
	h.mu.Unlock()
	h.prefetching.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.streams {
		s.readahead.Close()
	}
	h.streams = nil
	return nil
}

// track finds the stream that a read of n bytes at off continues, and has it ask for
// what comes next. It does not wait.
func (h *Handle) track(off, n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ctx.Err() != nil {
		return
	}
	s := h.streamLocked(off, n)
	if s.window == 0 || s.busy || s.prefetched >= min(h.f.Size(), s.next+max(s.window*3/4, s.window-refill)) {
		return
	}
	s.busy = true
	h.prefetching.Go(func() { h.prefetch(s) })
}

// streamLocked returns the stream that the read belongs to, moved on by it.
func (h *Handle) streamLocked(off, n int64) *stream {
	if i := h.findLocked(off, n); i >= 0 {
		s := h.streams[i]
		s.move(off, n, h.f.r.window)
		h.streams = append(slices.Delete(h.streams, i, i+1), s)
		return s
	}
	s := &stream{start: off, next: off + n, prefetched: off + n, readahead: h.f.r.c.NewReadahead()}
	if len(h.streams) == maxStreams {
		h.streams[0].readahead.Close()
		h.streams = slices.Delete(h.streams, 0, 1)
	}
	h.streams = append(h.streams, s)
	return s
}

// findLocked returns the stream that is continued by a read of n bytes at off, or -1:
// the nearest of those that have shown that they are streams or else of the others.
func (h *Handle) findLocked(off, n int64) int {
	best, least := -1, int64(0)
	for i, s := range h.streams {
		gap := off - s.next
		distance := max(gap, -gap)
		switch {
		case s.window > 0 && distance <= slack:
		case s.window == 0 && 0 <= gap && gap <= min(n, firstSlack):
			distance += slack + 1
		default:
			continue
		}
		if best < 0 || distance <= least {
			best, least = i, distance
		}
	}
	return best
}

// move takes account of a read of n bytes at off. The window doubles as long as reads
// follow each other, up to most, but not beyond what the stream has earned. Each time the
// stream jumps it shrinks, in the end to nothing.
func (s *stream) move(off, n, most int64) {
	end, gap := off+n, off-s.next
	if end <= s.next {
		return // overtaken by what came after it
	}
	s.next = end
	s.prefetched = max(s.prefetched, end)
	if gap <= max(2*n, 2*firstSlack) {
		s.window = min(max(2*s.window, n), growthLimit*(end-s.start), most)
	} else if s.window /= 2; s.window < n {
		s.window = 0
	}
}

// prefetchStep is how much of a window is asked for in one go: the window may be gone
// before all of it is needed.
const prefetchStep = 4 << 20

// prefetch asks for what a stream will read next, until its window is full.
func (h *Handle) prefetch(s *stream) {
	var err error
	defer flight.Guard(&err)
	for {
		h.mu.Lock()
		from, end := s.prefetched, min(h.f.Size(), s.next+s.window)
		if from >= end || h.ctx.Err() != nil {
			s.busy = false
			h.mu.Unlock()
			return
		}
		from, end = h.unreadLocked(s, from, min(end, from+prefetchStep))
		s.prefetched = end
		h.mu.Unlock()
		if h.prefetchRange(s, from, end-from) {
			continue
		}
		h.mu.Lock()
		s.prefetched = min(s.prefetched, from) // no room: the next read tries again
		s.busy = false
		h.mu.Unlock()
		return
	}
}

// unreadLocked returns what of [from, end) to ask for first, maybe nothing: not what another
// stream has read a moment ago, which is on its way into memory and does not show there yet.
func (h *Handle) unreadLocked(s *stream, from, end int64) (int64, int64) {
	for _, other := range h.streams {
		if other == s || other.window == 0 {
			continue
		}
		switch read := max(other.start, other.next-justRead); {
		case read <= from && from < other.next:
			from = min(end, other.next)
		case from < read && read < end:
			end = read
		}
	}
	return from, end
}

// prefetchRange asks for the chunks of n bytes from off on.
func (h *Handle) prefetchRange(s *stream, off, n int64) bool {
	for n > 0 {
		g, err := h.f.group(h.ctx, h.f.groupAt(off))
		if err != nil {
			return true // a reader of it gets the error
		}
		part := min(n, g.layout.size()-off)
		if !h.prefetchGroup(g, s, off, part) {
			return false
		}
		off, n = off+part, n-part
	}
	return true
}

// prefetchGroup is want for bytes of one group.
func (h *Handle) prefetchGroup(g *group, s *stream, off, n int64) bool {
	var last codec.Term
	first, end := g.layout.overlapping(off, n)
	for i := first; i < end && h.ctx.Err() == nil; i++ {
		t := g.layout.terms[i]
		r, _, err := h.f.r.c.Narrow(h.ctx, h.f.id, t, g.layout.piece(i, off, n))
		if err != nil {
			return true // whoever reads it will say so
		}
		if t.Xorb == last.Xorb && r == last.Chunks {
			continue // one chunk over and over
		}
		last = codec.Term{Xorb: t.Xorb, Chunks: r}
		if !s.readahead.Prefetch(t.Xorb, r) {
			return false
		}
	}
	return true
}
