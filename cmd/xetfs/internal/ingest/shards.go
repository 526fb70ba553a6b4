package ingest

import (
	"context"
	"slices"
	"sync"

	"github.com/xetfs/xetfs/codec"
)

// A shardSet caches which shards may be used again. It is safe for concurrent use, and calls
// find once per shard.
type shardSet struct {
	find func(context.Context, codec.Hash) (bool, error)

	mu      sync.Mutex
	lookups map[codec.Hash]func() (bool, error) // guarded by mu
}

func newShardSet(find func(context.Context, codec.Hash) (bool, error)) *shardSet {
	return &shardSet{find: find, lookups: map[codec.Hash]func() (bool, error){}}
}

// has reports whether a shard exists and may be used again. All calls have the same ctx.
func (s *shardSet) has(ctx context.Context, shard codec.Hash) (bool, error) {
	s.mu.Lock()
	lookup, ok := s.lookups[shard]
	if !ok {
		lookup = sync.OnceValues(func() (bool, error) { return s.find(ctx, shard) })
		s.lookups[shard] = lookup
	}
	s.mu.Unlock()
	return lookup()
}

// used returns the shards that may be used again, sorted. No call of has may be under way.
func (s *shardSet) used() []codec.Hash {
	s.mu.Lock()
	defer s.mu.Unlock()
	var used []codec.Hash
	for shard, lookup := range s.lookups {
		if has, err := lookup(); has && err == nil {
			used = append(used, shard)
		}
	}
	slices.SortFunc(used, codec.Hash.Compare)
	return used
}
