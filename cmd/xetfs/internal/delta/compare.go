package delta

import (
	"context"
	"fmt"
	"slices"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/fs/catalog"
)

// A FileTerms is a file whose content differs, with its terms in both trees.
type FileTerms struct {
	Path     string
	New, Old []codec.Term
}

// size is the number of unpacked bytes that a file is ranked by.
func (f *FileTerms) size() (n int64) {
	for _, t := range slices.Concat(f.New, f.Old) {
		n += int64(t.Size)
	}
	return n
}

// A Comparison counts the chunks of the changed files. A chunk counts once.
type Comparison struct {
	Fetch   Cost        // chunks that only the new tree has
	Removed Cost        // chunks that only the old tree has
	Shared  Cost        // chunks of changed files of the new tree that the old tree has, too
	Files   []FileTerms // the largest changed files, the largest first
	Rest    int64       // changed files that are not in Files
	forth   *Set        // wants what only the new tree has
	back    *Set        // wants what only the old tree has
}

// Keep makes Add keep the terms of the files with the most bytes, for Compare.
func (n *Set) Keep(files int) { n.keep = files }

// keepLargest adds a file and drops the smallest ones.
func (n *Set) keepLargest(f FileTerms) {
	if n.files = append(n.files, f); len(n.files) >= 2*n.keep {
		n.dropSmall()
	}
}

func (n *Set) dropSmall() {
	sizes := make(map[string]int64, len(n.files))
	for i := range n.files {
		sizes[n.files[i].Path] = n.files[i].size()
	}
	slices.SortStableFunc(n.files, func(a, b FileTerms) int {
		return int(min(max(sizes[b.Path]-sizes[a.Path], -1), 1))
	})
	if len(n.files) > n.keep {
		n.rest += int64(len(n.files) - n.keep)
		clear(n.files[n.keep:])
		n.files = n.files[:n.keep]
	}
}

// Compare is Cost in both directions. from and to are the old and the new tree.
func (n *Set) Compare(ctx context.Context, from, to catalog.Tree, seen func(files int64)) (*Comparison, error) {
	n.dropSmall()
	all, err := n.sum(ctx)
	if err != nil {
		return nil, err
	}
	back := NewSet(n.store, n.source)
	back.infos, back.want, back.have = n.infos, n.have.clone(), n.want.clone()
	fetch, err := n.Cost(ctx, from, seen)
	if err != nil {
		return nil, err
	}
	removed, err := back.Cost(ctx, to, seen)
	if err != nil {
		return nil, err
	}
	shared := Cost{Chunks: all.Chunks - fetch.Chunks, Bytes: all.Bytes - fetch.Bytes}
	return &Comparison{Fetch: *fetch, Removed: *removed, Shared: shared, Files: n.files, Rest: n.rest, forth: n, back: back}, nil
}

func (s chunkSets) clone() chunkSets {
	c := make(chunkSets, len(s))
	for x, set := range s {
		chunks := *set
		c[x] = &chunks
	}
	return c
}

// NewChunks calls do for each chunk of the new content of a file, in order. do receives the place
// and the packed bytes, and whether only the new tree has the chunk.
func (c *Comparison) NewChunks(ctx context.Context, f *FileTerms, do func(x codec.Hash, chunk uint32, packed int64, only bool)) error {
	return c.forth.chunks(ctx, f.New, do)
}

// OldChunks is NewChunks for the old content and the old tree.
func (c *Comparison) OldChunks(ctx context.Context, f *FileTerms, do func(x codec.Hash, chunk uint32, packed int64, only bool)) error {
	return c.back.chunks(ctx, f.Old, do)
}

func (n *Set) chunks(ctx context.Context, terms []codec.Term, do func(codec.Hash, uint32, int64, bool)) error {
	for _, t := range terms {
		in, err := n.info(ctx, t.Xorb)
		if err == nil {
			err = checkRange(in, t.Chunks)
		}
		if err != nil {
			return fmt.Errorf("xorb %s: %w", t.Xorb, err)
		}
		want := n.want[t.Xorb]
		for i := t.Chunks.Start; i < t.Chunks.End; i++ {
			one := codec.ChunkRange{Start: i, End: i + 1}
			start, end := in.PackedRange(one)
			do(t.Xorb, i, end-start, want != nil && want.Count(one) > 0)
		}
	}
	return nil
}
