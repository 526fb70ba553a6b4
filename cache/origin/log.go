package origin

import (
	"context"
	"log/slog"
	"time"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// Log returns a Source that says at debug level what src is asked and how long the
// answer took. Narrow is too frequent and too cheap to be worth a line, unless it
// fails. Errors are only told here, they are for the caller to judge.
func Log(src Source, l *slog.Logger) Source { return logging{Through{src}, l} }

type logging struct {
	Through
	l *slog.Logger
}

func (s logging) say(ctx context.Context, what string, start time.Time, err error, attrs ...slog.Attr) {
	attrs = append(attrs, slog.Duration("took", time.Since(start)))
	if err != nil {
		attrs = append(attrs, slog.String("err", err.Error()))
	}
	s.l.LogAttrs(ctx, slog.LevelDebug, what, attrs...)
}

// FileInfo implements Source.
func (s logging) FileInfo(ctx context.Context, id codec.FileID) (*shard.FileInfo, error) {
	start := time.Now()
	fi, err := s.Through.FileInfo(ctx, id)
	s.say(ctx, "file info", start, err, slog.String("file", id.File.String()))
	return fi, err
}

// OpenFile implements Opening.
func (s logging) OpenFile(ctx context.Context, id codec.FileID) (*shard.FileInfo, *LargeFile, error) {
	start := time.Now()
	fi, large, err := s.Through.OpenFile(ctx, id)
	s.say(ctx, "file info", start, err, slog.String("file", id.File.String()))
	return fi, large, err
}

// FileInfos implements Describing.
func (s logging) FileInfos(ctx context.Context, ids []codec.FileID, tell func(int, *shard.FileInfo, error)) {
	start := time.Now()
	s.Through.FileInfos(ctx, ids, func(i int, fi *shard.FileInfo, err error) {
		if err != nil {
			s.say(ctx, "file info", start, err, slog.String("file", ids[i].File.String()))
		}
		tell(i, fi, err)
	})
	s.say(ctx, "file infos", start, nil, slog.Int("files", len(ids)))
}

// Narrow implements Source.
func (s logging) Narrow(ctx context.Context, id codec.FileID, t codec.Term, p codec.Piece) (codec.ChunkRange, int64, error) {
	start := time.Now()
	r, skip, err := s.Through.Narrow(ctx, id, t, p)
	if err != nil {
		s.say(ctx, "narrow", start, err, slog.String("file", id.File.String()), slog.String("xorb", t.Xorb.String()))
	}
	return r, skip, err
}

// Chunks implements Source.
func (s logging) Chunks(ctx context.Context, x codec.Hash, r codec.ChunkRange) (*xorb.Run, error) {
	return s.ChunksIn(ctx, x, r, Into{})
}

// ChunksIn implements Borrowing.
func (s logging) ChunksIn(ctx context.Context, x codec.Hash, r codec.ChunkRange, into Into) (*xorb.Run, error) {
	start := time.Now()
	run, err := s.Through.ChunksIn(ctx, x, r, into)
	var size int
	if err == nil {
		size = len(run.Packed)
	}
	s.say(ctx, "chunks", start, err,
		slog.String("xorb", x.String()), slog.String("chunks", r.String()), slog.Int("bytes", size))
	return run, err
}

// Adopt implements Adopting. It is as frequent and as cheap as Narrow.
func (s logging) Adopt(ctx context.Context, x codec.Hash, run *xorb.Run) (*xorb.Run, error) {
	start := time.Now()
	adopted, err := s.Through.Adopt(ctx, x, run)
	if err != nil {
		s.say(ctx, "adopt", start, err, slog.String("xorb", x.String()), slog.String("chunks", run.Chunks.String()))
	}
	return adopted, err
}

// Reject implements Rejecter.
func (s logging) Reject(x codec.Hash) int {
	others := s.Through.Reject(x)
	s.l.LogAttrs(context.Background(), slog.LevelDebug, "rejected",
		slog.String("xorb", x.String()), slog.Int("others", others))
	return others
}
