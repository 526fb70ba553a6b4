package upload

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"runtime"

	"github.com/xetfs/xetfs/cache/flight"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// pieceBytes bounds the unpacked bytes of one read. A read has at least one chunk.
const pieceBytes = 4 << 20

// A piece is the result of one read.
type piece struct {
	data []byte
	err  error
}

// hashContent returns the SHA-256 of a checked file. It reads and unpacks on all cores, and hashes
// in order. Memory is bounded by a few pieces.
func (s *Store) hashContent(ctx context.Context, f *shard.FileInfo, progress func(n int64)) (sum [32]byte, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Each piece has a channel of its own, so that the pieces stay in order.
	pieces := make(chan chan piece, runtime.GOMAXPROCS(0))
	var failed error // read after pieces is closed
	go func() {
		defer close(pieces)
		defer flight.Guard(&failed)
		for _, t := range f.Terms {
			if !s.readTerm(ctx, t, pieces) {
				return
			}
		}
	}()
	h := sha256.New()
	for c := range pieces {
		p := <-c
		if p.err != nil && err == nil {
			err = p.err
			cancel()
		}
		h.Write(p.data)
		progress(int64(len(p.data)))
	}
	return [32]byte(h.Sum(nil)), cmp.Or(err, failed, ctx.Err())
}

// readTerm starts the reads of a term. It returns false when ctx has ended.
func (s *Store) readTerm(ctx context.Context, t codec.Term, pieces chan<- chan piece) bool {
	in, err := s.info(ctx, t.Xorb)
	if err != nil {
		failed := make(chan piece, 1)
		failed <- piece{err: err}
		select {
		case pieces <- failed:
		case <-ctx.Done():
		}
		return false
	}
	for r := range cut(in, t.Chunks) {
		c := make(chan piece, 1)
		select {
		case pieces <- c:
		case <-ctx.Done():
			return false
		}
		go func() { c <- s.readPiece(ctx, t.Xorb, r, in) }()
	}
	return true
}

// cut yields the parts of a range with about pieceBytes each.
func cut(in *xorb.Info, all codec.ChunkRange) func(yield func(codec.ChunkRange) bool) {
	return func(yield func(codec.ChunkRange) bool) {
		for r := (codec.ChunkRange{Start: all.Start, End: all.Start}); r.End < all.End; r.Start = r.End {
			for r.End++; r.End < all.End; r.End++ {
				start, end := in.UnpackedRange(codec.ChunkRange{Start: r.Start, End: r.End + 1})
				if end-start > pieceBytes {
					break
				}
			}
			if !yield(r) {
				return
			}
		}
	}
}

// readPiece is read. A panic is an error of the piece.
func (s *Store) readPiece(ctx context.Context, x codec.Hash, r codec.ChunkRange, in *xorb.Info) (p piece) {
	defer flight.Guard(&p.err)
	p.data, p.err = s.read(ctx, x, r, in)
	return p
}

// read returns the unpacked bytes of chunks, each compared with its hash.
func (s *Store) read(ctx context.Context, x codec.Hash, r codec.ChunkRange, in *xorb.Info) ([]byte, error) {
	start, end := in.UnpackedRange(r)
	data := make([]byte, end-start)
	run, err := s.o.Source.Chunks(ctx, x, r, origin.ReadOptions{})
	if err != nil {
		return nil, s.damaged(x, err)
	}
	at := 0
	for c := r.Start; c < r.End; c++ {
		n := run.Size(c)
		if n > len(data)-at {
			return nil, s.damaged(x, codec.Corrupt("chunk", 0, "longer than in the footer"))
		}
		h, err := run.Unpack(c, data[at:at+n])
		if err == nil && h != in.Chunks[c] {
			err = codec.Corrupt("chunk", 0, "chunk %d has another hash", c)
		}
		if err != nil {
			return nil, s.damaged(x, err)
		}
		at += n
	}
	return data[:at], nil
}

func isCorrupt(err error) bool { return errors.Is(err, codec.ErrCorrupt) }
