package cas

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/xetfs/xetfs/cache/flight"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/xorb"
)

// Bounds of the bytes that are transferred for chunks whose places are not known.
const (
	smallSegment = 512 << 10 // any segment may be as large
	aheadChunks  = 64        // between known chunks and requested ones that a segment reads through
	segmentSlack = 128 << 10 // of an estimated end
	segmentStep  = 2 << 20   // least part of a large range; maxLocate of them are more than a xorb
)

// Chunks implements Source. If the places of the chunks are unknown, it transfers more.
func (c *Client) Chunks(ctx context.Context, x codec.Hash, r codec.ChunkRange, o origin.ReadOptions) (*xorb.Run, error) {
	if r.Start >= r.End || r.End > codec.MaxXorbChunks {
		return nil, fmt.Errorf("xorb %s: %w", x, codec.Corrupt("xorb", 0, "it cannot have chunks %v", r))
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	run, err := c.chunks(ctx, x, r, o)
	if err != nil {
		return nil, fmt.Errorf("xorb %s: %w", x, err)
	}
	return c.hashes.Annotate(x, run)
}

// maxLocate bounds how often the chunks of one call are searched again. A search may join a segment
// of another call that the server then refuses as a part. Many calls that begin at once have several
// such segments.
const maxLocate = 64

func (c *Client) chunks(ctx context.Context, x codec.Hash, r codec.ChunkRange, o origin.ReadOptions) (*xorb.Run, error) {
	var err error
	var done search
	o.OnPartial = growing(o.OnPartial)
	for range maxLocate {
		var run *xorb.Run
		if run, err = c.tryChunks(ctx, x, r, o, &done); !retryable(err) || ctx.Err() != nil {
			return run, err
		}
	}
	return nil, fmt.Errorf("%w: %d searches for chunks %v: %w", origin.ErrUnavailable, maxLocate, r, err)
}

// growing returns onPartial without calls for fewer chunks than before. A transfer that begins again has those.
func growing(onPartial func(*xorb.Run)) func(*xorb.Run) {
	if onPartial == nil {
		return nil
	}
	end := uint32(0)
	return func(run *xorb.Run) {
		if run.Chunks.End > end {
			end = run.Chunks.End
			onPartial(run)
		}
	}
}

// tryChunks is one search. After errElsewhere more is known, and another search is useful. In this order,
// it
//
//   - reads the chunks from a transfer that has them,
//   - waits for a transfer that will show where they begin,
//   - divides them behind those that a complete transfer has,
//   - divides them by the signed ranges that have them,
//   - transfers exactly them,
//   - requests a plan with a smaller range,
//   - transfers a part of the signed range that has them.
func (c *Client) tryChunks(ctx context.Context, x codec.Hash, r codec.ChunkRange, o origin.ReadOptions, done *search) (*xorb.Run, error) {
	if s := c.joinSegment(x, r); s != nil {
		return c.read(ctx, s, r, o)
	}
	running, split := c.before(x, r)
	switch {
	case running != nil:
		_, err := c.awaitSegment(ctx, running, func() bool { return false })
		return nil, cmp.Or(err, errElsewhere)
	case split > r.Start:
		return c.inPieces(ctx, x, []codec.ChunkRange{{Start: r.Start, End: split}, {Start: split, End: r.End}}, o)
	}
	pl, ok, err := c.locate(ctx, x, r, done)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		pieces, err := c.pieces(ctx, x, r)
		if err != nil {
			return nil, err
		}
		return c.inPieces(ctx, x, pieces, o)
	}
	hasParts := c.servesParts(x, pl) // other calls may change it meanwhile
	in := c.within(x, r, pl, hasParts)
	if in.Chunks == r {
		return c.direct(ctx, x, pl, in, o)
	}
	if c.requestSmaller(ctx, x, r, in, hasParts, done) {
		return nil, errElsewhere
	}
	return c.read(ctx, c.startSegment(ctx, x, pl, newSegment(r, in, hasParts, c.o.SegmentBytes)), r, o)
}

