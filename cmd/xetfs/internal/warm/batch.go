package warm

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/shard"
)

// Small files of a remote source are fetched in batches. Requests for the terms of a batch are
// shared. Its files are then sorted by the layout of their chunks and fetched in windows.
// The chunks of a window go to the disk in long ranges. The files of one window are
// materialized from there while the next window arrives.
const (
	batchFiles  = 1 << 18 // at most; about 100 MB of memory with their terms
	batchEnough = 1 << 16 // enough for a batch where another shard begins
	batchTerms  = 1 << 19
	fileTerms   = 1 << 12 // a file with more terms is stored alone

	windowFiles = 2048
	windowTerms = 1 << 14 // with 1 KiB of memory each at most
	maxWindow   = 64 << 20
	windowShare = 64 // of the disk cache; three windows must fit
	minWindow   = 1 << 20
)

// A batch collects files.
type batch struct {
	w   *Run
	ctx context.Context // of the run
	lot []file
}

func (r *Run) newBatch(ctx context.Context) *batch {
	return &batch{w: r, ctx: ctx}
}

// add adds a file. A full batch is stored before.
func (l *batch) add(c file) error {
	if c.claimed {
		return l.w.warm(l.ctx, c)
	}
	if !l.w.Chunks && l.w.Cache.HasFile(c.id.File) {
		l.w.Bar.Add(c.size)
		return l.w.finish(l.ctx, c, true, nil)
	}
	n := len(l.lot)
	if n == batchFiles || n >= batchEnough && c.id.Shard != l.lot[n-1].id.Shard {
		if err := l.end(); err != nil {
			return err
		}
	}
	l.lot = append(l.lot, c)
	return nil
}

// end stores the collected files.
func (l *batch) end() error {
	lot := l.lot
	l.lot = nil
	if len(lot) == 0 {
		return nil
	}
	return l.w.runBatch(l.ctx, lot)
}

// A plannedFile is a file of a batch with its terms.
type plannedFile struct {
	file
	info  *shard.FileInfo
	there bool // all of its chunks were on disk before
}

// runBatch stores files. A file of too many terms is stored alone.
func (r *Run) runBatch(ctx context.Context, lot []file) error {
	files, alone, err := r.describe(ctx, lot)
	if err != nil {
		return err
	}
	slices.SortFunc(files, func(a, b plannedFile) int {
		p, q := &a.info.Terms[0], &b.info.Terms[0]
		return cmp.Or(p.Xorb.Compare(q.Xorb), cmp.Compare(p.Chunks.Start, q.Chunks.Start))
	})
	if err := r.runWindows(ctx, files); err != nil {
		return err
	}
	for _, c := range alone {
		if err := r.warm(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// describe requests the terms of files.
func (r *Run) describe(ctx context.Context, lot []file) (files []plannedFile, alone []file, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	ids := make([]codec.FileID, len(lot))
	for i := range lot {
		ids[i] = lot[i].id
	}
	var mu sync.Mutex
	terms := 0
	r.Cache.FileInfos(ctx, ids, func(i int, fi *shard.FileInfo, err error) {
		c := lot[i]
		if err == nil {
			err = c.fits(fi.Size())
		}
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err != nil:
			r.Bar.Add(c.size)
			if err := r.finish(ctx, c, false, err); err != nil {
				stop(err)
			}
		case len(fi.Terms) > fileTerms || terms+len(fi.Terms) > batchTerms:
			alone = append(alone, c)
		default:
			terms += len(fi.Terms)
			files = append(files, plannedFile{file: c, info: fi})
		}
	})
	return files, alone, context.Cause(ctx)
}

// runWindows stores files in their order.
func (r *Run) runWindows(ctx context.Context, files []plannedFile) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	fetched := make(chan []plannedFile)
	var going sync.WaitGroup
	going.Go(func() {
		for round := range fetched {
			if err := r.storeWindow(ctx, round); err != nil {
				stop(err)
			}
			clear(round) // free the terms
		}
	})
	for len(files) > 0 {
		round := files[:r.windowLength(files)]
		if err := r.fetchWindow(ctx, round); err != nil {
			stop(err)
			break
		}
		fetched <- round
		files = files[len(round):]
	}
	close(fetched)
	going.Wait()
	return context.Cause(ctx)
}

// windowLength returns the number of files in the next window.
func (r *Run) windowLength(files []plannedFile) (n int) {
	bytes, terms := int64(0), 0
	for n < min(len(files), windowFiles) {
		bytes += files[n].size
		terms += len(files[n].info.Terms)
		if n > 0 && (bytes > r.windowBytes || terms > windowTerms) {
			break
		}
		n++
	}
	return n
}

// fetchWindow downloads the missing chunks of files.
func (r *Run) fetchWindow(ctx context.Context, round []plannedFile) error {
	missing := &missingChunks{}
	for i := range round {
		f := &round[i]
		f.there = !r.add(missing, f.path, f.info.Terms)
	}
	_, err := r.download(ctx, missing, func(int64) {}) // storeFile reports what is lost
	return err
}

// storeWindow materializes files whose chunks are on disk, or checks that the chunks are.
func (r *Run) storeWindow(ctx context.Context, round []plannedFile) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	ui.ForEach(ctx, warmers, round, func(ctx context.Context, f plannedFile) {
		if err := r.storeFile(ctx, &f); err != nil {
			stop(err)
		}
	})
	return context.Cause(ctx)
}

// storeFile stores a file whose chunks should be on disk.
func (r *Run) storeFile(ctx context.Context, f *plannedFile) error {
	var err error
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case !r.Chunks:
		err = r.Reader.MaterializeInfo(ctx, f.id, f.info, f.sum)
	case r.isMissing(f.info.Terms):
		return r.warm(ctx, f.file) // reports the reason
	default:
		err = r.compare(ctx, f.file)
	}
	r.Bar.Add(f.size)
	return r.finish(ctx, f.file, r.Chunks && f.there, err)
}
