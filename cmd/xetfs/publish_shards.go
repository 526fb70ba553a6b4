package main

import (
	"context"
	"slices"
	"sync"

	"github.com/xetfs/xetfs/codec"
)

// A reusable says whether shards may be used again. Readers ask it, each about every
// file of the record; the goroutine that publishes finds out, once for each shard.
type reusable struct {
	find func(context.Context, codec.Hash) (bool, error)
	asks chan shardAsk

	mu    sync.Mutex
	known map[codec.Hash]bool // guarded by mu
}

type shardAsk struct {
	shard  codec.Hash
	answer chan bool // has room for the answer
}

func newReusable(find func(context.Context, codec.Hash) (bool, error)) *reusable {
	return &reusable{find: find, asks: make(chan shardAsk), known: map[codec.Hash]bool{}}
}

// has asks about a shard. It says no if ctx ends before there is an answer.
func (c *reusable) has(ctx context.Context, shard codec.Hash) bool {
	if has, ok := c.lookup(shard); ok {
		return has
	}
	ask := shardAsk{shard, make(chan bool, 1)}
	select {
	case c.asks <- ask:
	case <-ctx.Done():
		return false
	}
	select {
	case has := <-ask.answer:
		return has
	case <-ctx.Done():
		return false
	}
}

func (c *reusable) lookup(shard codec.Hash) (has, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	has, ok = c.known[shard]
	return has, ok
}

// used returns the shards that may be used again, sorted.
func (c *reusable) used() []codec.Hash {
	c.mu.Lock()
	defer c.mu.Unlock()
	var used []codec.Hash
	for s, has := range c.known {
		if has {
			used = append(used, s)
		}
	}
	slices.SortFunc(used, codec.Hash.Compare)
	return used
}

// answer answers one question.
func (c *reusable) answer(ctx context.Context, ask shardAsk) error {
	has, ok := c.lookup(ask.shard)
	if !ok {
		var err error
		if has, err = c.find(ctx, ask.shard); err != nil {
			return err
		}
		c.mu.Lock()
		c.known[ask.shard] = has
		c.mu.Unlock()
	}
	ask.answer <- has
	return nil
}

// answerAll answers what is being asked now.
func (c *reusable) answerAll(ctx context.Context) error {
	for {
		select {
		case ask := <-c.asks:
			if err := c.answer(ctx, ask); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}
