package origin

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// errIncomplete means that a File Info block is good as far as it could be checked,
// and that not all of its chunks can be had.
var errIncomplete = errors.New("not all chunks are known")

// FileInfo implements Source. Several shards may describe one file. The one that id
// names is asked first; if what it says is damaged or incomplete, the others are
// asked, and the first good answer is taken.
func (o *objects) FileInfo(ctx context.Context, id codec.FileID) (*shard.FileInfo, error) {
	if id.File.IsZero() {
		return new(shard.FileInfo), nil
	}
	var (
		incomplete *shard.FileInfo
		first      error
	)
	for s, err := range o.describing(ctx, id) {
		var fi *shard.FileInfo
		if err == nil {
			fi, err = o.readFileInfo(ctx, s, id)
		}
		if err == nil {
			err = o.checkFileInfo(ctx, fi)
		}
		switch {
		case err == nil:
			return fi, nil
		case passing(err):
			return nil, err
		case errors.Is(err, errIncomplete) && incomplete == nil:
			incomplete = fi
		case !errors.Is(err, shard.ErrNoFile) && !errors.Is(err, errIncomplete):
			o.dropShard(s)
			if first == nil {
				first = fmt.Errorf("shard %s: %w", s, err)
			}
		}
	}
	switch {
	case incomplete != nil:
		return incomplete, nil // what is there can be read
	case first != nil:
		return nil, fmt.Errorf("file %s: %w", id.File, first)
	}
	return nil, fmt.Errorf("file %s: %w: no shard describes it", id.File, ErrNotFound)
}

// describing yields the shards that may describe a file: the one that id names, then
// all others of the store.
func (o *objects) describing(ctx context.Context, id codec.FileID) func(yield func(codec.Hash, error) bool) {
	return func(yield func(codec.Hash, error) bool) {
		if !id.Shard.IsZero() && !yield(id.Shard, nil) {
			return
		}
		if !o.near && !id.Shard.IsZero() {
			return // a far store is not searched for a second description
		}
		for item, err := range o.store.List(ctx, names.ShardPrefix, "") {
			if err != nil {
				if !errors.Is(err, errors.ErrUnsupported) {
					yield(codec.Hash{}, err)
				}
				return
			}
			p, err := names.ParseKey(item.Key)
			if err != nil || p.Kind != names.ShardKind || codec.Hash(p.Hash) == id.Shard {
				continue
			}
			if !yield(p.Hash, nil) {
				return
			}
		}
	}
}

// readFileInfo reads the File Info block of a file in one shard and remembers that
// this shard may list the chunks of the file's xorbs.
func (o *objects) readFileInfo(ctx context.Context, s codec.Hash, id codec.FileID) (*shard.FileInfo, error) {
	r, err := o.openShard(ctx, s)
	if err != nil {
		return nil, err
	}
	var fi *shard.FileInfo
	if s == id.Shard && id.Block != 0 {
		fi, err = shard.ReadFileInfo(ReaderAt(ctx, o.store, names.ShardKey(s)), id.Block)
	} else {
		fi, err = r.FileInfo(id.File)
	}
	if err != nil {
		return nil, err
	}
	if fi.File != id.File {
		return nil, codec.Corrupt("file info block", fi.Block, "describes file %s", fi.File)
	}
	if !r.Meta().Keyed {
		o.remember(s, fi.Terms)
	}
	return fi, nil
}

// maxListers bounds how many shards are remembered for one xorb: the second is for
// when the first is damaged.
const maxListers = 4

func (o *objects) remember(s codec.Hash, terms []codec.Term) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var last codec.Hash
	for _, t := range terms {
		if t.Xorb == last {
			continue
		}
		last = t.Xorb
		if known := o.lists[last]; len(known) < maxListers && !slices.Contains(known, s) {
			o.lists[last] = append(known, s)
		}
	}
}

// listers returns the shards that may list the chunks of xorb x.
func (o *objects) listers(x codec.Hash) []codec.Hash {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.lists[x])
}

// checkFileInfo compares a File Info block with the chunks it leads to: the
// verification hash of every term and the hash of the file. A term whose xorb is
// absent or does not fit is left to whoever reads it; the answer is errIncomplete then.
func (o *objects) checkFileInfo(ctx context.Context, fi *shard.FileInfo) error {
	if !o.near {
		return nil // it would cost a request a xorb; chunks are checked as they come
	}
	var leaves []merkle.Leaf
	complete := true
	for i, t := range fi.Terms {
		in, err := o.infos.get(ctx, t.Xorb)
		if passing(err) {
			return err
		}
		if err != nil || in.Chunks == nil || checkTerm(in, t) != nil {
			complete = false
			continue
		}
		hashes := in.Chunks[t.Chunks.Start:t.Chunks.End]
		if fi.Verify != nil && merkle.Term(hashes) != fi.Verify[i] {
			return codec.Corrupt("file info block", fi.Block, "term %d: its verification hash is not that of chunks %v of xorb %s", i, t.Chunks, t.Xorb)
		}
		if complete {
			leaves = appendLeaves(leaves, in, t.Chunks)
		}
	}
	if !complete {
		return errIncomplete
	}
	if root := merkle.File(leaves); root != fi.File {
		return codec.Corrupt("file info block", fi.Block, "its terms make file %s", root)
	}
	return nil
}

// appendLeaves adds chunks r of a xorb to the leaves of a tree.
func appendLeaves(leaves []merkle.Leaf, in *xorb.Info, r codec.ChunkRange) []merkle.Leaf {
	start, _ := in.UnpackedRange(r)
	for i := r.Start; i < r.End; i++ {
		end := int64(in.UnpackedEnd[i])
		leaves = append(leaves, merkle.Leaf{Hash: in.Chunks[i], Size: uint64(end - start)})
		start = end
	}
	return leaves
}
