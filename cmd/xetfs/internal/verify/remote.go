package verify

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"maps"
	"slices"

	"golang.org/x/sync/semaphore"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/shard"
)

// A remote check requests each xorb once, although the xorb itself and several files need it.
// The files of a shard are therefore checked in the order of their chunks. The first file that
// needs a xorb loads it, and the XorbCache holds it for the other files. A xorb that distant
// files share is read again, in parts.
const (
	remoteShards     = 8        // at a time
	remoteShardBytes = 64 << 20 // bytes of those: one of the largest
)

// runRemote checks everything in a remote store.
func (v *verifier) runRemote(ctx context.Context, shards, xorbs []Object) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	held, sizes, byKey := v.Remote, map[names.Key]int64{}, map[names.Key]Object{}
	var large []Object // that are not held, and come again
	for _, f := range xorbs {
		if k := names.XorbKey(f.Hash); f.Size <= held.most/loadShare {
			sizes[k], byKey[k] = f.Size, f
		} else {
			large = append(large, f)
		}
	}
	v.inParallel(ctx, large, v.checkXorb)
	held.begin(ctx, sizes, func(ctx context.Context, k names.Key) []byte { return v.loadXorb(ctx, k, byKey[k]) })
	room, xorbRoom := semaphore.NewWeighted(remoteShardBytes), semaphore.NewWeighted(held.most)
	largestFirst(ctx, remoteShards, shards, func(ctx context.Context, f Object) {
		n := min(f.Size, remoteShardBytes)
		if room.Acquire(ctx, n) != nil {
			return
		}
		defer room.Release(n)
		files := &remoteFiles{v: v, room: xorbRoom}
		v.checkShard(ctx, f, files.add, func(s *shard.Reader) { files.run(ctx, s) })
	})
	largestFirst(ctx, maxLoads, xorbs, func(ctx context.Context, f Object) {
		held.wait(ctx, names.XorbKey(f.Hash)) // xorbs that no shard lists
	})
	held.wg.Wait()
}

// loadXorb fetches a xorb, checks it, and returns it if it is sound. A damaged xorb is fetched
// once more, past all caches, because the damage may be one of the transfer.
func (v *verifier) loadXorb(ctx context.Context, k names.Key, f Object) []byte {
	bar := v.Bar
	for try := ctx; ; try = origin.NoCache(ctx) {
		b, err := v.Remote.fetch(try, k, f.Size)
		x := xorbReport{err: err}
		if err == nil {
			x = examine(&object{ctx: ctx, f: memoryObject{bytes.NewReader(b)}, bar: bar}, f, v.proven.take(f.Hash))
		}
		if len(x.faults) == 0 || origin.IsNoCache(try) {
			v.judge(ctx, f, x)
			if !x.sound() {
				return nil
			}
			return b
		}
		bar = nil
	}
}

// A remoteFiles holds the files of one shard until they are checked.
type remoteFiles struct {
	v    *verifier
	room *semaphore.Weighted // for the xorbs of shards that are checked at a time
	jobs []fileJob
}

// add adds a file, unless a block with the same content was checked before.
func (c *remoteFiles) add(_ context.Context, job fileJob) {
	if c.v.firstTime(job.info) {
		c.jobs = append(c.jobs, job)
	} else {
		c.v.Bar.Add(job.info.Size())
	}
}

// run checks the files, and the xorbs that their shard lists.
func (c *remoteFiles) run(ctx context.Context, s *shard.Reader) {
	held := c.v.Remote
	jobs, xorbs := byLayout(c.jobs)
	c.jobs = nil
	keys, bytes := make([]names.Key, 0, len(xorbs)), int64(1)
	for _, x := range xorbs {
		keys = append(keys, names.XorbKey(x))
		bytes += held.sizes[names.XorbKey(x)]
	}
	bytes = min(bytes, held.most)
	if c.room.Acquire(ctx, bytes) != nil {
		return
	}
	defer c.room.Release(bytes)
	held.prefetchOrder(keys)
	ui.ForEach(ctx, fileWorkers, jobs, c.v.checkFile)
	var listed []names.Key
	for x, err := range s.Xorbs() {
		if err == nil {
			listed = append(listed, names.XorbKey(x.Xorb))
			held.start(listed[len(listed)-1])
		}
	}
	for _, k := range listed {
		held.wait(ctx, k)
	}
}

// byLayout returns files in the order of their chunks, and the xorbs in the same order. The
// files that begin in a xorb precede the files that begin where they continue. Two files that
// share a xorb are then checked shortly after each other.
func byLayout(jobs []fileJob) (ordered []fileJob, xorbs []codec.Hash) {
	begin := map[codec.Hash][]fileJob{} // the files that begin in a xorb
	for _, job := range jobs {
		if terms := job.info.Terms; len(terms) > 0 {
			begin[terms[0].Xorb] = append(begin[terms[0].Xorb], job)
		} else {
			ordered = append(ordered, job)
		}
	}
	seen := map[codec.Hash]bool{}
	see := func(x codec.Hash) {
		if !seen[x] {
			seen[x] = true
			xorbs = append(xorbs, x)
		}
	}
	next := 0
	for _, first := range firstXorbs(begin) {
		for see(first); next < len(xorbs); next++ {
			here := begin[xorbs[next]]
			slices.SortStableFunc(here, func(a, b fileJob) int {
				return cmp.Compare(a.info.Terms[0].Chunks.Start, b.info.Terms[0].Chunks.Start)
			})
			for _, job := range here {
				for i := range job.info.Terms {
					see(job.info.Terms[i].Xorb)
				}
			}
			ordered = append(ordered, here...)
		}
	}
	return ordered, xorbs
}

// firstXorbs returns the xorbs in which files begin. Xorbs into which no file continues are
// first.
func firstXorbs(begin map[codec.Hash][]fileJob) []codec.Hash {
	inside := map[codec.Hash]int{} // 1: a file continues there
	for x, jobs := range begin {
		for _, job := range jobs {
			for i := range job.info.Terms {
				if on := job.info.Terms[i].Xorb; on != x {
					inside[on] = 1
				}
			}
		}
	}
	return slices.SortedFunc(maps.Keys(begin), func(a, b codec.Hash) int {
		return cmp.Or(cmp.Compare(inside[a], inside[b]), a.Compare(b))
	})
}

// A memoryObject is an object in memory.
type memoryObject struct{ io.ReaderAt }

// Close implements io.Closer.
func (memoryObject) Close() error { return nil }
