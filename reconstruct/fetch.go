package reconstruct

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/xetfs/xetfs/cache/flight"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
)

// A TermError names the term of a file at which a read failed.
type TermError struct {
	File codec.FileID
	Term int
	Xorb codec.Hash // the xorb of the term
	Err  error
}

func (e *TermError) Error() string { return fmt.Sprintf("term %d: %v", e.Term, e.Err) }

// Unwrap returns the cause.
func (e *TermError) Unwrap() error { return e.Err }

func (g *group) termError(term int, err error) error {
	return &TermError{File: g.file.id, Term: g.firstTerm() + term, Xorb: g.layout.terms[term].Xorb, Err: err}
}

// fetch fills p with the bytes of the file from off on. All of them exist.
func (f *File) fetch(ctx context.Context, p []byte, off int64) error {
	for len(p) > 0 {
		g, err := f.group(ctx, f.groupAt(off))
		if err != nil {
			f.forgetAfter(err)
			return err
		}
		n := min(int64(len(p)), g.layout.size()-off)
		if n <= 0 {
			err := f.named(codec.Corrupt("terms", 0, "end at %d, before byte %d of the file", g.layout.size(), off))
			f.forgetAfter(err)
			return err
		}
		err = g.fetch(ctx, p[:n], off)
		if err != nil {
			if other := f.another(ctx, g, err); other != nil {
				err = other.fetch(ctx, p[:n], off)
			}
		}
		if err != nil {
			return err
		}
		p, off = p[n:], off+n
	}
	return nil
}

// fetch fills p with bytes of the terms of g from off on. It fetches several pieces
// concurrently.
func (g *group) fetch(ctx context.Context, p []byte, off int64) error {
	first, end := g.layout.overlapping(off, int64(len(p)))
	if workers := min(g.file.r.parallel, end-first); workers > 1 {
		return g.fetchMany(ctx, p, off, workers)
	}
	for i := first; i < end; i++ {
		if err := g.fetchPiece(ctx, i, p, off); err != nil {
			return err
		}
	}
	return nil
}

func (g *group) fetchMany(ctx context.Context, p []byte, off int64, workers int) error {
	first, end := g.layout.overlapping(off, int64(len(p)))
	var next atomic.Int64
	next.Store(int64(first))
	going, ctx := errgroup.WithContext(ctx)
	for range workers {
		going.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= end {
					return nil
				}
				if err := g.fetchPiece(ctx, i, p, off); err != nil {
					return err
				}
			}
		})
	}
	return going.Wait()
}

// fetchPiece fills in the part of p that is in one term. p starts at off.
func (g *group) fetchPiece(ctx context.Context, term int, p []byte, off int64) (err error) {
	defer flight.Guard(&err)
	if err := ctx.Err(); err != nil {
		return err // memory is read without ctx
	}
	f, piece := g.file, g.layout.piece(term, off, int64(len(p)))
	t := g.layout.terms[term]
	r, skip, err := f.r.c.Narrow(ctx, f.id, t, piece)
	if err == nil {
		err = g.readPiece(ctx, piece, r, skip, p[piece.Off-off:][:piece.Size])
	}
	if err == nil {
		return nil
	}
	f.forgetAfter(err)
	f.contradict(t.Xorb, r, err)
	return g.termError(term, err)
}

// readPiece reads a piece, which is skip bytes behind the start of chunks r. It records the chunks
// if the source has no proofs.
func (g *group) readPiece(ctx context.Context, piece codec.Piece, r codec.ChunkRange, skip int64, p []byte) error {
	f, x := g.file, g.layout.terms[piece.Term].Xorb
	if f.tracker == nil {
		return f.r.c.Read(ctx, x, r, skip, p)
	}
	leaves := make([]merkle.Leaf, r.Len())
	if err := f.r.c.ReadLeaves(ctx, x, r, skip, p, leaves); err != nil {
		return err
	}
	return f.note(g, piece.Term, r, piece.Skip-skip, leaves)
}

// forgetAfter forgets a file after a failed read, so that the next open sees a repair. If the data
// may be the cause, it also drops the origin's copy of the metadata.
func (f *File) forgetAfter(err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	f.r.open.drop(f)
	if errors.Is(err, codec.ErrCorrupt) || errors.Is(err, origin.ErrNotFound) {
		f.rememberPlan()
		f.r.c.Forget(f.id)
	}
}
