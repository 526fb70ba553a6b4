package serve

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/xetfs/xetfs/cache"
	"github.com/xetfs/xetfs/cache/flight"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/shard"
)

// A loader fetches chunks of an upstream to the disk. Overlapping ranges are fetched once. A small
// file does not wait for large ones, because a slow upstream may need minutes for these.
type loader struct {
	cache        *cache.Cache
	large, small turns

	mu    sync.Mutex
	busy  map[codec.Hash]*codec.ChunkSet // chunks of the downloads that run or wait; guarded by mu
	ended chan struct{}                  // closed at the end of the next download; guarded by mu
}

// Turns bound the bytes of the downloads that run.
type turns struct {
	*semaphore.Weighted
	limit int64
}

func newTurns(bytes int64) turns { return turns{semaphore.NewWeighted(bytes), bytes} }

const (
	smallFile  = 4 << 20       // the most bytes of a small file
	smallLoads = 2 * smallFile // bytes of small files that are fetched at once
	xorbLoads  = 8             // xorbs of a file that are fetched at once: a file may have thousands
)

// newLoader returns a loader that fetches some bytes of large files at once.
func newLoader(c *cache.Cache, bytes int64) *loader {
	return &loader{
		cache: c, large: newTurns(bytes), small: newTurns(smallLoads),
		busy: map[codec.Hash]*codec.ChunkSet{}, ended: make(chan struct{}),
	}
}

// load fetches the missing chunks of a file. Ranges are as long as the plan has them, so that the
// source needs one request for each. A reader of the file repeats what has failed, unless the
// upstream is down.
func (l *loader) load(ctx context.Context, fi *shard.FileInfo) error {
	t := l.large
	if fi.Size() <= smallFile {
		t = l.small
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(xorbLoads)
	for x, set := range chunksOf(fi) {
		g.Go(func() (err error) {
			defer flight.Guard(&err)
			for r := range set.Ranges(0, codec.MaxXorbChunks) {
				if err := l.loadRange(ctx, t, x, r); errors.Is(err, origin.ErrUnavailable) || ctx.Err() != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// loadRange fetches the missing ones of chunks r of a xorb, and waits for those that another call
// fetches.
func (l *loader) loadRange(ctx context.Context, t turns, x codec.Hash, r codec.ChunkRange) error {
	for tries := 0; tries < maxProofs; {
		mine, ended := l.claim(x, r)
		switch {
		case len(mine) > 0:
			tries++
			if err := l.download(ctx, t, x, mine); err != nil {
				return err
			}
		case ended == nil:
			return nil
		default:
			select {
			case <-ended:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return nil
}

// claim returns the missing ones of chunks r that no call fetches. The caller must download them. If other
// calls fetch all missing chunks, it returns a channel that is closed when one of them ends.
func (l *loader) claim(x codec.Hash, r codec.ChunkRange) (mine []codec.ChunkRange, ended <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	missing := l.cache.Missing(x, r)
	if len(missing) == 0 {
		return nil, nil
	}
	busy := l.busy[x]
	if busy == nil {
		busy = new(codec.ChunkSet)
		l.busy[x] = busy
	}
	var free codec.ChunkSet
	for _, m := range missing {
		free.Add(m)
	}
	for b := range busy.Ranges(0, codec.MaxXorbChunks) {
		free.Remove(b)
	}
	for f := range free.Ranges(0, codec.MaxXorbChunks) {
		mine = append(mine, f)
		busy.Add(f)
	}
	return mine, l.ended
}

// release ends the claim of some chunks.
func (l *loader) release(x codec.Hash, claimed []codec.ChunkRange) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range claimed {
		l.busy[x].Remove(r)
	}
	if l.busy[x].IsEmpty() {
		delete(l.busy, x)
	}
	close(l.ended)
	l.ended = make(chan struct{})
}

// download fetches claimed chunks and releases them.
func (l *loader) download(ctx context.Context, t turns, x codec.Hash, claimed []codec.ChunkRange) error {
	defer l.release(x, claimed)
	for _, r := range claimed {
		if err := l.downloadRange(ctx, t, x, r); err != nil {
			return err
		}
	}
	return nil
}

func (l *loader) downloadRange(ctx context.Context, t turns, x codec.Hash, r codec.ChunkRange) error {
	n := min(int64(r.Len())*codec.MaxChunkSize, codec.MaxXorbSize, t.limit)
	if err := t.Acquire(ctx, n); err != nil {
		return err
	}
	defer t.Release(n)
	return l.cache.Download(ctx, x, r)
}
