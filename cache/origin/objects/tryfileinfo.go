package objects

import (
	"context"
	"io"

	"github.com/xetfs/xetfs/cache/flight"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/shard"
)

// maxBlockNow is the longest File Info block that is read in one step, some hundred terms.
// maxLeavesNow is the most chunks that are compared with the hash of a file in one step. A
// killed reader waits for at most one such step.
const (
	maxBlockNow  = 32 << 10
	maxLeavesNow = 4096
)

// tryFileInfo is FileInfo without waiting, for a file of a local store. The shard that id names
// must be open, and the infos of the xorbs in memory. False means unknown, and findFile finds
// the reason. Small files open quickly because no other goroutine takes part.
func (o *objects) tryFileInfo(ctx context.Context, id codec.FileID) (fi *shard.FileInfo, ok bool) {
	store, prompt := o.store.(origin.TryReader)
	if !prompt || !o.local || id.Block == 0 || origin.IsNoCache(ctx) {
		return nil, false
	}
	f := o.opened(id.Shard, false)
	if f == nil {
		return nil, false
	}
	var err error
	defer flight.Guard(&err) // then ok is false
	end := min(f.size, id.Block+maxBlockNow)
	fi, err = shard.ReadFileInfo(io.NewSectionReader(tryReader{store, f.key}, 0, end), id.Block)
	if err != nil || fi.File != id.File || chunksOf(fi.Terms) > maxLeavesNow {
		return nil, false
	}
	if err = checkFileInfo(ctx, fi, o.infos.tryGet); err != nil {
		return nil, false
	}
	if !f.Meta().Keyed {
		o.remember(id.Shard, fi.Terms)
	}
	return fi, true
}

// A tryReader reads an object without waiting for a disk. Other bytes are errWouldWait.
type tryReader struct {
	s origin.TryReader
	k names.Key
}

// ReadAt implements io.ReaderAt.
func (r tryReader) ReadAt(p []byte, off int64) (int, error) {
	if !r.s.TryReadAt(r.k, p, off) {
		return 0, errWouldWait
	}
	return len(p), nil
}
