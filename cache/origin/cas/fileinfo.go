package cas

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/xetfs/xetfs/cache/flight"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/metacache"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/shard"
)

// kindPlan is the kind of values with the terms of a file. They have no addresses.
const kindPlan = "plan of a file"

// maxDescribing is how many requests for plans FileInfos sends at once.
const maxDescribing = 32

// FileInfo implements Source. The File Info is a plan without addresses, from memory, the disk
// cache or the server.
func (c *Client) FileInfo(ctx context.Context, id codec.FileID) (*shard.FileInfo, error) {
	if fi, ok := c.knownInfo(ctx, id); ok {
		return fi, nil
	}
	return c.describing.Do(ctx, id, func(ctx context.Context) (*shard.FileInfo, error) {
		if fi, ok := c.knownInfo(ctx, id); ok {
			return fi, nil // a call that has ended since has requested it
		}
		return c.requestInfo(ctx, id)
	})
}

// OpenFile implements Source.
func (c *Client) OpenFile(ctx context.Context, id codec.FileID) (*shard.FileInfo, *origin.LargeFile, error) {
	fi, err := c.FileInfo(ctx, id)
	return fi, nil, err
}

// knownInfo returns a File Info from memory or the disk cache.
func (c *Client) knownInfo(ctx context.Context, id codec.FileID) (*shard.FileInfo, bool) {
	if id.File.IsZero() {
		return new(shard.FileInfo), true
	}
	if origin.IsNoCache(ctx) {
		c.Forget(id)
		return nil, false
	}
	c.mu.Lock()
	fi, ok := c.infos.Get(id.File)
	c.mu.Unlock()
	if ok {
		return fi, true
	}
	b, ok := c.meta.Value(ctx, kindPlan, id.File[:])
	if !ok {
		return nil, false
	}
	fi = &shard.FileInfo{File: id.File}
	if fi.Terms, ok = decodeTerms(b); !ok {
		return nil, false
	}
	return c.keepInfo(fi), true
}

// keepInfo stores a File Info in memory, and the file in the index.
func (c *Client) keepInfo(fi *shard.FileInfo) *shard.FileInfo {
	c.mu.Lock()
	fi = c.infos.Add(fi.File, fi, 256+48*int64(cap(fi.Terms)))
	c.mu.Unlock()
	c.describe(fi.File, 0, fi.Terms)
	return fi
}

// putInfo is keepInfo for a new File Info, which it also stores in the disk cache.
func (c *Client) putInfo(fi *shard.FileInfo) *shard.FileInfo {
	if len(fi.Terms) <= metacache.MaxTerms {
		c.meta.PutValue(kindPlan, fi.File[:], metacache.AppendTerms(nil, fi.Terms))
	}
	c.mu.Lock()
	c.infos.Remove(fi.File)
	c.mu.Unlock()
	return c.keepInfo(fi)
}

// decodeTerms returns the terms of a plan in the disk cache.
func decodeTerms(b []byte) (terms []codec.Term, ok bool) {
	terms, ok = metacache.DecodeTerms(b)
	return terms, ok && !slices.ContainsFunc(terms, func(t codec.Term) bool {
		return t.Chunks.Start >= t.Chunks.End || t.Chunks.End > codec.MaxXorbChunks || badTerm(t) != ""
	})
}

// requestInfo requests the plan of a file.
func (c *Client) requestInfo(ctx context.Context, id codec.FileID) (*shard.FileInfo, error) {
	terms, err := c.requestTerms(ctx, id.File)
	if err == nil && len(terms) == 0 {
		err = fmt.Errorf("file %s: %w", id.File, codec.Corrupt(what, 0, "a file with a hash has no terms"))
	}
	if errors.Is(err, codec.ErrCorrupt) {
		c.Forget(id) // so that the next call requests the plans again
	}
	if err != nil {
		return nil, err
	}
	return c.putInfo(&shard.FileInfo{File: id.File, Terms: terms}), nil
}

// maxBlocks is how many blocks of one file are requested at once.
const maxBlocks = 8

// requestTerms requests the plans of the blocks of a file. If its size is not known, the first block
// is requested alone, and then twice as many at once each time. Blocks behind the end are empty, and
// nothing waits for them.
func (c *Client) requestTerms(ctx context.Context, file codec.Hash) (terms []codec.Term, err error) {
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	size, isKnown := origin.ExpectedSize(ctx)
	off := int64(0)
	for n := int64(1); off <= maxFile; n = min(2*n, maxBlocks) {
		if isKnown {
			n = max(1, min((size-off+c.o.Block-1)/c.o.Block, maxBlocks))
		}
		for _, next := range c.requestBlocks(ctx, &running, file, off, n) {
			b := <-next
			if b.err == nil {
				terms, b.err = addBlock(terms, b.plan)
			}
			if b.err != nil {
				return nil, b.err
			}
			if off += c.o.Block; sizeOf(terms) < off || isKnown && off >= size {
				return terms, nil
			}
		}
	}
	return nil, fmt.Errorf("file %s: %w", file, codec.Corrupt(what, 0, "more than %d bytes", int64(maxFile)))
}

// A block is the plan of a block, or the error of its request.
type block struct {
	plan *plan
	err  error
}

