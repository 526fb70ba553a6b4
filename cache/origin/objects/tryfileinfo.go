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

// maxBlockNow is the longest File Info block that is read at once, some hundred terms, and
// maxLeavesNow the most chunks that are held against the hash of a file: a reader that is
// killed must not wait for more than that.
const (
	maxBlockNow  = 32 << 10
	maxLeavesNow = 4096
)

// tryFileInfo is FileInfo for a file of a near store if all it takes is in memory: the
// shard that id names is open, and the xorbs are known. It says no more than that, and
// leaves all that is not good to findFile. Small files are opened as fast as they are
// because nothing is handed to another goroutine.
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

// A tryReader reads what is in memory of an object.
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
