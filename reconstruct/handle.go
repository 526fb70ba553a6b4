package reconstruct

import (
	"context"
	"slices"
	"sync"

	"github.com/xetfs/xetfs/cache"
	"github.com/xetfs/xetfs/cache/flight"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
)

// A Handle is a reader of one File with readahead. Each open file descriptor has one Handle.
// Several streams of reads may run in it at once. Loaders of model weights map a file and read
// it from many places, so their reads look random. The Handle therefore tracks each stream by
// its place.
//
// A Handle is safe for concurrent use.
type Handle struct {
	f     *File
	ctx   context.Context // ended by Close
	close context.CancelFunc

	release func() // ends the hold of a plan; nil: the file is proven

	mu          sync.Mutex
	streams     []*stream // least recently used first; guarded by mu
	prefetching sync.WaitGroup
}

const (
	// maxStreams is how many streams are tracked in one handle.
	maxStreams = 32

	// slack is how far from the expected offset a read may start and still continue a stream.
	// The kernel reorders the reads of a stream, and readers skip data. A read that began a stream
	// of its own would request chunks again. Streams of one loader may be 2 MiB apart.
	slack = 3 << 19

	// firstSlack is the slack of the second read of a stream. It is small, or random reads
	// would continue the streams of other random reads.
	firstSlack = 64 << 10

	// growthLimit bounds the prefetched bytes of a stream, as a multiple of the bytes it has
	// read. Concurrent fetches share the link. A window that grows too fast delays the next
	// reads of the stream.
	growthLimit = 6

	// smallWindow is the limit of windows that double with each read. A larger window grows by twice
	// the bytes read. The reads of a step that arrives at once would double it several times. A
	// stream that is ahead would then take the link from the others.
	smallWindow = 2 * origin.ReadaheadStep

	// maxWiden bounds the window of packed data, as a multiple of that of other data. The requests
	// of one stream take a third of what the origin may get at once.
	maxWiden = 2

	// justRead is how many bytes that a stream has read last may not be visible in memory yet.
	justRead = 1 << 20
)

// A stream is a sequence of reads.
type stream struct {
	start      int64 // of the first read
	next       int64 // expected offset of the next read
	prefetched int64 // end of the prefetched range
	window     int64 // bytes to prefetch beyond next; 0 while the reads may be random
	maxWindow  int64 // limit of window
	readahead  *cache.Readahead
	busy       bool // a prefetch runs
}

// Handle returns a new Handle of f, or of the file that has replaced f since its open.
func (f *File) Handle() *Handle {
	h := &Handle{f: f}
	h.ctx, h.close = context.WithCancel(context.Background())
	if f.tracker != nil {
		plan := f.r.c.Hold(f.id)
		var file func()
		h.f, file = f.r.open.hold(f)
		h.release = func() { plan(); file() }
	}
	f.r.materializer.opened(h.f)
	return h
}

// KeepsPages reports whether the kernel may keep its pages of inode ino. They may be wrong if their
// bytes were not proven, and another File returned them. So the first call for an inode returns false,
// unless every File with this ID is gated. Each open calls it once.
func (h *Handle) KeepsPages(ino uint64) bool {
	f := h.f
	if f.tracker == nil {
		return true
	}
	_, known := f.inodes.LoadOrStore(ino, nil)
	return known || (f.r.strict || f.size <= smallFile) && !f.r.isSuspect(f.id)
}

// NeedsProof is File.NeedsProof.
func (h *Handle) NeedsProof() bool { return h.f.NeedsProof() }

// File returns the file of h.
func (h *Handle) File() *File { return h.f }

// ReadAt is File.ReadAt with readahead.
func (h *Handle) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	if !h.f.r.c.Local() && !h.f.r.c.HasFile(h.f.id.File) && !h.NeedsProof() && !h.f.isSmallInMemory() {
		h.track(off, int64(len(p)))
	}
	return h.f.ReadAt(ctx, p, off)
}

// Close stops readahead and drops chunks that were fetched and not read.
func (h *Handle) Close() error {
	h.mu.Lock()
	h.close() // under the lock: no prefetch starts after it
	h.mu.Unlock()
	h.prefetching.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.streams {
		s.readahead.Close()
	}
	h.streams = nil
	if h.release != nil {
		h.release()
		h.release = nil
	}
	return nil
}

// track finds the stream of a read of n bytes at off, and starts its next prefetch. It does not
// wait.
func (h *Handle) track(off, n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ctx.Err() != nil {
		return
	}
	s := h.streamLocked(off, n)
	if s.busy || s.goal(h.f.Size()) <= s.prefetched {
		return
	}
	s.busy = true
	h.prefetching.Go(func() { h.prefetch(s) })
}

// streamLocked returns the stream of a read, advanced by the read.
func (h *Handle) streamLocked(off, n int64) *stream {
	if i := h.findLocked(off, n); i >= 0 {
		s := h.streams[i]
		s.move(off, n)
		h.streams = append(slices.Delete(h.streams, i, i+1), s)
		return s
	}
	s := &stream{start: off, next: off + n, prefetched: off + n, maxWindow: h.f.r.window, readahead: h.f.r.c.NewReadahead()}
	if len(h.streams) == maxStreams {
		h.streams[0].readahead.Close()
		h.streams = slices.Delete(h.streams, 0, 1)
	}
	h.streams = append(h.streams, s)
	return s
}