// retryable reports whether another search may find the chunks.
func retryable(err error) bool {
	return errors.Is(err, errElsewhere) || errors.Is(err, errParts) || errors.Is(err, errRestart) || errors.Is(err, context.Canceled)
}

// joinSegment returns a segment that has chunks r, or will soon. Its user calls read.
func (c *Client) joinSegment(x codec.Hash, r codec.ChunkRange) *segment {
	start, end, known := c.places.span(x, r)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.segments[x] {
		if !s.isShared() {
			continue
		}
		isIn := s.mayHave(r)
		if known {
			isIn = s.start <= start && end <= s.end
		}
		if isIn {
			s.users++
			return s
		}
	}
	return nil
}

// before returns a running segment that will show where chunks r begin, or has the first of them. Else, split
// is the end of the first of these chunks that a complete segment has, or zero.
func (c *Client) before(x codec.Hash, r codec.ChunkRange) (running *segment, split uint32) {
	start, known := c.places.start(x, r.Start)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.segments[x] {
		if s.private || s.first == noChunk || s.first > r.Start {
			continue
		}
		s.mu.Lock()
		ended, end := s.ended, s.first+uint32(len(s.headers))
		s.mu.Unlock()
		switch {
		case !ended && r.Start <= s.about && r.End > s.about && !(known && start >= s.end):
			s.users++
			return s, 0
		case ended && r.Start < end && end < r.End:
			split = end
		}
	}
	return nil, split
}

