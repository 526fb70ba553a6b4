package delta

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/xetfs/xetfs/cache/lru"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
	"github.com/xetfs/xetfs/fs/catalog"
)

// A Cost is the amount of data that has to be fetched, as diff --json shows it. The names are
// a promise.
type Cost struct {
	Xorbs  int64 `json:"xorbs"`
	Chunks int64 `json:"chunks"`
	Bytes  int64 `json:"bytes"` // packed, as stored
}

// A Set holds the chunks of files of one tree that another tree does not have. It takes at most
// 1 KiB of memory for each xorb.
type Set struct {
	store  origin.Store
	source origin.Source
	want   chunkSets
	have   chunkSets           // of changed files of the other tree
	shards map[codec.Hash]bool // shards that were read: whether they list a wanted xorb
	infos  *lru.Cache[codec.Hash, *xorb.Info]
	keep   int         // largest files that Compare returns
	files  []FileTerms // at most twice keep
	rest   int64       // changed files that are not in files
}

// maxInfos bounds the xorbs whose chunk offsets are in memory, at most 64 KiB for each.
const maxInfos = 512

// chunkSets are chunks by xorb.
type chunkSets map[codec.Hash]*codec.ChunkSet

// add adds the chunks of a term.
func (s chunkSets) add(t codec.Term) {
	set := s[t.Xorb]
	if set == nil {
		set = new(codec.ChunkSet)
		s[t.Xorb] = set
	}
	set.Add(t.Chunks)
}

// remove removes chunks, and a xorb without any.
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

func NewSet(s origin.Store, source origin.Source) *Set {
	return &Set{
		store: s, source: source,
		want: chunkSets{}, have: chunkSets{}, shards: map[codec.Hash]bool{},
		infos: lru.New[codec.Hash, *xorb.Info](maxInfos, nil),
	}
}

// Add adds a difference between the trees. content reports whether the bytes of the two sides
// differ. Changed files of the other tree have most of the chunks that need not be fetched, and
// their terms are cheap to read.
func (n *Set) Add(ctx context.Context, c page.Change, content bool) error {
	var f FileTerms
	for _, side := range []struct {
		entry *page.Entry
		used  bool
		set   chunkSets
		terms *[]codec.Term
	}{{c.New, content, n.want, &f.New}, {c.Old, true, n.have, &f.Old}} {
		if side.entry == nil || !side.used {
			continue
		}
		err := n.terms(ctx, side.entry, func(t codec.Term) {
			side.set.add(t)
			if n.keep > 0 && content {
				*side.terms = append(*side.terms, t)
			}
		})
		if err != nil {
			return fmt.Errorf("%s: %w", side.entry.Path, err)
		}
		f.Path = side.entry.Path
	}
	if len(f.New)+len(f.Old) > 0 {
		n.keepLargest(f)
	}
	return nil
}

// terms calls do for the terms of a file.
func (n *Set) terms(ctx context.Context, e *page.Entry, do func(codec.Term)) error {
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

// describe returns the terms of a file from the shard of its entry, or else from any shard.
func (n *Set) describe(ctx context.Context, id codec.FileID) (*shard.FileInfo, error) {
	k := names.ShardKey(id.Shard)
	if size, err := n.store.Size(ctx, k); err == nil && !id.Shard.IsZero() {
		r := io.NewSectionReader(origin.ReaderAt(ctx, n.store, k), 0, size)
		if in, err := shard.ReadFileInfo(r, id.Block); err == nil && in.File == id.File {
			return in, nil
		}
	}
	return n.source.FileInfo(ctx, id)
}

// Cost removes the chunks of the whole other tree and returns the cost of the rest. It calls
// seen with the number of files so far.
func (n *Set) Cost(ctx context.Context, tree catalog.Tree, seen func(files int64)) (*Cost, error) {
	for x, set := range n.have {
		n.want.remove(x, set)
	}
	if err := n.removeTree(ctx, tree, seen); err != nil {
		return nil, err
	}
	return n.sum(ctx)
}

// sum returns the cost of all wanted chunks.
func (n *Set) sum(ctx context.Context) (*Cost, error) {
	cost := Cost{Xorbs: int64(len(n.want))}
	for x, set := range n.want {
		chunks, bytes, err := n.cost(ctx, x, set)
		if err != nil {
			return nil, fmt.Errorf("xorb %s: %w", x, err)
		}
		cost.Chunks += chunks
		cost.Bytes += bytes
	}
	return &cost, nil
}

// removeTree removes the chunks of all files of a tree. It reads only shards that list a wanted
// xorb.
func (n *Set) removeTree(ctx context.Context, tree catalog.Tree, seen func(files int64)) error {
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

// mayHold reports whether a shard lists a wanted xorb. It reads each shard once.
func (n *Set) mayHold(ctx context.Context, s codec.Hash) bool {
	may, known := n.shards[s]
	if !known {
		may = s.IsZero() || n.namesWanted(ctx, s)
		n.shards[s] = may
	}
	return may
}

// namesWanted reports whether a shard lists a wanted xorb. The answer for an unreadable shard
// is true.
func (n *Set) namesWanted(ctx context.Context, s codec.Hash) bool {
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

// cost returns the number of chunks of a xorb and their packed bytes.
func (n *Set) cost(ctx context.Context, x codec.Hash, set *codec.ChunkSet) (chunks, bytes int64, err error) {
	in, err := n.info(ctx, x)
	if err != nil {
		return 0, 0, err
	}
	for r := range set.Ranges(0, codec.MaxXorbChunks) {
		if err := checkRange(in, r); err != nil {
			return 0, 0, err
		}
		start, end := in.PackedRange(r)
		chunks += int64(r.Len())
		bytes += end - start
	}
	return chunks, bytes, nil
}

// info returns the offsets of the chunks of a xorb.
func (n *Set) info(ctx context.Context, x codec.Hash) (*xorb.Info, error) {
	if in, ok := n.infos.Get(x); ok {
		return in, nil
	}
	k := names.XorbKey(x)
	size, err := n.store.Size(ctx, k)
	if err != nil {
		return nil, err
	}
	r := origin.ReaderAt(ctx, n.store, k)
	in, err := xorb.ReadInfo(r, size)
	if errors.Is(err, xorb.ErrNoFooter) {
		in, err = xorb.WalkInfo(r, size)
	}
	if err != nil {
		return nil, err
	}
	in.Chunks = nil // the offsets suffice
	return n.infos.Add(x, in, 1), nil
}

// checkRange refuses chunks that a xorb does not have.
func checkRange(in *xorb.Info, r codec.ChunkRange) error {
	if int(r.End) > in.Len() {
		return codec.Corrupt("term", 0, "names chunk %d of a xorb of %d chunks", max(r.Start, uint32(in.Len())), in.Len())
	}
	return nil
}
