package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
	"github.com/xetfs/xetfs/fs/catalog"
)

// A need is the chunks that files of one tree consist of, less those of another tree. It
// takes at most 1 KiB of memory for each xorb.
type need struct {
	store  origin.Store
	source origin.Source
	want   chunkSets
	have   chunkSets           // of files that are not the same in the other tree
	shards map[codec.Hash]bool // those looked through, and whether they name a xorb that is wanted
}

// chunkSets are chunks of xorbs.
type chunkSets map[codec.Hash]*codec.ChunkSet

// add adds the chunks of a term, which the caller has seen to be in a xorb.
func (s chunkSets) add(t codec.Term) {
	set := s[t.Xorb]
	if set == nil {
		set = new(codec.ChunkSet)
		s[t.Xorb] = set
	}
	set.Add(t.Chunks)
}

// remove takes chunks away, and forgets a xorb without any.
func (s chunkSets) remove(x codec.Hash, chunks *codec.ChunkSet) {
	set := s[x]
	if set == nil {
		return
	}
	for r := range chunks.Ranges(0, codec.MaxXorbChunks) {
		set.Remove(r)
	}
	if set.IsEmpty() {
		delete(s, x)
	}
}

func newNeed(s origin.Store) *need {
	return &need{
		store: s, source: origin.Objects(s, 0),
		want: chunkSets{}, have: chunkSets{}, shards: map[codec.Hash]bool{},
	}
}

// add adds the chunks of a file.
func (n *need) add(ctx context.Context, e *page.Entry) error {
	return n.terms(ctx, e, n.want.add)
}

// hold says that a file, which is not the same in the other tree, is there in that. Most
// chunks that need not be fetched are in such files, and without gets to know it cheaply.
func (n *need) hold(ctx context.Context, e *page.Entry) error {
	return n.terms(ctx, e, n.have.add)
}

// terms calls do for the terms of a file.
func (n *need) terms(ctx context.Context, e *page.Entry, do func(codec.Term)) error {
	if e.Type != page.File || e.Size == 0 || len(e.Inline) > 0 {
		return nil
	}
	in, err := n.describe(ctx, e.ID)
	if err != nil {
		return err
	}
	for _, t := range in.Terms {
		if t.Chunks.End > codec.MaxXorbChunks {
			return codec.Corrupt("term", 0, "names chunks %v, a xorb has at most %d", t.Chunks, codec.MaxXorbChunks)
		}
		do(t)
	}
	return nil
}

// describe returns the terms of a file from where its entry says, without a look at the
// xorbs, or else from anywhere.
func (n *need) describe(ctx context.Context, id codec.FileID) (*shard.FileInfo, error) {
	k := names.ShardKey(id.Shard)
	if size, err := n.store.Size(ctx, k); err == nil && !id.Shard.IsZero() {
		r := io.NewSectionReader(origin.ReaderAt(ctx, n.store, k), 0, size)
		if in, err := shard.ReadFileInfo(r, id.Block); err == nil && in.File == id.File {
			return in, nil
		}
	}
	return n.source.FileInfo(ctx, id)
}

// without takes away the chunks of the whole other tree, and returns what is left. It
// tells seen how many files it has looked at.
func (n *need) without(ctx context.Context, tree catalog.Tree, seen func(files int64)) (*fetchDoc, error) {
	for x, set := range n.have {
		n.want.remove(x, set)
	}
	if err := n.removeTree(ctx, tree, seen); err != nil {
		return nil, err
	}
	doc := fetchDoc{Xorbs: int64(len(n.want))}
	for x, set := range n.want {
		chunks, bytes, err := n.weigh(ctx, x, set)
		if err != nil {
			return nil, fmt.Errorf("xorb %s: %w", x, err)
		}
		doc.Chunks += chunks
		doc.Bytes += bytes
	}
	return &doc, nil
}

// removeTree takes away the chunks of all files of a tree. Only shards that name a xorb
// that is wanted are asked for their files.
func (n *need) removeTree(ctx context.Context, tree catalog.Tree, seen func(files int64)) error {
	files := int64(0)
	for e, err := range tree.All(ctx, "") {
		if err != nil || len(n.want) == 0 {
			return err
		}
		if e.Type != page.File {
			continue
		}
		if files++; files%1024 == 0 {
			seen(files)
		}
		if !n.mayHold(ctx, e.ID.Shard) {
			continue
		}
		held := chunkSets{}
		if err := n.terms(ctx, &e, held.add); err != nil {
			return fmt.Errorf("%s: %w", e.Path, err)
		}
		for x, set := range held {
			n.want.remove(x, set)
		}
	}
	return nil
}

// mayHold says whether a shard names a xorb that is wanted. It is looked through once.
func (n *need) mayHold(ctx context.Context, s codec.Hash) bool {
	may, known := n.shards[s]
	if !known {
		may = s.IsZero() || n.namesWanted(ctx, s)
		n.shards[s] = may
	}
	return may
}

// namesWanted looks through a shard. If it cannot be read, its files may be anywhere.
func (n *need) namesWanted(ctx context.Context, s codec.Hash) bool {
	k := names.ShardKey(s)
	size, err := n.store.Size(ctx, k)
	if err != nil {
		return true
	}
	r, err := shard.NewReader(origin.ReaderAt(ctx, n.store, k), size)
	if err != nil {
		return true
	}
	for in, err := range r.Files() {
		if err != nil {
			return true
		}
		for _, t := range in.Terms {
			if n.want[t.Xorb] != nil {
				return true
			}
		}
	}
	return false
}

// weigh counts chunks of a xorb, and their bytes as they are stored.
func (n *need) weigh(ctx context.Context, x codec.Hash, set *codec.ChunkSet) (chunks, bytes int64, err error) {
	k := names.XorbKey(x)
	size, err := n.store.Size(ctx, k)
	if err != nil {
		return 0, 0, err
	}
	r := origin.ReaderAt(ctx, n.store, k)
	in, err := xorb.ReadInfo(r, size)
	if errors.Is(err, xorb.ErrNoFooter) {
		in, err = xorb.WalkInfo(r, size)
	}
	if err != nil {
		return 0, 0, err
	}
	for r := range set.Ranges(0, codec.MaxXorbChunks) {
		if int(r.End) > in.Len() {
			return 0, 0, codec.Corrupt("term", 0, "names chunk %d of a xorb of %d chunks", max(r.Start, uint32(in.Len())), in.Len())
		}
		start, end := in.PackedRange(r)
		chunks += int64(r.Len())
		bytes += end - start
	}
	return chunks, bytes, nil
}
