package upload

import (
	"context"

	"github.com/xetfs/xetfs/cache/lru"
	"github.com/xetfs/xetfs/codec/shard"
)

// RefreshIndex does what Dedup starts in the background from time to time.
func (s *Store) RefreshIndex() error { return s.index.update() }

// Used returns the bytes that count for the quota.
func (s *Store) Used() int64 {
	s.space.mu.Lock()
	defer s.space.mu.Unlock()
	return s.space.used
}

// Recount lists the store.
func (s *Store) Recount(t interface {
	Context() context.Context
	Fatal(args ...any)
}) {
	if err := s.space.measure(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// LimitFiles bounds the files that are remembered, instead of maxFiles. It forgets all files.
func (s *Store) LimitFiles(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files = lru.New(n, s.dropReceipt)
}

// HashContent returns the SHA-256 of a file, which it reads.
func (s *Store) HashContent(ctx context.Context, f *shard.FileInfo) ([32]byte, error) {
	return s.hashContent(ctx, f, func(int64) {})
}
