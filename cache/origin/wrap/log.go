package wrap

import (
	"context"
	"log/slog"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// Log returns a Source that logs the calls of src at debug level, with their duration. Narrow
// and Annotate are frequent and cheap, so only their errors are logged. The caller handles
// errors.
func Log(src origin.Source, l *slog.Logger) origin.Source { return logSource{src, l} }

type logSource struct {
	origin.Source
	l *slog.Logger
}

func (s logSource) log(ctx context.Context, what string, start time.Time, err error, attrs ...slog.Attr) {
	attrs = append(attrs, slog.Duration("took", time.Since(start)))
	if err != nil {
		attrs = append(attrs, slog.String("err", err.Error()))
	}
	s.l.LogAttrs(ctx, slog.LevelDebug, what, attrs...)
}

// FileInfo implements Source.
func (s logSource) FileInfo(ctx context.Context, id codec.FileID) (*shard.FileInfo, error) {
	start := time.Now()
	fi, err := s.Source.FileInfo(ctx, id)
	s.log(ctx, "file info", start, err, slog.String("file", id.File.String()))
	return fi, err
}

// OpenFile implements Source.
func (s logSource) OpenFile(ctx context.Context, id codec.FileID) (*shard.FileInfo, *origin.LargeFile, error) {
	start := time.Now()
	fi, large, err := s.Source.OpenFile(ctx, id)
	s.log(ctx, "file info", start, err, slog.String("file", id.File.String()))
	return fi, large, err
}

// FileInfos implements Source.
func (s logSource) FileInfos(ctx context.Context, ids []codec.FileID, yield func(int, *shard.FileInfo, error)) {
	start := time.Now()
	s.Source.FileInfos(ctx, ids, func(i int, fi *shard.FileInfo, err error) {
		if err != nil {
			s.log(ctx, "file info", start, err, slog.String("file", ids[i].File.String()))
		}
		yield(i, fi, err)
	})
	s.log(ctx, "file infos", start, nil, slog.Int("files", len(ids)))
}

// Narrow implements Source.
func (s logSource) Narrow(ctx context.Context, id codec.FileID, t codec.Term, p codec.Piece) (codec.ChunkRange, int64, error) {
	start := time.Now()
	r, skip, err := s.Source.Narrow(ctx, id, t, p)
	if err != nil {
		s.log(ctx, "narrow", start, err, slog.String("file", id.File.String()), slog.String("xorb", t.Xorb.String()))
	}
	return r, skip, err
}

// Chunks implements Source.
func (s logSource) Chunks(ctx context.Context, x codec.Hash, r codec.ChunkRange, o origin.ReadOptions) (*xorb.Run, error) {
	start := time.Now()
	run, err := s.Source.Chunks(ctx, x, r, o)
	var size int
	if err == nil {
		size = len(run.Packed)
	}
	s.logChunks(ctx, x, r, start, size, err)
	return run, err
}

// TryChunks implements Source. It logs a run like Chunks, and nothing without a run: the
// caller then calls Chunks.
func (s logSource) TryChunks(x codec.Hash, r codec.ChunkRange, buffer func(n int) []byte) (*xorb.Run, bool) {
	start := time.Now()
	run, ok := s.Source.TryChunks(x, r, buffer)
	if ok {
		s.logChunks(context.Background(), x, r, start, len(run.Packed), nil)
	}
	return run, ok
}

func (s logSource) logChunks(ctx context.Context, x codec.Hash, r codec.ChunkRange, start time.Time, size int, err error) {
	s.log(ctx, "chunks", start, err,
		slog.String("xorb", x.String()), slog.String("chunks", r.String()), slog.Int("bytes", size))
}

// Annotate implements Source. Only its errors are logged, as of Narrow.
func (s logSource) Annotate(ctx context.Context, x codec.Hash, run *xorb.Run) (*xorb.Run, error) {
	start := time.Now()
	annotated, err := s.Source.Annotate(ctx, x, run)
	if err != nil {
		s.log(ctx, "adopt", start, err, slog.String("xorb", x.String()), slog.String("chunks", run.Chunks.String()))
	}
	return annotated, err
}

// Reject implements Source.
func (s logSource) Reject(x codec.Hash) int {
	others := s.Source.Reject(x)
	s.l.LogAttrs(context.Background(), slog.LevelDebug, "rejected",
		slog.String("xorb", x.String()), slog.Int("others", others))
	return others
}
