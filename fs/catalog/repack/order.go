package repack

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/fs/catalog/sweep"
)

// An oldShard is a replaced shard: its live files in the order of their first use.
type oldShard struct {
	files []oldFile
	at    map[uint32]uint32 // offset of a block in records → index into files
}

// An oldFile is a live file in a replaced shard.
type oldFile struct {
	block uint32 // offset of its block, in records
	word  uint64 // one word of its hash
	shard uint32 // 1 + index of the new shard; 0: the file stays
	to    uint32 // offset of the new block, in records
}

// fileBytes is about what an oldFile takes, with its places in two maps.
const fileBytes = 150

// lookAll walks all live trees.
func (r *run) lookAll(ctx context.Context) error {
	err := r.eachRow(ctx, func(row names.Row) error {
		if _, err := r.look(ctx, row.Root, nil, 0); err != nil {
			return err
		}
		if need := r.memory(); r.o.Memory > 0 && need > r.o.Memory {
			return fmt.Errorf("%w: more than %d MiB for the files of replaced shards", sweep.ErrMemory, need>>20)
		}
		return nil
	})
	return err
}

// memory returns about how many bytes are in use.
func (r *run) memory() int64 {
	n := workMemory + r.report.Usage.Memory() + 50*int64(len(r.looked))
	for _, s := range r.shards {
		n += fileBytes * int64(len(s.files))
	}
	for h := range r.plan.Xorbs {
		n += 8 * int64(r.report.Usage.Xorbs[h].Chunks)
	}
	return n
}

// look walks a tree, each page once, and reports whether one of its files is in a replaced
// shard.
func (r *run) look(ctx context.Context, h page.Hash, parent *page.Page, row int) (touched bool, err error) {
	if touched, ok := r.looked[h]; ok {
		return touched, nil
	}
	p, err := r.page(ctx, h, parent, row)
	if err != nil {
		return false, err
	}
	if p.Level() == 0 {
		touched = r.lookLeaf(p)
	} else {
		i := 0
		for l := range p.LinksFrom(0) {
			below, err := r.look(ctx, l.Page, p, i)
			if err != nil {
				return false, err
			}
			touched = touched || below
			i++
		}
	}
	r.looked[h] = touched
	if len(r.looked)%64 == 0 {
		r.o.Progress(Progress{Doing: Looking, Done: int64(len(r.looked))})
	}
	return touched, nil
}

// lookLeaf adds the files of a leaf to their shards.
func (r *run) lookLeaf(p *page.Page) (touched bool) {
	for e := range p.EntriesFrom(0) {
		s := r.shards[e.ID.Shard]
		if s == nil || e.ID.File.IsZero() {
			continue
		}
		touched = true
		block := uint32(e.ID.Block / shard.BlockUnit)
		if _, ok := s.at[block]; ok || len(r.stored) > 0 {
			continue // files that became live during the repack stay
		}
		if len(s.files) == 0 {
			r.order = append(r.order, e.ID.Shard)
		}
		s.at[block] = uint32(len(s.files))
		s.files = append(s.files, oldFile{block: block, word: e.ID.File.Word(0)})
	}
	return touched
}

// newPlace returns the new place of a file.
func (r *run) newPlace(id codec.FileID) codec.FileID {
	s := r.shards[id.Shard]
	if s == nil {
		return id
	}
	i, ok := s.at[uint32(id.Block/shard.BlockUnit)]
	if !ok {
		return id
	}
	f := s.files[i]
	if f.shard == 0 || f.word != id.File.Word(0) {
		return id
	}
	return codec.FileID{File: id.File, Shard: r.stored[f.shard-1], Block: int64(f.to) * shard.BlockUnit}
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
