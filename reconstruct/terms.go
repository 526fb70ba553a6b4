package reconstruct

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/shard"
)

// A group is the terms of a file or, of a large one, shard.TermGroup of them. A group that is
// not in memory is read again by the next reader.
type group struct {
	file   *File
	index  int // of the group in the file
	layout layout
	verify []codec.Hash // of the terms; nil: not known

	used atomic.Bool // since the last look of groups
}

// bytes is about what a group takes in memory.
func (g *group) bytes() int64 {
	return 128 + groupTermBytes*int64(len(g.layout.terms)) + int64(len(codec.Hash{})*len(g.verify))
}

// groupTermBytes is what a term takes in memory: itself and its end.
const groupTermBytes = 52

// firstTerm returns the index in the file of the first term of g.
func (g *group) firstTerm() int { return g.index * shard.TermGroup }

// groups bounds the memory of the terms of all files, open ones included. It evicts groups
// that were not used since it looked at them last (CLOCK).
type groups struct {
	max int64 // bytes

	mu    sync.Mutex
	queue []queuedGroup // oldest first, some of them evicted otherwise or with their file; guarded by mu
	bytes int64         // of queue; guarded by mu
}

// A queuedGroup keeps no group in memory: its file has a large tracker, and may not be in use any more.
type queuedGroup struct {
	weak.Pointer[group]
	bytes int64
}

// add puts a group into its file and evicts others for it. It returns the group of the file:
// another reader may have been faster.
func (gs *groups) add(g *group) *group {
	slot := g.file.slot(g.index)
	g.used.Store(true)
	if slot.Load() != g && !slot.CompareAndSwap(nil, g) {
		if other := slot.Load(); other != nil {
			return other
		}
		return g // evicted again: this reader has it for itself
	}
	gs.mu.Lock()
	defer gs.mu.Unlock()
	gs.queue = append(gs.queue, queuedGroup{weak.Make(g), g.bytes()})
	gs.bytes += g.bytes()
	for looks := 2 * len(gs.queue); gs.bytes > gs.max && len(gs.queue) > 1 && looks > 0; looks-- {
		gs.nextLocked()
	}
	return g
}

// nextLocked evicts the oldest group, or puts it at the end if it was used.
func (gs *groups) nextLocked() {
	old := gs.queue[0]
	gs.queue[0] = queuedGroup{}
	gs.queue = gs.queue[1:]
	if g := old.Value(); g != nil {
		slot := g.file.slot(g.index)
		if slot.Load() == g && g.used.Swap(false) {
			gs.queue = append(gs.queue, old)
			return
		}
		slot.CompareAndSwap(g, nil)
	}
	gs.bytes -= old.bytes
}

// slot returns where a group of f is while it is in memory.
func (f *File) slot(i int) *atomic.Pointer[group] {
	if f.large == nil {
		return &f.only
	}
	return &f.slots[i]
}

// groups returns the number of groups of f.
func (f *File) groups() int {
	switch {
	case f.large != nil:
		return f.large.Index.Groups()
	case f.size == 0:
		return 0
	}
	return 1
}

// groupAt returns the index of the group with the byte at off, which is in the file.
func (f *File) groupAt(off int64) int {
	if f.large == nil {
		return 0
	}
	return after(f.large.Index.Ends, off)
}

// group returns group i, from memory or read again, once for all readers that need it.
func (f *File) group(ctx context.Context, i int) (*group, error) {
	if g := f.slot(i).Load(); g != nil {
		if !g.used.Load() {
			g.used.Store(true)
		}
		return g, nil
	}
	return f.r.loading.Do(ctx, groupKey{f, i}, func(ctx context.Context) (*group, error) {
		select {
		case f.r.loads <- struct{}{}:
			defer func() { <-f.r.loads }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if g := f.slot(i).Load(); g != nil {
			return g, nil
		}
		g, err := f.readGroup(ctx, i)
		if err != nil {
			return nil, err
		}
		return f.r.terms.add(g), nil
	})
}

// A groupKey names a group in Reader.loading.
type groupKey struct {
	file  *File
	index int
}

// readGroup reads the terms of a group.
func (f *File) readGroup(ctx context.Context, i int) (*group, error) {
	if f.large != nil {
		terms, err := f.large.Group(ctx, i)
		if err != nil {
			return nil, err
		}
		if err := f.r.checkPlan(f.id, terms); err != nil {
			return nil, err
		}
		return f.newGroup(i, terms, nil), nil
	}
	fi, large, err := f.r.c.OpenFileInfo(ctx, f.id)
	if err != nil {
		return nil, err
	}
	if large != nil || fi.Size() != f.size || f.tracker != nil && sumOf(fi.Terms) != f.planSum {
		return nil, f.named(codec.Corrupt("file info block", f.block, "it has changed since the file was opened"))
	}
	if err := f.r.checkPlan(f.id, fi.Terms); err != nil {
		return nil, err
	}
	return f.newGroup(0, fi.Terms, fi.Verify), nil
}

// checkPlan returns an error for terms that no file can have. Proven terms need no check.
func (r *Reader) checkPlan(id codec.FileID, terms []codec.Term) error {
	if r.c.Proves() {
		return nil
	}
	for i, t := range terms {
		n := int64(t.Chunks.End) - int64(t.Chunks.Start)
		if n <= 0 || t.Chunks.End > codec.MaxXorbChunks || int64(t.Size) < n || int64(t.Size) > n*codec.MaxChunkSize {
			return fmt.Errorf("file %s: term %d: %w", id.File, i, codec.Corrupt("plan", 0, "chunks %v cannot have %d bytes", t.Chunks, t.Size))
		}
	}
	return nil
}

func (f *File) newGroup(i int, terms []codec.Term, verify []codec.Hash) *group {
	start := int64(0)
	if i > 0 {
		start = f.large.Index.Ends[i-1]
	}
	return &group{file: f, index: i, layout: newLayoutAt(terms, start), verify: verify}
}

// TermGroups yields all terms of the file in order, some at a time, which must not be
// modified. After an error it yields no more.
func (f *File) TermGroups(ctx context.Context) iter.Seq2[[]codec.Term, error] {
	return func(yield func([]codec.Term, error) bool) {
		for i := range f.groups() {
			g, err := f.group(ctx, i)
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(g.layout.terms, nil) {
				return
			}
		}
	}
}

// newLargeFile returns a File whose terms are read in groups.
func newLargeFile(r *Reader, id codec.FileID, large *origin.LargeFile) *File {
	x := large.Index
	f := &File{r: r, id: id, size: x.Size(), block: x.Block, sha256: x.SHA256, large: large, slots: make([]atomic.Pointer[group], x.Groups())}
	f.track(nil)
	return f
}
