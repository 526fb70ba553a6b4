package main

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/shard"
)

// Small files of a far source are kept in lots. What a lot is made of is asked for many
// files at a time. Then the files are put in the order in which their chunks lie, because
// shards and catalogs have other orders, and fetched in rounds: the chunks of a round go to
// the disk in long rows, and from there its files are laid down while the next one comes.
const (
	lotFiles  = 1 << 18 // at most: some 100 MB of memory, their terms included
	lotEnough = 1 << 16 // when the files of another shard come
	lotTerms  = 1 << 19
	fileTerms = 1 << 12 // a file that has more is kept by itself

	roundFiles = 2048
	roundTerms = 1 << 14 // with 1 KiB of memory each at most
	roundBytes = 64 << 20
	roundShare = 64 // of the disk cache, in which three rounds must find room
	leastRound = 1 << 20
)

// lots gathers the files of a lot.
type lots struct {
	w   *warming
	ctx context.Context // of the run
	lot []warmFile
}

func (w *warming) newLots(ctx context.Context, kept *cacheFolder) *lots {
	w.room = semaphore.NewWeighted(roomBytes)
	w.round = min(roundBytes, max(leastRound, kept.options.MaxBytes/roundShare))
	return &lots{w: w, ctx: ctx}
}

// add adds a file. If the lot is full it is kept before.
func (l *lots) add(c warmFile) error {
	if c.name {
		return l.w.warm(l.ctx, c)
	}
	if !l.w.chunks && l.w.s.cache.HasFile(c.id.File) {
		l.w.bar.Add(c.size)
		return l.w.ended(l.ctx, c, true, nil)
	}
	n := len(l.lot)
	if n == lotFiles || n >= lotEnough && c.id.Shard != l.lot[n-1].id.Shard {
		if err := l.end(); err != nil {
			return err
		}
	}
	l.lot = append(l.lot, c)
	return nil
}

// end keeps the files that were gathered.
func (l *lots) end() error {
	lot := l.lot
	l.lot = nil
	if len(lot) == 0 {
		return nil
	}
	return l.w.keepLot(l.ctx, lot)
}

// A described file is one of a lot.
type described struct {
	warmFile
	info  *shard.FileInfo
	there bool // all of its chunks were
}

// keepLot keeps files, and those by themselves that consist of too many pieces.
func (w *warming) keepLot(ctx context.Context, lot []warmFile) error {
	files, alone, err := w.describe(ctx, lot)
	if err != nil {
		return err
	}
	slices.SortFunc(files, func(a, b described) int {
		p, q := &a.info.Terms[0], &b.info.Terms[0]
		return cmp.Or(p.Xorb.Compare(q.Xorb), cmp.Compare(p.Chunks.Start, q.Chunks.Start))
	})
	if err := w.rounds(ctx, files); err != nil {
		return err
	}
	for _, c := range alone {
		if err := w.warm(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// describe asks what files are made of.
func (w *warming) describe(ctx context.Context, lot []warmFile) (files []described, alone []warmFile, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	ids := make([]codec.FileID, len(lot))
	for i := range lot {
		ids[i] = lot[i].id
	}
	var mu sync.Mutex
	terms := 0
	w.s.cache.FileInfos(ctx, ids, func(i int, fi *shard.FileInfo, err error) {
		c := lot[i]
		if err == nil {
			err = c.fits(fi.Size())
		}
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err != nil:
			w.bar.Add(c.size)
			if err := w.ended(ctx, c, false, err); err != nil {
				stop(err)
			}
		case len(fi.Terms) > fileTerms || terms+len(fi.Terms) > lotTerms:
			alone = append(alone, c)
		default:
			terms += len(fi.Terms)
			files = append(files, described{warmFile: c, info: fi})
		}
	})
	return files, alone, context.Cause(ctx)
}

// rounds keeps files in their order.
func (w *warming) rounds(ctx context.Context, files []described) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	fetched := make(chan []described)
	var going sync.WaitGroup
	going.Go(func() {
		for round := range fetched {
			if err := w.keepRound(ctx, round); err != nil {
				stop(err)
			}
			clear(round) // it takes memory
		}
	})
	for len(files) > 0 {
		round := files[:w.lengthOfRound(files)]
		if err := w.fetchRound(ctx, round); err != nil {
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

// lengthOfRound returns how many of the files come next.
func (w *warming) lengthOfRound(files []described) (n int) {
	bytes, terms := int64(0), 0
	for n < min(len(files), roundFiles) {
		bytes += files[n].size
		terms += len(files[n].info.Terms)
		if n > 0 && (bytes > w.round || terms > roundTerms) {
			break
		}
		n++
	}
	return n
}

// fetchRound has what is missing of files put on disk.
func (w *warming) fetchRound(ctx context.Context, round []described) error {
	missing := wishes{}
	for i := range round {
		f := &round[i]
		f.there = !w.add(missing, f.path, f.info.Terms)
	}
	_, err := w.bring(ctx, missing.rows(), func(int64) {}) // who lays it down says what is lost
	return err
}

// keepRound lays files down whose chunks are on disk, or makes sure that these are.
func (w *warming) keepRound(ctx context.Context, round []described) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	ui.ForEach(ctx, warmers, round, func(ctx context.Context, f described) {
		if err := w.keepFile(ctx, &f); err != nil {
			stop(err)
		}
	})
	return context.Cause(ctx)
}

// keepFile keeps a file whose chunks should be on disk.
func (w *warming) keepFile(ctx context.Context, f *described) error {
	var err error
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case !w.chunks:
		err = w.s.reader.MaterializeInfo(ctx, f.id, f.info, f.sum)
	case w.add(wishes{}, f.path, f.info.Terms):
		return w.warm(ctx, f.warmFile) // it says why
	default:
		err = w.compare(ctx, f.warmFile)
	}
	w.bar.Add(f.size)
	return w.ended(ctx, f.warmFile, w.chunks && f.there, err)
}
