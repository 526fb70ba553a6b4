package objects

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/metacache"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/shard"
)

// fromShard calls read with shard s, and with other copies of it until read succeeds. A result
// that the shard lacks the file or xorb counts as success.
func (o *objects) fromShard(ctx context.Context, s codec.Hash, read func(*shardFile) error) error {
	for try := 0; ; try++ {
		f, err := o.openShard(ctx, s)
		if err == nil {
			err = read(f)
		}
		if lacks := errors.Is(err, shard.ErrNoFile) || errors.Is(err, shard.ErrNoXorb); lacks && o.rejected(f) {
			err = errOtherName // the shard may have the file or xorb
		}
		switch {
		case err == nil, errors.Is(err, shard.ErrNoFile), errors.Is(err, shard.ErrNoXorb):
			return err
		case f != nil && !o.local && errors.Is(err, origin.ErrUnavailable):
			return fmt.Errorf("shard %s: %w", s, err) // an unavailable store does not make the shard corrupt
		case f != nil && f.proven && errors.Is(err, errIncomplete):
			return fmt.Errorf("shard %s: %w", s, err) // the shard is sound
		case isContextError(err) || f == nil || o.rejected(f) || try >= o.dropShard(f, err):
			if errors.Is(err, errIncomplete) {
				o.shards.add(f)
			}
			return fmt.Errorf("shard %s: %w", s, err)
		}
		ctx = origin.NoCache(ctx)
	}
}

// openShard returns shard s, which stays open. A copy that cannot be opened, or has other bytes
// than its name says, is skipped if another copy exists. A remote shard is read whole.
func (o *objects) openShard(ctx context.Context, s codec.Hash) (*shardFile, error) {
	return o.openShardAs(ctx, s, !o.local)
}

// hashedShard is openShard, but reads a local shard whole, too.
func (o *objects) hashedShard(ctx context.Context, s codec.Hash) (*shardFile, error) {
	return o.openShardAs(ctx, s, true)
}

func (o *objects) openShardAs(ctx context.Context, s codec.Hash, hashed bool) (*shardFile, error) {
	if f := o.opened(s, hashed); f != nil {
		return f, nil
	}
	return o.opening.Do(ctx, wantedShard{s, hashed}, func(ctx context.Context) (*shardFile, error) {
		if f := o.opened(s, hashed); f != nil {
			return f, nil // a call that has ended since has opened it
		}
		f, err := o.firstGood(ctx, s, hashed)
		if err == nil {
			o.shards.add(f)
		}
		return f, err
	})
}

// A wantedShard is a shard to be opened.
type wantedShard struct {
	hash   codec.Hash
	hashed bool
}

// firstGood opens the first copy of a shard that is good. If none has the right bytes, it
// returns one that can be opened.
func (o *objects) firstGood(ctx context.Context, s codec.Hash, hashed bool) (*shardFile, error) {
	var (
		first error
		other *shardFile // with other bytes than its name says
	)
	for try := 0; ; try++ {
		f, err := o.newShard(ctx, s, hashed)
		switch {
		case err == nil && (f.proven || !hashed):
			return f, nil
		case err == nil:
			other, err = f, errOtherName
		}
		if first == nil {
			first = err
		}
		if isContextError(err) || try >= o.retries(names.ShardKey(s), err) {
			if other != nil && !isContextError(err) {
				return other, nil
			}
			return nil, first
		}
		ctx = origin.NoCache(ctx)
	}
}

// badShardStays is the time before a remote shard with wrong bytes is fetched again.
const badShardStays = 10 * time.Second

// opened returns a shard that is open; nil: it is not.
func (o *objects) opened(s codec.Hash, hashed bool) *shardFile {
	f := o.shards.find(s)
	if f == nil || hashed && f.sums == nil {
		return nil
	}
	if f.sums != nil && !f.proven && time.Since(f.opened) > badShardStays {
		return nil
	}
	return f
}

// rejected reports whether all copies of a remote shard were tried already and have wrong
// bytes.
func (o *objects) rejected(f *shardFile) bool { return !o.local && !f.proven }

// newShard opens one copy of a shard.
func (o *objects) newShard(ctx context.Context, s codec.Hash, hashed bool) (*shardFile, error) {
	k, isCached := o.meta.Shard(ctx, s)
	var f *shardFile
	var err error
	switch {
	case isCached:
		f = &shardFile{hash: s, key: names.ShardKey(s), store: o.store, opened: time.Now(), size: k.Size, sums: k.Sums, ends: k.Ends, proven: true}
	case hashed:
		f, err = o.fetches.read(ctx, s)
	default:
		f = &shardFile{hash: s, key: names.ShardKey(s), store: o.store, noCache: origin.IsNoCache(ctx)}
		f.size, err = o.store.Size(ctx, f.key)
	}
	if err != nil {
		return nil, err
	}
	r := f.at(ctx)
	f.Reader, err = shard.NewReader(r, f.size)
	r.below = f.detached()
	if err == nil && hashed && !isCached {
		o.cacheShard(f)
	}
	return f, err
}

// cacheShard stores the hashes of a proven shard for the next mount. A shard without footer is
// not stored: opening it reads all of it.
func (o *objects) cacheShard(f *shardFile) {
	if !f.proven || !f.Meta().Footer || !o.meta.TakesShard(len(f.sums)) {
		return
	}
	if ends, err := readEnds(f); err == nil {
		o.meta.PutShard(f.hash, metacache.Shard{Size: f.size, Sums: f.sums, Ends: ends})
	}
}

// readEnds reads the header and the footer of a shard.
func readEnds(f *shardFile) (*metacache.ShardEnds, error) {
	e := new(metacache.ShardEnds)
	r := f.at(context.Background())
	if _, err := r.ReadAt(e.Head[:], 0); err != nil {
		return nil, err
	}
	_, err := r.ReadAt(e.Foot[:], f.size-int64(len(e.Foot)))
	return e, err
}

// maxLists is the maximum number of xorbs in lists. Full ones hold 32 TiB, and their lists take
// about 60 MB.
const maxLists = 1 << 19

// dropAny takes entries out of m until it holds no more than most.
func dropAny[K comparable, V any](m map[K]V, most int) {
	for k := range m {
		if len(m) <= most {
			return
		}
		delete(m, k)
	}
}

// maxTries is the maximum number of retries of one read while other callers drop the shard.
const maxTries = 8

// dropShard closes a corrupt shard, so that the next read opens a repaired one or another copy.
// It returns how often a retry is useful.
func (o *objects) dropShard(f *shardFile, err error) int {
	if !o.shards.drop(f) {
		return maxTries // another caller dropped it; a second reject would hit another copy
	}
	return o.retries(f.key, err)
}

// maxListers is the maximum number of shards in the list of one xorb. The second is read if the
// first is corrupt.
const maxListers = 4

// remember notes that shard s may list the chunks of the xorbs of some terms.
func (o *objects) remember(s codec.Hash, terms []codec.Term) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var last codec.Hash
	for i := range terms {
		if terms[i].Xorb == last {
			continue
		}
		last = terms[i].Xorb
		if listers := o.lists[last]; len(listers) < maxListers && !slices.Contains(listers, s) {
			o.lists[last] = append(listers, s)
		}
	}
	dropAny(o.lists, maxLists)
}

// shardsListing returns the shards that may list the chunks of xorb x.
func (o *objects) shardsListing(x codec.Hash) []codec.Hash {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.lists[x])
}
