package objects

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/xetfs/xetfs/cache/flight"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/shard"
)

// Neighboring File Info blocks of a remote shard are read with one request.
const (
	groupBytes    = 1 << 20  // maximum bytes of one request
	coalesceBytes = 64 << 10 // unneeded bytes that are read to save a request
	groupFiles    = 4096     // maximum, because the files of a group are decoded in order
	maxGroups     = 16       // at once
)

// FileInfos implements Source.
func (o *objects) FileInfos(ctx context.Context, ids []codec.FileID, yield func(i int, fi *shard.FileInfo, err error)) {
	groups := make(chan []int)
	var workers sync.WaitGroup
	for range maxGroups {
		workers.Go(func() {
			for group := range groups {
				o.yieldGroup(ctx, ids, group, yield)
			}
		})
	}
	for group := range grouped(ids) {
		groups <- group
	}
	close(groups)
	workers.Wait()
}

// grouped yields groups of indexes into ids. The blocks of a group are close to each other.
func grouped(ids []codec.FileID) func(yield func([]int) bool) {
	order := make([]int, len(ids))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(ids[a].Shard.Compare(ids[b].Shard), cmp.Compare(ids[a].Block, ids[b].Block))
	})
	return func(yield func([]int) bool) {
		for len(order) > 0 {
			n := 1
			for n < len(order) && n < groupFiles && inGroup(ids[order[0]], ids[order[n-1]], ids[order[n]]) {
				n++
			}
			if !yield(order[:n]) {
				return
			}
			order = order[n:]
		}
	}
}

// inGroup reports whether the block of next can be read with those from first to last.
func inGroup(first, last, next codec.FileID) bool {
	if next.Shard != first.Shard {
		return false
	}
	return next.Block-last.Block <= coalesceBytes && next.Block-first.Block <= groupBytes
}

// yieldGroup yields the files of a group, from the metacache or with one request for all
// others.
func (o *objects) yieldGroup(ctx context.Context, ids []codec.FileID, group []int, yield func(i int, fi *shard.FileInfo, err error)) {
	var missing []int // from the metacache
	for _, i := range group {
		if fi, ok := o.cachedFileInfo(ctx, ids[i]); ok {
			yield(i, fi, nil)
		} else {
			missing = append(missing, i)
		}
	}
	if len(missing) == 0 {
		return
	}
	spec := o.readGroup(ctx, ids[missing[0]], ids[missing[len(missing)-1]])
	for _, i := range missing {
		fi, err := o.fileInfoIn(ctx, ids[i], spec)
		yield(i, fi, err)
	}
}

// readGroup reads the part of a shard from the block of one file to that of another. It returns
// nil without a known block, for a local store, and after an error.
func (o *objects) readGroup(ctx context.Context, first, last codec.FileID) *origin.Part {
	if o.local || first.Shard.IsZero() || first.Block == 0 {
		return nil
	}
	f, err := o.openShard(ctx, first.Shard)
	if err != nil {
		return nil // FileInfo of each file returns the error
	}
	part, err := f.block(ctx, first.Block, last.Block-first.Block+blockPart)
	if err != nil {
		return nil
	}
	return &part
}

// fileInfoIn is FileInfo of a file that is not in the metacache. spec may hold the block.
func (o *objects) fileInfoIn(ctx context.Context, id codec.FileID, spec *origin.Part) (fi *shard.FileInfo, err error) {
	defer flight.Guard(&err)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case id.File.IsZero():
		return new(shard.FileInfo), nil
	}
	return o.findFile(ctx, id, spec)
}