// awaitSegment waits until a segment shows enough, or ends. It reports whether to look again. An error of
// the transfer is left to Chunks, because the next transfer would probably fail, too.
func (c *Client) awaitSegment(ctx context.Context, s *segment, enough func() bool) (again bool, err error) {
	defer c.leave(ctx, s, 0)
	for {
		s.mu.Lock()
		ended, failed, grown := s.ended, s.err != nil, s.grown
		s.mu.Unlock()
		if isEnough := enough(); isEnough || ended {
			return isEnough || !failed, nil
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// mayHave reports whether a segment has chunks r, or probably will.
func (s *segment) mayHave(r codec.ChunkRange) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	end := s.about
	if s.ended {
		end = s.first + uint32(len(s.headers))
	}
	return s.first != noChunk && s.first <= r.Start && r.End <= end
}

// A search records what one call has requested to find chunks.
type search struct {
	described int  // plans of the files in the index
	own       bool // the plan of one file
	pieces    int  // plans of about the chunks
}

// maxPieces bounds the plans of about the chunks of one call. Each shows more of the lengths.
const maxPieces = 4

// maxDescribed bounds the plans of files in the index for one call. A Forget may drop a plan before its use.
const maxDescribed = 3

// locate returns a signed range that has chunks r. If the range is in no plan in memory, it
// requests the plan of a file. ok = false: only several ranges have the chunks.
func (c *Client) locate(ctx context.Context, x codec.Hash, r codec.ChunkRange, done *search) (pl plannedRange, ok bool, err error) {
	for {
		c.mu.Lock()
		pl, ok := c.plans.findLocked(x, r)
		first, hasFirst := c.plans.findLocked(x, codec.ChunkRange{Start: r.Start, End: r.Start + 1})
		c.mu.Unlock()
		if ok {
			return pl, true, nil
		}
		if hasFirst && (done.described > 0 || first.Chunks.End < r.End && r.Len() > 1) {
			return pl, false, nil
		}
		if done.described == maxDescribed {
			return pl, false, codec.Corrupt(what, 0, "the plan of the file has no address for chunks %v", r)
		}
		done.described++
		if err := c.planDescribed(ctx, x, r.Start); err != nil {
			return pl, false, err
		}
	}
}

// planDescribed requests the plan of a term that has chunk i. The next file is tried after one that is
// gone.
func (c *Client) planDescribed(ctx context.Context, x codec.Hash, i uint32) error {
	err := fmt.Errorf("%w: no known file has chunk %d", origin.ErrNotFound, i)
	for range maxLocate {
		d, ok := c.describer(x, i)
		if !ok {
			return err
		}
		if err = c.planAround(ctx, x, d); !isGone(err) {
			return err
		}
	}
	return err
}

// planAround requests the plan of a term of a file. A file that is gone, or is in other xorbs now, leaves the
// index.
func (c *Client) planAround(ctx context.Context, x codec.Hash, d fileTerm) error {
	p, err := c.getPlan(ctx, query{file: d.file, off: d.off, n: int64(d.size)})
	if err == nil && !slices.ContainsFunc(p.terms, func(t codec.Term) bool { return t.Xorb == x }) {
		err = fmt.Errorf("%w: the new plan of file %s does not name it", origin.ErrNotFound, d.file)
	}
	if isGone(err) {
		c.updateIndex(func() { c.undescribeLocked(x, d.file) })
	}
	return err
}

// within returns the smallest range with known ends in a signed range that has chunks r. It is the
// signed range itself if the server serves no parts.
func (c *Client) within(x codec.Hash, r codec.ChunkRange, pl plannedRange, hasParts bool) FetchRange {
	if pl.Chunks == r || !hasParts {
		return pl.FetchRange
	}
	return c.places.around(x, r, pl.FetchRange)
}

// need estimates the packed bytes of chunks r in a range.
func (in FetchRange) need(chunks int) int64 {
	return (in.End - in.Start) * int64(chunks) / int64(in.Chunks.Len())
}

// withSlack is need with room for an estimate that is too low.
func (in FetchRange) withSlack(chunks int) int64 { return in.need(chunks)*5/4 + segmentSlack }

// requestSmaller requests a plan with a smaller range if the chunks are in a much larger one, and reports
// whether it did. The server trims the plan of one file to that file.
func (c *Client) requestSmaller(ctx context.Context, x codec.Hash, r codec.ChunkRange, in FetchRange, hasParts bool, done *search) bool {
	size := in.End - in.Start
	isNext := r.Start-in.Chunks.Start <= aheadChunks && hasParts
	if size <= max(smallSegment, 2*in.need(r.Len())) || isNext {
		return false
	}
	d, ok := c.describer(x, r.Start)
	switch {
	case !ok:
		return false
	case !done.own && d.chunks.Len() < in.Chunks.Len():
		done.own = true
		return c.planAround(ctx, x, d) == nil
	}
	return !hasParts && c.planChunks(ctx, x, r, in, d, done)
}

// planChunks requests a plan of about chunks r from a server that serves no parts. It does nothing if
// the whole range fits into the memory, unless r is a small part of known lengths.
func (c *Client) planChunks(ctx context.Context, x codec.Hash, r codec.ChunkRange, in FetchRange, d fileTerm, done *search) bool {
	if done.pieces == maxPieces || !d.chunks.Contains(r) {
		return false
	}
	t := codec.Term{Xorb: x, Chunks: d.chunks, Size: d.size}
	off, n, isExact := c.places.about(t, r)
	if size := in.End - in.Start; size <= c.o.SegmentBytes && (!isExact || size < 8*in.need(r.Len())) {
		return false
	}
	done.pieces++
	_, err := c.planPiece(ctx, codec.FileID{File: d.file}, t, codec.Piece{Skip: off, Off: d.off + off, Size: n})
	return err == nil
}

// newSegment returns the segment to transfer for chunks r. It is the whole range if most of that is
// needed: another call will share it. A segment of more than about limit bytes ends there, and further
// searches transfer the rest.
func newSegment(r codec.ChunkRange, in FetchRange, hasParts bool, limit int64) *segment {
	s := &segment{start: in.Start, end: in.End, first: in.Chunks.Start, about: in.Chunks.End}
	if !hasParts {
		return s
	}
	if n := in.withSlack(int(r.End - in.Chunks.Start)); 2*n < s.size() && r.Start-in.Chunks.Start <= aheadChunks {
		s.end, s.about = in.Start+n, r.End
	}
	if limit = max(limit, segmentStep, in.withSlack(r.Len())); s.size() > limit {
		s.end = in.Start + limit
		s.about = in.Chunks.Start + uint32(limit*int64(in.Chunks.Len())/(in.End-in.Start))
	}
	return s
}

// direct transfers exactly chunks in.Chunks.
func (c *Client) direct(ctx context.Context, x codec.Hash, pl plannedRange, in FetchRange, o origin.ReadOptions) (*xorb.Run, error) {
	n := int(in.End - in.Start)
	var packed []byte
	if o.Buffer != nil {
		packed = o.Buffer(n)
	} else {
		packed = make([]byte, n)
	}
	s := &segment{
		xorb: x, start: in.Start, end: in.End, first: in.Chunks.Start, about: in.Chunks.End,
		private: true, buf: packed, grown: make(chan struct{}), cancel: func() {},
	}
	c.mu.Lock()
	c.segments[x] = append(c.segments[x], s)
	c.mu.Unlock()
	partial := in.Chunks.Start
	err := c.transfer(ctx, x, pl, packed, in.Start, func(n int) {
		if c.learn(s, n); o.OnPartial != nil {
			partial = s.partial(in.Chunks, partial, o.OnPartial)
		}
	})
	if err == nil {
		c.learn(s, n)
	}
	s.finish(err)
	c.mu.Lock()
	c.removeLocked(s)
	c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return s.run(in.Chunks, in.Start, in.End, nil)
}

// headersOf returns the headers of whole chunks from chunk i on, and the bytes of these chunks. err is
// the reason why no chunk can follow; nil: the rest of the next chunk is missing.
func headersOf(packed []byte, i uint32) (all []xorb.ChunkHeader, n int, err error) {
	for n+xorb.ChunkHeaderSize <= len(packed) {
		if i == codec.MaxXorbChunks {
			return all, n, codec.Corrupt("xorb", int64(n), "it has more than %d chunks", codec.MaxXorbChunks)
		}
		h, err := xorb.DecodeChunkHeader(packed[n:])
		end := n + xorb.ChunkHeaderSize + h.Packed
		if err != nil || end > len(packed) {
			return all, n, err
		}
		all, n, i = append(all, h), end, i+1
	}
	return all, n, nil
}

// inPieces reads chunks that no single signed range has, for example of several files.
func (c *Client) inPieces(ctx context.Context, x codec.Hash, pieces []codec.ChunkRange, o origin.ReadOptions) (*xorb.Run, error) {
	runs := make([]*xorb.Run, len(pieces))
	going, ctx := errgroup.WithContext(ctx)
	for i, piece := range pieces {
		going.Go(func() (err error) {
			defer flight.Guard(&err)
			runs[i], err = c.chunks(ctx, x, piece, origin.ReadOptions{})
			return err
		})
	}
	if err := going.Wait(); err != nil {
		return nil, err
	}
	return xorb.Join(runs, o.Buffer)
}

// pieces divides chunks by the signed ranges that have them.
func (c *Client) pieces(ctx context.Context, x codec.Hash, r codec.ChunkRange) (pieces []codec.ChunkRange, err error) {
	for r.Start < r.End {
		var done search
		pl, _, err := c.locate(ctx, x, codec.ChunkRange{Start: r.Start, End: r.Start + 1}, &done)
		if err != nil {
			return nil, err
		}
		end := min(r.End, pl.Chunks.End)
		pieces = append(pieces, codec.ChunkRange{Start: r.Start, End: end})
		r.Start = end
	}
	return pieces, nil
}
