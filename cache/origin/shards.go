package origin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/shard"
)

// fromShard asks something of shard s, and of its other copies as long as one does not
// give a good answer. What is not there is a good answer, too.
func (o *objects) fromShard(ctx context.Context, s codec.Hash, ask func(*shard.Reader) error) error {
	for try := 0; ; try++ {
		r, err := o.openShard(ctx, s)
		if err == nil {
			err = ask(r)
		}
		switch {
		case err == nil, errors.Is(err, shard.ErrNoFile), errors.Is(err, shard.ErrNoXorb):
			return err
		case r != nil && !o.near && errors.Is(err, ErrUnavailable):
			return fmt.Errorf("shard %s: %w", s, err) // that says nothing of what was opened
		case passing(err) || r == nil || try >= o.dropShard(s, r, err):
			if errors.Is(err, errIncomplete) {
				o.keepShard(s, r) // it is not to blame
			}
			return fmt.Errorf("shard %s: %w", s, err)
		}
		ctx = Fresh(ctx)
	}
}

// openShard returns a reader of shard s, which stays open. A copy that cannot be opened
// is passed over if there is another.
func (o *objects) openShard(ctx context.Context, s codec.Hash) (*shard.Reader, error) {
	if r := o.opened(s); r != nil {
		return r, nil
	}
	return o.opening.do(ctx, s, func(ctx context.Context) (*shard.Reader, error) {
		if r := o.opened(s); r != nil {
			return r, nil // by others, whose flight has ended since
		}
		var first error
		for try := 0; ; try++ {
			r, err := o.newShard(ctx, s)
			if err == nil {
				o.keepShard(s, r)
				return r, nil
			}
			if first == nil {
				first = err
			}
			if passing(err) || try >= o.others(names.ShardKey(s), err) {
				return nil, first
			}
			ctx = Fresh(ctx)
		}
	})
}

// opened returns the reader of a shard that is open; nil: it is not.
func (o *objects) opened(s codec.Hash) *shard.Reader {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.shards[s]
}

func (o *objects) keepShard(s codec.Hash, r *shard.Reader) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.shards[s] = r
	dropAny(o.shards, maxShards)
}

// What is remembered of a store does not grow for ever. Of so much that nobody will notice
// it is forgotten what comes first to hand.
const (
	maxShards = 1 << 14
	maxLists  = 1 << 19 // xorbs: 32 TiB of full ones, in some 60 MB
)

// dropAny takes entries out of m until it holds no more than most.
func dropAny[K comparable, V any](m map[K]V, most int) {
	for k := range m {
		if len(m) <= most {
			return
		}
		delete(m, k)
	}
}

// shardTail is how much of a far shard is asked for at once, and kept for a while: all of
// a small one, of others the footer and most of the tables.
const shardTail = 256 << 10

func (o *objects) newShard(ctx context.Context, s codec.Hash) (*shard.Reader, error) {
	k := names.ShardKey(s)
	head := o.askHead(ctx, k)
	part, err := peek(ctx, o.store, k, Tail, shardTail)
	if err != nil {
		return nil, err
	}
	r := newPeeked(ctx, o.store, k, part)
	r.below = head.over(r.below)
	opened, err := shard.NewReader(r, part.Size)
	if err != nil {
		return nil, err
	}
	r.below = ReaderAt(context.Background(), o.store, k)
	if !o.near {
		r.below = lasting{o.store, k, IsFresh(ctx)}
		o.parts.add(s, r)
	}
	return opened, nil
}

// A lasting reads a far shard for a reader that outlives the call that opens it, and so
// has none of the contexts of those who ask: a read that gets no answer ends by itself.
type lasting struct {
	s     Store
	k     names.Key
	fresh bool
}

const lastingLimit = time.Minute // of one read

// ReadAt implements io.ReaderAt.
func (r lasting) ReadAt(p []byte, off int64) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), lastingLimit)
	defer cancel()
	if r.fresh {
		ctx = Fresh(ctx)
	}
	n, err := ReaderAt(ctx, r.s, r.k).ReadAt(p, off)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%q: %w: no answer within %v", r.k, ErrUnavailable, lastingLimit)
	}
	return n, err
}

// maxTries is how often one question is asked again because others have dropped what
// was asked.
const maxTries = 8

// dropShard forgets a reader of shard s that turned out damaged, so that the next who
// asks sees whether it was repaired, or another copy. It returns how often it is worth
// asking.
func (o *objects) dropShard(s codec.Hash, r *shard.Reader, err error) int {
	o.mu.Lock()
	current := o.shards[s] == r
	if current {
		delete(o.shards, s)
		o.parts.drop(s)
	}
	o.mu.Unlock()
	if !current {
		return maxTries // somebody else did; rejecting again would hit another copy
	}
	return o.others(names.ShardKey(s), err)
}

// maxListers bounds how many shards are remembered for one xorb: the second is for
// when the first is damaged.
const maxListers = 4

// remember notes that shard s may list the chunks of the xorbs of some terms.
func (o *objects) remember(s codec.Hash, terms []codec.Term) {
	for _, x := range o.rememberNew(s, terms) {
		o.infos.dropUnhashed(x)
	}
}

// rememberNew returns the xorbs for which s was not known yet.
func (o *objects) rememberNew(s codec.Hash, terms []codec.Term) (fresh []codec.Hash) {
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
			fresh = append(fresh, last)
		}
	}
	dropAny(o.lists, maxLists)
	return fresh
}

// listers returns the shards that may list the chunks of xorb x.
func (o *objects) listers(x codec.Hash) []codec.Hash {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.lists[x])
}
