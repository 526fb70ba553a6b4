package reconstruct

import (
	"context"
	"sync"

	"github.com/xetfs/xetfs/cache"
	"github.com/xetfs/xetfs/cache/flight"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/shard"
)

// AnnouncedBytes is how much of an announced file is fetched: small files as a whole, and the
// first bytes of larger files. The Handle of a larger file fetches the others.
const AnnouncedBytes = 128 << 10

// A FileReadahead fetches files before they are opened, for one reader that opens many. It is
// one stream of the readahead budget. It is safe for concurrent use.
type FileReadahead struct {
	r         *Reader
	readahead *cache.Readahead
}

// NewFileReadahead returns a FileReadahead. Close ends it, before the Reader is closed.
func (r *Reader) NewFileReadahead() *FileReadahead {
	return &FileReadahead{r, r.c.NewReadahead()}
}

// Announce fetches the File Infos and the first 128 KiB of files that will soon be opened. The
// files share requests, and cached data causes none. All terms of the files are read, so they
// must not be very large. Announce waits for the File Infos and for a free slot of the origin,
// until ctx ends. It has no effect for a local origin. Errors are left to Open.
func (a *FileReadahead) Announce(ctx context.Context, ids []codec.FileID) {
	if a.r.c.Local() {
		return
	}
	var err error // a read of the file reports it
	defer flight.Guard(&err)
	var plan cache.Plan
	for _, f := range a.r.openAll(ctx, ids) {
		f.addStart(ctx, &plan)
	}
	a.readahead.PrefetchAll(ctx, &plan)
}

// Close drops chunks that were fetched and not read. It ends a running Announce soon, and later
// calls have no effect.
func (a *FileReadahead) Close() error {
	a.readahead.Close()
	return nil
}

// openAll returns those of the files that are not materialized and can be opened, in any order.
// It requests unknown File Infos together.
func (r *Reader) openAll(ctx context.Context, ids []codec.FileID) (files []*File) {
	var unknown []codec.FileID
	for _, id := range ids {
		if r.c.HasFile(id.File) {
			continue
		}
		if f, ok := r.open.get(id); ok {
			files = append(files, f)
		} else {
			unknown = append(unknown, id)
		}
	}
	if len(unknown) == 0 {
		return files
	}
	var mu sync.Mutex
	r.c.FileInfos(ctx, unknown, func(i int, fi *shard.FileInfo, err error) {
		if err != nil || r.checkPlan(unknown[i], fi.Terms) != nil {
			return
		}
		f := r.addFile(unknown[i], fi)
		mu.Lock()
		defer mu.Unlock()
		files = append(files, f)
	})
	return files
}

// addStart adds the chunks of the first AnnouncedBytes of f to a plan.
func (f *File) addStart(ctx context.Context, plan *cache.Plan) {
	n := min(AnnouncedBytes, f.Size())
	if n == 0 {
		return
	}
	g, err := f.group(ctx, 0)
	if err != nil {
		return
	}
	first, end := g.layout.overlapping(0, n)
	for i := first; i < end; i++ {
		t := g.layout.terms[i]
		r := t.Chunks
		if piece := g.layout.piece(i, 0, n); piece.Size < int64(t.Size) {
			if r, _, err = f.r.c.Narrow(ctx, f.id, t, piece); err != nil {
				return
			}
		}
		plan.Add(t.Xorb, r, int64(t.Size)*int64(r.Len())/int64(t.Chunks.Len()))
	}
}
