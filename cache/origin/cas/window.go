package cas

import (
	"context"
	"slices"

	"github.com/xetfs/xetfs/cache/flight"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
)

// A window is a large piece of a file whose plan was requested: the file is read in a row, or from its
// start. Pieces in it need no plan: the transfer of the window shows the lengths of their chunks.

const (
	windowBytes  = 1 << 20 // smallest window
	windowsAhead = 8       // plans that are requested before they are needed
	windowsSoon  = 3       // the same when a window is read for the first time, which may be the only one
	maxWindows   = 64      // the last ones of all files
)

// addWindow remembers a query for a window.
func (c *Client) addWindow(q query) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.Contains(c.windows, q) {
		return
	}
	if len(c.windows) == maxWindows {
		c.windows = append(c.windows[:0], c.windows[1:]...)
	}
	c.windows = append(c.windows, q)
}

// window returns the last window with all bytes of a piece.
func (c *Client) window(file codec.Hash, p codec.Piece) (q query, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := len(c.windows) - 1; i >= 0; i-- {
		if q := c.windows[i]; q.file == file && q.off <= p.Off && p.Off+p.Size <= q.off+q.n && p.Size < q.n {
			return q, true
		}
	}
	return query{}, false
}

// wholeWindow returns the piece of the window with p, if p is larger than a read of the kernel. Only
// readahead has such pieces, and it will need the rest of the window. The plan of the window is
// known: readahead must not wait for the lengths of chunks, because its next steps wait behind it.
func (c *Client) wholeWindow(file codec.Hash, p codec.Piece) (w codec.Piece, ok bool) {
	q, ok := c.window(file, p)
	return q.piece(p), ok && p.Size > windowBytes
}

// piece returns the piece of a window that contains p.
func (q query) piece(p codec.Piece) codec.Piece {
	return codec.Piece{Term: p.Term, Skip: p.Skip - (p.Off - q.off), Off: q.off, Size: q.n}
}

// divide divides a piece at the border of two windows.
func (c *Client) divide(file codec.Hash, p codec.Piece) (head, tail codec.Piece, ok bool) {
	q, ok := c.window(file, codec.Piece{Off: p.Off, Size: 1})
	n := q.off + q.n - p.Off
	if !ok || n >= p.Size {
		return p, p, false
	}
	head, tail = p, p
	head.Size, tail.Skip, tail.Off, tail.Size = n, p.Skip+n, p.Off+n, p.Size-n
	_, ok = c.window(file, tail)
	return head, tail, ok
}

// narrowBoth is Narrow for both parts of a piece. The transfer of tail begins first, because that of
// head has usually begun.
func (c *Client) narrowBoth(ctx context.Context, id codec.FileID, t codec.Term, head, tail codec.Piece) (r codec.ChunkRange, skip int64, err error) {
	last, _, err := c.Narrow(ctx, id, t, tail)
	if err != nil {
		return r, 0, err
	}
	r, skip, err = c.Narrow(ctx, id, t, head)
	r.End = max(r.End, last.End) // wrong plans may place tail before head
	return r, skip, err
}

// awaitWindow waits until the transfer of a window shows the lengths of the chunks of a large
// piece, and may start it. It reports whether to look at the lengths again.
func (c *Client) awaitWindow(ctx context.Context, id codec.FileID, t codec.Term, p codec.Piece) (again bool, err error) {
	q, ok := c.window(id.File, p)
	if !ok || p.Size <= guessPiece {
		return false, nil
	}
	part, err := c.planPiece(ctx, id, t, q.piece(p))
	if err != nil {
		return false, err
	}
	pl, ok := c.liveRange(codec.Term{Xorb: t.Xorb, Chunks: part.Chunks})
	if !ok || pl.Chunks != part.Chunks {
		return false, nil
	}
	s, isKnown := c.overlapping(t.Xorb, pl.FetchRange)
	switch _, _, ok, _ := c.places.narrow(t, p.Skip, p.Size, c.provenSize(t.Xorb)); {
	case ok:
		if s != nil {
			c.leave(ctx, s, 0)
		}
		return true, nil
	case s == nil && isKnown:
		return false, nil // its own plan is smaller than another transfer
	case s == nil:
		s = c.startSegment(ctx, t.Xorb, pl, &segment{start: pl.Start, end: pl.End, first: pl.Chunks.Start, about: pl.Chunks.End})
		c.planNext(ctx, id, t, q.piece(p), windowsSoon)
	}
	return c.awaitLengths(ctx, s, t, p)
}

