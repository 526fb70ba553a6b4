package wrap

import (
	"context"
	"sync/atomic"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// Counts are the calls of a Source and their results. Load reads them while the Source is in use.
type Counts struct {
	Requests int64 // calls of FileInfo and Chunks; Narrow rarely sends requests
	Bytes    int64 // packed bytes that were returned
	Errors   int64 // errors of all calls, canceled calls included
}

// Load returns the counts of now.
func (c *Counts) Load() Counts {
	return Counts{
		Requests: atomic.LoadInt64(&c.Requests),
		Bytes:    atomic.LoadInt64(&c.Bytes),
		Errors:   atomic.LoadInt64(&c.Errors),
	}
}

// Count returns a Source that forwards each call to src and counts the calls in c.
func Count(src origin.Source, c *Counts) origin.Source { return countSource{src, c} }

type countSource struct {
	origin.Source
	c *Counts
}

// FileInfo implements Source.
func (s countSource) FileInfo(ctx context.Context, id codec.FileID) (*shard.FileInfo, error) {
	atomic.AddInt64(&s.c.Requests, 1)
	fi, err := s.Source.FileInfo(ctx, id)
	s.failed(err)
	return fi, err
}

// OpenFile implements Source.
func (s countSource) OpenFile(ctx context.Context, id codec.FileID) (*shard.FileInfo, *origin.LargeFile, error) {
	atomic.AddInt64(&s.c.Requests, 1)
	fi, large, err := s.Source.OpenFile(ctx, id)
	s.failed(err)
	return fi, large, err
}

// FileInfos implements Source. Each file counts.
func (s countSource) FileInfos(ctx context.Context, ids []codec.FileID, yield func(int, *shard.FileInfo, error)) {
	atomic.AddInt64(&s.c.Requests, int64(len(ids)))
	s.Source.FileInfos(ctx, ids, func(i int, fi *shard.FileInfo, err error) {
		s.failed(err)
		yield(i, fi, err)
	})
}

// Narrow implements Source.
func (s countSource) Narrow(ctx context.Context, id codec.FileID, t codec.Term, p codec.Piece) (codec.ChunkRange, int64, error) {
	r, skip, err := s.Source.Narrow(ctx, id, t, p)
	s.failed(err)
	return r, skip, err
}

// Chunks implements Source.
func (s countSource) Chunks(ctx context.Context, x codec.Hash, r codec.ChunkRange, o origin.ReadOptions) (*xorb.Run, error) {
	atomic.AddInt64(&s.c.Requests, 1)
	run, err := s.Source.Chunks(ctx, x, r, o)
	if s.failed(err); err != nil {
		return nil, err
	}
	atomic.AddInt64(&s.c.Bytes, int64(len(run.Packed)))
	return run, nil
}

// TryChunks implements Source. A call without a result does not count.
func (s countSource) TryChunks(x codec.Hash, r codec.ChunkRange, buffer func(n int) []byte) (*xorb.Run, bool) {
	run, ok := s.Source.TryChunks(x, r, buffer)
	if ok {
		atomic.AddInt64(&s.c.Requests, 1)
		atomic.AddInt64(&s.c.Bytes, int64(len(run.Packed)))
	}
	return run, ok
}

// Annotate implements Source.
func (s countSource) Annotate(ctx context.Context, x codec.Hash, run *xorb.Run) (*xorb.Run, error) {
	annotated, err := s.Source.Annotate(ctx, x, run)
	s.failed(err)
	return annotated, err
}

func (s countSource) failed(err error) {
	if err != nil {
		atomic.AddInt64(&s.c.Errors, 1)
	}
}