// requestBlocks requests n blocks of a file from off on at once. Each channel gets one block.
func (c *Client) requestBlocks(ctx context.Context, running *sync.WaitGroup, file codec.Hash, off, n int64) []chan block {
	blocks := make([]chan block, n)
	for i := range blocks {
		done := make(chan block, 1)
		blocks[i] = done
		running.Go(func() {
			var b block
			defer func() { done <- b }()
			defer flight.Guard(&b.err)
			b.plan, b.err = c.getPlan(ctx, query{file: file, off: off + int64(i)*c.o.Block, n: c.o.Block})
		})
	}
	return blocks
}

// addBlock appends the terms of a block to those before. Both have the chunk at the border, whose
// length follows from the offsets.
func addBlock(terms []codec.Term, p *plan) ([]codec.Term, error) {
	if len(p.terms) == 0 {
		return terms, nil
	}
	q := p.q
	begin, end := q.off-p.skip, sizeOf(terms)
	first := p.terms[0]
	switch twice := end - begin; {
	case twice == 0:
		return append(terms, p.terms...), nil
	case twice < 0 || len(terms) == 0 || twice > min(codec.MaxChunkSize, int64(first.Size)),
		terms[len(terms)-1].Xorb != first.Xorb || terms[len(terms)-1].Chunks.End != first.Chunks.Start+1:
		return nil, fmt.Errorf("%q: %w", q.key(), codec.Corrupt(what, 0, "the plan from byte %d on begins at byte %d, and the one before ends at byte %d", q.off, begin, end))
	case first.Chunks.Len() > 1:
		first.Chunks.Start++
		first.Size -= uint32(twice)
		if badTerm(first) != "" {
			return nil, fmt.Errorf("%q: %w", q.key(), codec.Corrupt(what, 0, "the first term %s", badTerm(first)))
		}
		terms = append(terms, first)
	case twice != int64(first.Size):
		return nil, fmt.Errorf("%q: %w", q.key(), codec.Corrupt(what, 0, "the first chunk has %d bytes, and %d in the plan before", first.Size, twice))
	}
	return append(terms, p.terms[1:]...), nil
}

// maxFile bounds files of unknown size.
const maxFile = 1 << 50

func sizeOf(terms []codec.Term) (n int64) {
	for i := range terms {
		n += int64(terms[i].Size)
	}
	return n
}

// getPlan returns the plan of a query, from memory or the server.
func (c *Client) getPlan(ctx context.Context, q query) (*plan, error) {
	if p, ok := c.knownPlan(ctx, q); ok {
		return p, nil
	}
	return c.planning.Do(ctx, q, func(ctx context.Context) (*plan, error) {
		if p, ok := c.knownPlan(ctx, q); ok {
			return p, nil // a call that has ended since has requested it
		}
		r, err := c.requestPlan(ctx, q)
		if err != nil {
			return nil, err
		}
		p := c.newPlan(q, nil, r)
		if stored := c.addPlan(p); !origin.IsNoCache(ctx) {
			return stored, nil
		}
		return p, nil
	})
}

// knownPlan returns the plan of a query from memory.
func (c *Client) knownPlan(ctx context.Context, q query) (*plan, bool) {
	if origin.IsNoCache(ctx) {
		return nil, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.plans.all.Get(q)
}

// newPlan returns the answer to a query. It learns the places of the signed ranges.
func (c *Client) newPlan(q query, ids []codec.Hash, r *reply) *plan {
	p := &plan{q: q, ids: ids, terms: r.Terms, skip: r.Skip}
	a := newAddresses(r)
	p.addresses.Store(a)
	for x, all := range a.xorbs {
		c.places.learnRanges(x, all)
	}
	return p
}

// addPlan stores a plan, or returns the one that is stored.
func (c *Client) addPlan(p *plan) *plan {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.plans.addLocked(p)
}

// replan repeats the request of a plan, and returns its new addresses. Their ranges are those of old.
func (c *Client) replan(ctx context.Context, p *plan, old *addresses) (*addresses, error) {
	var r *reply
	var err error
	if p.ids == nil {
		r, err = c.requestPlan(ctx, p.q)
	} else {
		r, _, err = c.batch(ctx, p.ids)
	}
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(r.Terms, func(t codec.Term) bool { return len(old.xorbs[t.Xorb]) > 0 }) {
		return nil, fmt.Errorf("%q: %w: the new plan names other xorbs", p.q.key(), origin.ErrNotFound)
	}
	a := newAddresses(r)
	if r.Skip != p.skip || !slices.Equal(r.Terms, p.terms) || !a.sameRanges(old) {
		return nil, fmt.Errorf("%q: %w", p.q.key(), codec.Corrupt(what, 0, "the renewed plan differs from the one before"))
	}
	return a, nil
}

// FileInfos implements Source. Plans of several files share a request where the server supports
// it.
func (c *Client) FileInfos(ctx context.Context, ids []codec.FileID, yield func(i int, fi *shard.FileInfo, err error)) {
	var unknown []int
	for i, id := range ids {
		if fi, ok := c.knownInfo(ctx, id); ok {
			yield(i, fi, nil)
		} else {
			unknown = append(unknown, i)
		}
	}
	unknown = c.inBatches(ctx, ids, unknown, yield)
	var running sync.WaitGroup
	defer running.Wait()
	for _, i := range unknown {
		if !c.acquire(ctx) {
			yield(i, nil, ctx.Err())
			continue
		}
		running.Go(func() {
			fi, err := c.guardedInfo(ctx, ids[i])
			<-c.batches
			yield(i, fi, err)
		})
	}
}

func (c *Client) guardedInfo(ctx context.Context, id codec.FileID) (fi *shard.FileInfo, err error) {
	defer flight.Guard(&err)
	return c.FileInfo(ctx, id)
}
