package web

import (
	"sync"

	"github.com/xetfs/xetfs/cache/lru"
	"github.com/xetfs/xetfs/codec/names"
)

// maxSizes bounds a sizeCache. An entry has about 200 bytes.
const maxSizes = 64 << 10

// A sizeCache remembers the sizes of shards and xorbs of a remote store, which never change. Each
// range of an object would cost a request for its size. It is safe for concurrent use.
type sizeCache struct {
	*sync.Mutex
	sizes *lru.Cache[names.Key, int64]
}

func newSizeCache() sizeCache {
	return sizeCache{new(sync.Mutex), lru.New[names.Key, int64](maxSizes, nil)}
}

func (c sizeCache) get(k names.Key) (size int64, ok bool) {
	c.Lock()
	defer c.Unlock()
	return c.sizes.Get(k)
}

func (c sizeCache) add(k names.Key, size int64) {
	c.Lock()
	defer c.Unlock()
	c.sizes.Add(k, size, 1)
}

func (c sizeCache) remove(k names.Key) {
	c.Lock()
	defer c.Unlock()
	c.sizes.Remove(k)
}
