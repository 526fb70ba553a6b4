package origin

import (
	"context"
	"sync/atomic"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// Counts are what a Source was asked. They change while it is in use: Load reads them
// then.
type Counts struct {
	Requests int64 // calls of FileInfo and Chunks; Narrow is arithmetic but for its first call
	Bytes    int64 // packed bytes that came
	Errors   int64 // answers to any call that were an error, cancelled ones included
}

// Load returns the counts of now.
func (c *Counts) Load() Counts {
	return Counts{
		Requests: atomic.LoadInt64(&c.Requests),
		Bytes:    atomic.LoadInt64(&c.Bytes),
		Errors:   atomic.LoadInt64(&c.Errors),
	}
}

// Count returns a Source that adds to c what src is asked.
func Count(src Source, c *Counts) Source { return counting{Through{src}, c} }

type counting struct {
	Through
	c *Counts
}

// FileInfo implements Source.
func (s counting) FileInfo(ctx context.Context, id codec.FileID) (*shard.FileInfo, error) {
	atomic.AddInt64(&s.c.Requests, 1)
	fi, err := s.Through.FileInfo(ctx, id)
	s.failed(err)
	return fi, err
}

// OpenFile implements Opening.
func (s counting) OpenFile(ctx context.Context, id codec.FileID) (*shard.FileInfo, *LargeFile, error) {
	atomic.AddInt64(&s.c.Requests, 1)
	fi, large, err := s.Through.OpenFile(ctx, id)
	s.failed(err)
	return fi, large, err
}

// FileInfos implements Describing. Each file counts.
func (s counting) FileInfos(ctx context.Context, ids []codec.FileID, tell func(int, *shard.FileInfo, error)) {
	atomic.AddInt64(&s.c.Requests, int64(len(ids)))
	s.Through.FileInfos(ctx, ids, func(i int, fi *shard.FileInfo, err error) {
		s.failed(err)
		tell(i, fi, err)
	})
}

// Narrow implements Source.
func (s counting) Narrow(ctx context.Context, id codec.FileID, t codec.Term, p codec.Piece) (codec.ChunkRange, int64, error) {
	r, skip, err := s.Through.Narrow(ctx, id, t, p)
	s.failed(err)
	return r, skip, err
}

// Chunks implements Source.
func (s counting) Chunks(ctx context.Context, x codec.Hash, r codec.ChunkRange) (*xorb.Run, error) {
	return s.ChunksIn(ctx, x, r, Into{})
}

// ChunksIn implements Borrowing.
func (s counting) ChunksIn(ctx context.Context, x codec.Hash, r codec.ChunkRange, into Into) (*xorb.Run, error) {
	atomic.AddInt64(&s.c.Requests, 1)
	run, err := s.Through.ChunksIn(ctx, x, r, into)
	if s.failed(err); err != nil {
		return nil, err
	}
	atomic.AddInt64(&s.c.Bytes, int64(len(run.Packed)))
	return run, nil
}

// ChunksNow implements Prompt.
func (s counting) ChunksNow(x codec.Hash, r codec.ChunkRange, buffer func(size int) []byte) (*xorb.Run, bool) {
	p, ok := s.Source.(Prompt)
	if !ok {
		return nil, false
	}
	run, ok := p.ChunksNow(x, r, buffer)
	if ok {
		atomic.AddInt64(&s.c.Requests, 1)
		atomic.AddInt64(&s.c.Bytes, int64(len(run.Packed)))
	}
	return run, ok
}

// Adopt implements Adopting.
func (s counting) Adopt(ctx context.Context, x codec.Hash, run *xorb.Run) (*xorb.Run, error) {
	adopted, err := s.Through.Adopt(ctx, x, run)
	s.failed(err)
	return adopted, err
}

func (s counting) failed(err error) {
	if err != nil {
		atomic.AddInt64(&s.c.Errors, 1)
	}
}
