package ingest

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/xetfs/xetfs/codec"
)

// Many readers ask about the same shards, and each shard is looked up once.
func TestShards(t *testing.T) {
	var finds atomic.Int64
	s := newShardSet(func(ctx context.Context, h codec.Hash) (bool, error) {
		finds.Add(1)
		return h[0]%2 == 0, ctx.Err()
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan bool)
	for i := range 100 {
		go func() {
			has, err := s.has(ctx, codec.Hash{byte(i % 10)})
			done <- err == nil && has == (i%2 == 0)
		}()
	}
	var answers []bool
	for range 100 {
		answers = append(answers, <-done)
	}
	if slices.Contains(answers, false) || finds.Load() != 10 {
		t.Errorf("%d look-ups, answers %v", finds.Load(), answers)
	}
	if used := s.used(); len(used) != 5 {
		t.Errorf("used %v", used)
	}
	cancel()
	if _, err := s.has(ctx, codec.Hash{200}); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
}