// overlapping returns a running segment that has most of a range. Windows share the chunks at their
// borders, which only one of the transfers has. isKnown: the lengths of most of its chunks are
// known from an earlier transfer.
func (c *Client) overlapping(x codec.Hash, r FetchRange) (s *segment, isKnown bool) {
	middle := r.Chunks.Start + uint32(r.Chunks.Len()/2)
	_, _, isKnown = c.places.span(x, codec.ChunkRange{Start: middle, End: middle + 1})
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.segments[x] {
		both := min(s.end, r.End) - max(s.start, r.Start)
		if s.first != noChunk && 2*both > r.End-r.Start && s.isRunning() {
			s.users++
			return s, isKnown
		}
	}
	return nil, isKnown
}

// awaitLengths waits until a segment shows the lengths of all chunks of a piece, or ends. It reports
// whether to look at the lengths again.
func (c *Client) awaitLengths(ctx context.Context, s *segment, t codec.Term, p codec.Piece) (again bool, err error) {
	return c.awaitSegment(ctx, s, func() bool {
		_, _, ok, err := c.places.narrow(t, p.Skip, p.Size, c.provenSize(t.Xorb))
		return ok || err != nil
	})
}

// planStart requests the plan of the first step of readahead when p is the start of a file. Programs read
// most files from the start, and the next reads begin the transfer of that window.
func (c *Client) planStart(ctx context.Context, id codec.FileID, t codec.Term, p codec.Piece) {
	if n := min(int64(t.Size), origin.ReadaheadStep); p.Off == 0 && p.Size < windowBytes && n >= windowBytes {
		c.prepare(ctx, query{file: id.File, n: n})
	}
}

// planNext requests the plans of some steps of readahead behind p before they are needed. A term that
// begins meanwhile would cost two round trips otherwise.
func (c *Client) planNext(ctx context.Context, id codec.FileID, t codec.Term, p codec.Piece, steps int64) {
	if p.Size < windowBytes {
		return
	}
	end, off := p.Off-p.Skip, p.Off+p.Size
	last := off + steps*origin.ReadaheadStep
	for _, t := range c.termsFrom(id.File, t, end) {
		end += int64(t.Size)
		for off < min(end, last) {
			q := query{file: id.File, off: off}
			off = min(end, off-off%origin.ReadaheadStep+origin.ReadaheadStep)
			if q.n = off - q.off; !c.isWhole(t, codec.Piece{Size: q.n}) {
				c.prepare(ctx, q)
			}
		}
		if off >= last {
			return
		}
	}
}

// termsFrom returns the terms of a file from t on, which begins at an offset. If the plan of the
// file is not in memory, it is only t.
func (c *Client) termsFrom(file codec.Hash, t codec.Term, off int64) []codec.Term {
	c.mu.Lock()
	fi, ok := c.infos.Get(file)
	c.mu.Unlock()
	if ok {
		at := int64(0)
		for i := range fi.Terms {
			if at == off && fi.Terms[i] == t {
				return fi.Terms[i:]
			}
			at += int64(fi.Terms[i].Size)
		}
	}
	return []codec.Term{t}
}

// prepare requests the plan of a window and does not wait for it.
func (c *Client) prepare(ctx context.Context, q query) {
	c.addWindow(q)
	ctx, cancel := c.detach(ctx)
	c.background.Go(func() {
		var err error // the next Narrow reports it
		defer cancel()
		defer flight.Guard(&err)
		_, err = c.getPlan(ctx, q)
	})
}
