package main

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"

	"golang.org/x/sync/semaphore"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/shard"
)

// What is far is to come once, though each xorb is checked by itself and read by files. So
// the files of a shard are checked in the order in which their chunks lie, and a xorb when
// the first of them asks for it; it stays in memory for the others (heldStore). A xorb that
// files far apart share comes again, in the parts that they need.
const (
	farShards = 8        // at a time
	farShard  = 64 << 20 // bytes of those: one of the largest
)

// runHeld checks everything that is far.
func (v *verifier) runHeld(ctx context.Context, shards, xorbs []dir.File) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	held, sizes, byKey := v.place.held, map[names.Key]int64{}, map[names.Key]dir.File{}
	var large []dir.File // that are not held, and come again
	for _, f := range xorbs {
		if k := names.XorbKey(f.Hash); f.Size <= held.most/heldShare {
			sizes[k], byKey[k] = f.Size, f
		} else {
			large = append(large, f)
		}
	}
	v.inParallel(ctx, large, v.checkXorb)
	held.begin(ctx, sizes, func(ctx context.Context, k names.Key) []byte { return v.loadXorb(ctx, k, byKey[k]) })
	room, xorbRoom := semaphore.NewWeighted(farShard), semaphore.NewWeighted(held.most)
	largestFirst(ctx, farShards, shards, func(ctx context.Context, f dir.File) {
		n := min(f.Size, farShard)
		if room.Acquire(ctx, n) != nil {
			return
		}
		defer room.Release(n)
		files := &farFiles{v: v, room: xorbRoom}
		v.checkShard(ctx, f, files.add, func(s *shard.Reader) { files.run(ctx, s) })
	})
	largestFirst(ctx, heldLoads, xorbs, func(ctx context.Context, f dir.File) {
		held.want(ctx, names.XorbKey(f.Hash)) // those that no shard knows
	})
	held.going.Wait()
}

// loadXorb fetches a xorb, checks it, and returns it if it is sound. What came damaged may
// have been damaged on the way.
func (v *verifier) loadXorb(ctx context.Context, k names.Key, f dir.File) []byte {
	bar := v.bar
	for try := ctx; ; try = origin.NoCache(ctx) {
		b, err := v.place.held.fetch(try, k, f.Size)
		x := examined{err: err}
		if err == nil {
			x = examine(&object{ctx: ctx, f: farObject{bytes.NewReader(b)}, bar: bar}, f)
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

// farFiles are the files of one shard that are to be checked.
type farFiles struct {
	v    *verifier
	room *semaphore.Weighted // for the xorbs of shards that are checked at a time
	jobs []fileJob
}

// add notes a file, unless a block that says the same was checked.
func (c *farFiles) add(_ context.Context, job fileJob) {
	if c.v.firstTime(job.info) {
		c.jobs = append(c.jobs, job)
	} else {
		c.v.bar.Add(job.info.Size())
	}
}

// run checks the files, and the xorbs that their shard lists.
func (c *farFiles) run(ctx context.Context, s *shard.Reader) {
	held := c.v.place.held
	jobs, xorbs := inPlace(c.jobs)
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
	held.follow(keys)
	ui.ForEach(ctx, fileWorkers, jobs, c.v.checkFile)
	var listed []names.Key
	for x, err := range s.Xorbs() {
		if err == nil {
			listed = append(listed, names.XorbKey(x.Xorb))
			held.find(listed[len(listed)-1])
		}
	}
	for _, k := range listed {
		held.want(ctx, k)
	}
}

// inPlace returns files in the order in which their chunks lie, and the xorbs of these as
// they come. After the files that begin in a xorb come those that begin where the first of
// them go on, so that a xorb that two files share is needed twice within a short time.
func inPlace(jobs []fileJob) (ordered []fileJob, xorbs []codec.Hash) {
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

// firstXorbs returns the xorbs in which files begin, those first in which none goes on.
func firstXorbs(begin map[codec.Hash][]fileJob) []codec.Hash {
	inside := map[codec.Hash]int{} // 1: a file goes on there
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