// findLocked returns the stream that a read of n bytes at off continues, or -1. It prefers the
// nearest established stream, then the nearest other one.
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

// move records a read of n bytes at off. The window grows with each consecutive read, up to
// s.maxWindow and to growthLimit. Each jump halves the window, in the end to zero.
func (s *stream) move(off, n int64) {
	end, gap := off+n, off-s.next
	if end <= s.next {
		return // a later read was faster
	}
	s.next = end
	s.prefetched = max(s.prefetched, end)
	if gap <= max(2*n, 2*firstSlack) {
		s.window = min(s.grown(n), growthLimit*(end-s.start), s.maxWindow)
	} else if s.window /= 2; s.window < n {
		s.window = 0
	}
}

// grown returns the window after a consecutive read of n bytes.
func (s *stream) grown(n int64) int64 {
	if s.window < smallWindow {
		return max(2*s.window, n)
	}
	return s.window + 2*n
}

// goal returns the end of the bytes to prefetch in a file of a size. It is s.prefetched if little
// is missing: a few large requests return the first bytes sooner than many small ones.
func (s *stream) goal(size int64) int64 {
	end := s.next + s.window
	switch {
	case s.window == 0:
		return s.prefetched
	case end >= size:
		return size
	case s.window >= 2*origin.ReadaheadStep:
		return max(s.prefetched, end-end%origin.ReadaheadStep)
	case s.prefetched >= s.next+s.window*3/4:
		return s.prefetched
	}
	return end
}

// prefetch requests the next chunks of a stream until its window is full.
func (h *Handle) prefetch(s *stream) {
	var err error
	defer flight.Guard(&err)
	for {
		h.mu.Lock()
		from, end := s.prefetched, s.goal(h.f.Size())
		if from >= end || h.ctx.Err() != nil {
			s.busy = false
			h.mu.Unlock()
			return
		}
		from, end = h.unreadLocked(s, from, min(end, from-from%origin.ReadaheadStep+origin.ReadaheadStep))
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

// unreadLocked returns the first part of [from, end) that no other stream has just read, maybe
// nothing. Chunks of such reads are not visible in memory yet.
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

// prefetchRange requests the chunks of n bytes from off on.
func (h *Handle) prefetchRange(s *stream, off, n int64) bool {
	f := h.f.current()
	for n > 0 {
		g, err := f.group(h.ctx, f.groupAt(off))
		if err != nil {
			return true // a reader gets the error
		}
		part := min(n, g.layout.size()-off)
		if !h.prefetchGroup(g, s, off, part) {
			return false
		}
		off, n = off+part, n-part
	}
	return true
}

// prefetchGroup is prefetchRange for bytes of one group.
func (h *Handle) prefetchGroup(g *group, s *stream, off, n int64) bool {
	var last codec.Term
	first, end := g.layout.overlapping(off, n)
	for i := first; i < end && h.ctx.Err() == nil; i++ {
		t := g.layout.terms[i]
		piece := g.layout.piece(i, off, n)
		r, _, err := h.f.r.c.Narrow(h.ctx, h.f.id, t, piece)
		if err != nil {
			return true // a reader gets the error
		}
		if t.Xorb == last.Xorb && r == last.Chunks {
			continue // the same chunk repeatedly
		}
		last = codec.Term{Xorb: t.Xorb, Chunks: r}
		packed := h.f.r.c.PackedSize(t.Xorb, r)
		h.limitWindow(s, piece.Size, packed)
		if packed == 0 {
			packed = bytesOf(t, r, piece)
		}
		if !s.readahead.Prefetch(t.Xorb, r, packed) {
			return false
		}
	}
	return true
}

// limitWindow sets the limit of the window of a stream, which is in unpacked bytes. The next size
// bytes have packed bytes in the store; 0: unknown. All streams of the mount together read ahead at
// most twice the window of one, or a step each. With larger windows, a stream that is ahead would
// request the rest of its file before the others get their share of the link.
func (h *Handle) limitWindow(s *stream, size, packed int64) {
	share := max(min(h.f.r.window, origin.ReadaheadStep), 2*h.f.r.window/int64(max(2, s.readahead.Streams())))
	ratio := 1.0
	if packed > 0 {
		ratio = min(maxWiden, max(1, float64(size)/float64(packed)))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s.maxWindow = int64(float64(share) * ratio)
	s.window = min(s.window, s.maxWindow)
}

// bytesOf estimates the unpacked bytes of chunks r of a term, which have a piece. The chunks at the
// ends of the piece may have more bytes than it. Narrow may return more chunks, up to the term.
func bytesOf(t codec.Term, r codec.ChunkRange, piece codec.Piece) int64 {
	share := int64(t.Size) * int64(r.Len()) / int64(t.Chunks.Len())
	return max(share, min(int64(t.Size), piece.Size+2*codec.MaxChunkSize))
}
