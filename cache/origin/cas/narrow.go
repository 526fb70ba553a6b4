package cas

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/xorb"
)

// Bounds of a guess: the bytes around an estimated place that are requested while the plan of a
// read is still on its way. A chunk has at most 128 KiB.
const (
	guessBytes = 208 << 10
	guessPiece = 256 << 10 // longest read with a guess
	wholeBytes = 256 << 10 // a term of about these packed bytes is always read whole
)

// Narrow implements Source. Plans have no lengths of chunks. In this order, it
//
//   - uses lengths that were learned,
//   - returns the whole term, if most of it is wanted or little is not,
//   - returns the whole window of a step of readahead,
//   - uses the plan of the piece that planNext has requested,
//   - divides the piece at the border of two windows,
//   - waits for a transfer that shows the lengths, or starts one where they probably are,
//   - requests the plan of the piece, and at the same time the bytes where it probably is.
func (c *Client) Narrow(ctx context.Context, id codec.FileID, t codec.Term, p codec.Piece) (codec.ChunkRange, int64, error) {
	if err := c.checkTerm(ctx, id, t); err != nil {
		return codec.ChunkRange{}, 0, err
	}
	for range maxLocate {
		r, skip, ok, err := c.places.narrow(t, p.Skip, p.Size, c.provenSize(t.Xorb))
		switch {
		case err != nil:
			if c.hasTerm(id, t) {
				c.places.drop(t.Xorb)
				c.Forget(id)
			}
			return r, 0, fmt.Errorf("xorb %s: %w", t.Xorb, err)
		case ok:
			return r, skip, nil
		case c.isWhole(t, p):
			return t.Chunks, p.Skip, nil
		}
		if w, ok := c.wholeWindow(id.File, p); ok {
			r, skip, err := c.narrowByPlan(ctx, id, t, w)
			return r, skip + p.Off - w.Off, err
		}
		if _, ok := c.knownPlan(ctx, query{file: id.File, off: p.Off, n: p.Size}); ok {
			return c.narrowByPlan(ctx, id, t, p)
		}
		if head, tail, ok := c.divide(id.File, p); ok {
			return c.narrowBoth(ctx, id, t, head, tail)
		}
		c.planStart(ctx, id, t, p)
		again, err := c.await(ctx, t, p)
		if err == nil && !again {
			again, err = c.awaitWindow(ctx, id, t, p)
		}
		switch {
		case isDown(ctx, err):
			return t.Chunks, p.Skip, nil
		case err != nil:
			return r, 0, err
		case !again:
			return c.narrowByPlan(ctx, id, t, p)
		}
	}
	return c.narrowByPlan(ctx, id, t, p)
}

// checkTerm returns an error if the plan of a file has no term t.
func (c *Client) checkTerm(ctx context.Context, id codec.FileID, t codec.Term) error {
	if t.Chunks.Start >= t.Chunks.End || t.Chunks.End > codec.MaxXorbChunks {
		return fmt.Errorf("xorb %s: %w", t.Xorb, codec.Corrupt("term", 0, "names chunks %v", t.Chunks))
	}
	if c.isDescribed(id.File, t) { // not another file with the term, which may be gone
		return nil
	}
	fi, err := c.FileInfo(ctx, id)
	if err != nil {
		return err
	}
	off, hasXorb := int64(0), false
	for _, u := range fi.Terms {
		if u == t {
			c.describe(id.File, off, []codec.Term{t})
			return nil
		}
		off, hasXorb = off+int64(u.Size), hasXorb || u.Xorb == t.Xorb
	}
	if !hasXorb {
		return fmt.Errorf("xorb %s: %w: the plan of file %s does not name it", t.Xorb, origin.ErrNotFound, id.File)
	}
	return fmt.Errorf("xorb %s: %w", t.Xorb, codec.Corrupt("term", 0, "the plan of file %s has no such term: chunks %v of %d bytes", id.File, t.Chunks, t.Size))
}

// hasTerm reports whether the current plan of a file has term t, as far as it is known. An open file may have
// an earlier plan.
func (c *Client) hasTerm(id codec.FileID, t codec.Term) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	fi, ok := c.infos.Get(id.File)
	return !ok || slices.Contains(fi.Terms, t)
}

// provenSize returns a function for the sizes of proven chunks.
func (c *Client) provenSize(x codec.Hash) func(i uint32) int64 {
	return func(i uint32) int64 {
		leaves := c.hashes.Leaves(x, codec.ChunkRange{Start: i, End: i + 1})
		if len(leaves) == 0 || leaves[0].Hash.IsZero() {
			return 0
		}
		return int64(leaves[0].Size)
	}
}

// isWhole reports whether to read a term whole.
func (c *Client) isWhole(t codec.Term, p codec.Piece) bool {
	if 2*p.Size >= int64(t.Size) || t.Size <= wholeBytes || t.Chunks.Len() == 1 {
		return true
	}
	start, end, ok := c.places.span(t.Xorb, t.Chunks)
	return ok && end-start <= wholeBytes
}

