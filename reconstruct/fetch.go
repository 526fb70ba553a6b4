package reconstruct

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/xetfs/xetfs/codec"
)

// A TermError says at which term of a file a read failed.
type TermError struct {
	File codec.FileID
	Term int
	Xorb codec.Hash // of the term
	Err  error
}

func (e *TermError) Error() string { return fmt.Sprintf("term %d: %v", e.Term, e.Err) }

// Unwrap returns what went wrong.
func (e *TermError) Unwrap() error { return e.Err }

// fetch fills p with the bytes from off on, which all are in the file.
func (f *File) fetch(ctx context.Context, p []byte, off int64) error {
	var few [4]codec.Piece
	pieces := f.layout.AppendPieces(few[:0], off, int64(len(p)))
	if len(pieces) == 1 || f.r.parallel == 1 {
		for _, piece := range pieces {
			if err := f.fetchPiece(ctx, piece, p[piece.Off-off:][:piece.Size]); err != nil {
				return err
			}
		}
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(f.r.parallel)
	for _, piece := range pieces {
		group.Go(func() (err error) {
			defer guard(&err)
			return f.fetchPiece(ctx, piece, p[piece.Off-off:][:piece.Size])
		})
	}
	return group.Wait()
}

// fetchPiece fills p with the bytes of one piece.
func (f *File) fetchPiece(ctx context.Context, piece codec.Piece, p []byte) error {
	t := f.info.Terms[piece.Term]
	r, skip, err := f.r.c.Narrow(ctx, f.id, t, piece)
	if err == nil {
		err = f.r.c.Read(ctx, t.Xorb, r, skip, p)
	}
	if err == nil {
		return nil
	}
	if !errors.Is(err, context.Canceled) {
		f.r.open.drop(f.id)
	}
	return &TermError{File: f.id, Term: piece.Term, Xorb: t.Xorb, Err: err}
}

// guard turns a panic into an error: a bug in one read must not end the mount.
func guard(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("panic: %v", r)
	}
}
