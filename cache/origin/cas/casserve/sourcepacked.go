package casserve

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sort"

	"github.com/xetfs/xetfs/cache/flight"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/xorb"
)

const (
	localPiece  = 256 << 10
	remotePiece = 1 << 20 // two at once: one is sent while one arrives

	// maxPackedChunk is the length of the longest packed chunk. A piece may begin within one.
	maxPackedChunk = 2*codec.MaxChunkSize + xorb.ChunkHeaderSize
)

// Packed implements Content.
func (c *sourceContent) Packed(ctx context.Context, t Transfer, from, to int64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		at, err := c.src.Places(ctx, t.Xorb, t.Span.Chunks)
		if err == nil && spanOf(at, t.Span.Chunks) != t.Span {
			err = ErrChanged
		}
		if err != nil {
			yield(nil, err)
			return
		}
		read := func(s Span) piece { return c.readPiece(ctx, t.Xorb, s) }
		if !c.src.Local() {
			var stop func()
			read, stop = readAhead(read, func(s Span) (next Span, ok bool) {
				if s.End < to {
					return c.pieceAt(at, t.Span.Chunks, s.End, to), true
				}
				return next, false
			})
			defer stop()
		}
		for off := from; off < to; {
			s := c.pieceAt(at, t.Span.Chunks, off, to)
			p := read(s)
			if p.err != nil {
				yield(nil, p.err) // the source may still write to its buffer
				return
			}
			ok := yield(p.run.Packed[off-s.Start:min(to, s.End)-s.Start], nil)
			if p.buf != nil {
				c.free.Put(p.buf)
			}
			if off = s.End; !ok {
				return
			}
		}
	}
}

// A piece is the result of one read.
type piece struct {
	run *xorb.Run
	buf *[]byte // of run; nil: it has memory of its own
	err error
}

func (c *sourceContent) readPiece(ctx context.Context, x codec.Hash, s Span) (p piece) {
	defer flight.Guard(&p.err)
	p.buf = c.buffer()
	p.err = c.read(ctx, x, s, &p)
	return p
}

// readAhead returns read with one piece read ahead. next returns the piece behind another. stop
// waits for the last read.
func readAhead(read func(Span) piece, next func(Span) (Span, bool)) (ahead func(Span) piece, stop func()) {
	var pending chan piece
	start := func(s Span) chan piece {
		done := make(chan piece, 1)
		go func() { done <- read(s) }() // read recovers from panics
		return done
	}
	ahead = func(s Span) piece {
		if pending == nil {
			pending = start(s)
		}
		p := <-pending
		pending = nil
		if n, ok := next(s); ok && p.err == nil {
			pending = start(n)
		}
		return p
	}
	return ahead, func() {
		if pending != nil {
			<-pending
		}
	}
}

// buffer returns memory for a piece.
func (c *sourceContent) buffer() *[]byte {
	if b, ok := c.free.Get().(*[]byte); ok {
		return b
	}
	b := make([]byte, c.piece+maxPackedChunk)
	return &b
}

// pieceAt returns whole chunks of r from the one with byte from on. They end at byte to, or are
// as many as fit into a piece.
func (c *sourceContent) pieceAt(at origin.Places, r codec.ChunkRange, from, to int64) Span {
	after := func(off int64) uint32 { // the first chunk that ends behind off
		i := sort.Search(r.Len(), func(i int) bool {
			_, end := at.PackedRange(codec.ChunkRange{Start: r.Start, End: r.Start + uint32(i) + 1})
			return end > off
		})
		return r.Start + uint32(i)
	}
	first := after(from)
	end := max(first+1, min(after(to-1)+1, after(from+c.piece)))
	return spanOf(at, codec.ChunkRange{Start: first, End: end})
}

// read reads proven packed chunks into p. It reads another replica, or a remote one again, if they
// are damaged.
func (c *sourceContent) read(ctx context.Context, x codec.Hash, s Span, p *piece) (err error) {
	for try := 0; ; try++ {
		if p.run, err = c.readOnce(ctx, x, s, p.buf); err == nil || !errors.Is(err, codec.ErrCorrupt) {
			return err
		}
		if others := c.src.Reject(x); try > 0 && (others == 0 || try > others) || others == 0 && c.src.Local() {
			return fmt.Errorf("xorb %s: %w", x, err)
		}
		ctx, p.buf = origin.NoCache(ctx), nil // the source may still write to it
	}
}

func (c *sourceContent) readOnce(ctx context.Context, x codec.Hash, s Span, buf *[]byte) (*xorb.Run, error) {
	o := origin.ReadOptions{Buffer: func(n int) []byte {
		if buf == nil || n > len(*buf) {
			return make([]byte, n)
		}
		return (*buf)[:n]
	}}
	run, err := c.src.Chunks(ctx, x, s.Chunks, o)
	switch {
	case err != nil:
		return nil, err
	case int64(len(run.Packed)) != s.End-s.Start:
		return nil, ErrChanged
	case run.Hashes == nil || slices.Contains(run.Hashes, codec.Hash{}):
		return nil, fmt.Errorf("xorb %s: %w: chunks %v are not proven", x, origin.ErrUnavailable, s.Chunks)
	}
	return run, c.sums.verify(x, run)
}