// await waits for a transfer that shows the lengths of the chunks, and may start one. It reports
// whether to look at the lengths again.
func (c *Client) await(ctx context.Context, t codec.Term, p codec.Piece) (again bool, err error) {
	pl, ok := c.liveRange(t)
	if !ok {
		return false, nil
	}
	e := c.places.estimate(t, p.Skip, pl.FetchRange)
	at, end := e.low.chunk, e.at+int64(float64(p.Size)*e.each)
	upTo := e.at
	if p.Size > guessPiece {
		upTo = end // else a step of readahead would wait for the one before it
	}
	if s := c.nextSegment(t.Xorb, at, upTo); s != nil {
		return c.awaitLengths(ctx, s, t, p)
	}
	if end += guessBytes / 2; e.from == e.at { // a chunk that begins there may be the longest
		end = max(end, e.at+xorb.ChunkHeaderSize+codec.MaxChunkSize)
	}
	if p.Size > guessPiece || !e.exact || e.from < e.at-guessBytes/2 || !c.servesParts(t.Xorb, pl) {
		return false, nil
	}
	if end = min(end, e.to); e.from < pl.Start || end > pl.End || e.from >= end {
		return false, nil
	}
	s := c.startSegment(ctx, t.Xorb, pl, &segment{start: e.from, end: end, first: at, about: at})
	return c.awaitSegment(ctx, s, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.first+uint32(len(s.headers)) > at
	})
}

// nextSegment returns a running segment that will show the length of a chunk, up to a byte.
func (c *Client) nextSegment(x codec.Hash, chunk uint32, upTo int64) *segment {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.segments[x] {
		if s.first != noChunk && s.first <= chunk && upTo < s.end && s.isRunning() {
			s.users++
			return s
		}
	}
	return nil
}

func (s *segment) isRunning() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.ended
}

// liveRange returns a signed range in memory that has all chunks of a term.
func (c *Client) liveRange(t codec.Term) (plannedRange, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.plans.findLocked(t.Xorb, t.Chunks)
}

// isDown reports whether a plan failed because the server is unavailable. The whole term is then read, which
// may be in the disk cache.
func isDown(ctx context.Context, err error) bool {
	return errors.Is(err, origin.ErrUnavailable) && ctx.Err() == nil
}

// narrowByPlan requests the plan of a piece, which the server trims to whole chunks.
func (c *Client) narrowByPlan(ctx context.Context, id codec.FileID, t codec.Term, p codec.Piece) (codec.ChunkRange, int64, error) {
	q := query{file: id.File, off: p.Off, n: p.Size}
	if _, ok := c.knownPlan(ctx, q); !ok {
		c.guess(ctx, t, p)
	}
	if p.Size >= windowBytes {
		c.addWindow(q)
	}
	part, err := c.planPiece(ctx, id, t, p)
	switch {
	case isDown(ctx, err):
		return t.Chunks, p.Skip, nil
	case err != nil:
		return codec.ChunkRange{}, 0, err
	}
	c.planNext(ctx, id, t, p, windowsAhead)
	return part.Chunks, part.skip, nil
}

// pieceChunks are the chunks of a term that have a piece, which is skip bytes behind their start.
type pieceChunks struct {
	Chunks codec.ChunkRange
	skip   int64
}

// planPiece returns the chunks of a piece by its own plan.
func (c *Client) planPiece(ctx context.Context, id codec.FileID, t codec.Term, p codec.Piece) (pieceChunks, error) {
	pl, err := c.getPlan(ctx, query{file: id.File, off: p.Off, n: p.Size})
	if err != nil {
		return pieceChunks{}, err
	}
	if len(pl.terms) == 0 || pl.skip+p.Size > int64(pl.terms[0].Size) || !isPart(pl.terms[0], t, p.Skip-pl.skip) {
		c.drop(pl)
		c.Forget(id)
		return pieceChunks{}, fmt.Errorf("%q: %w", pl.q.key(), codec.Corrupt(what, 0, "bytes %d-%d are in other chunks than by the plan of the whole file", p.Off, p.Off+p.Size-1))
	}
	part := pl.terms[0]
	c.places.learnTerm(t, part.Chunks, p.Skip-pl.skip, int64(part.Size))
	return pieceChunks{part.Chunks, pl.skip}, nil
}

// isPart reports whether a term may be a part of the term t from its byte off on. A server that
// ignores the range of a request returns the start of the file for any part.
func isPart(part, t codec.Term, off int64) bool {
	end := off + int64(part.Size)
	return part.Xorb == t.Xorb && t.Chunks.Contains(part.Chunks) && off >= 0 && end <= int64(t.Size) &&
		(part.Chunks.Start == t.Chunks.Start) == (off == 0) && (part.Chunks.End == t.Chunks.End) == (end == int64(t.Size))
}

// guess starts a transfer of the bytes where a small piece probably is.
func (c *Client) guess(ctx context.Context, t codec.Term, p codec.Piece) {
	pl, ok := c.liveRange(t)
	if !ok || p.Size > guessPiece || !c.servesParts(t.Xorb, pl) || !c.now().Before(pl.plan.addresses.Load().end) {
		return
	}
	e := c.places.estimate(t, p.Skip, pl.FetchRange)
	middle := e.at + int64(float64(p.Size)*e.each)/2
	start := max(pl.Start, middle-guessBytes/2)
	end := min(pl.End, start+guessBytes)
	if start >= end {
		return
	}
	s := c.startSegment(ctx, t.Xorb, pl, &segment{start: start, end: end, first: noChunk})
	c.leave(context.Background(), s, 0)
}
