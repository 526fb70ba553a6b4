package origintest

import (
	"context"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/names"
)

// InMemory returns a local store over s that never waits for a disk.
func InMemory(s origin.Store) origin.Store { return tryStore{s} }

// A tryStore is a local store with all objects in memory.
type tryStore struct{ origin.Store }

// Local implements origin.CostReporter.
func (s tryStore) Local() bool { return true }

// TryReadAt implements origin.TryReader.
func (s tryStore) TryReadAt(k names.Key, p []byte, off int64) bool {
	return s.ReadAt(context.Background(), k, p, off) == nil
}
