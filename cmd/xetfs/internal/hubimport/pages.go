package hubimport

import (
	"context"
	"sync"

	"github.com/xetfs/xetfs/cache/lru"
	"github.com/xetfs/xetfs/codec/page"
)

// pageBytes bounds the index pages in memory.
const pageBytes = 8 << 20

// A pageCache is a Getter that has the pages that were used last in memory.
type pageCache struct {
	below page.Getter

	mu    sync.Mutex
	pages *lru.Cache[page.Hash, *page.Page] // guarded by mu
}

func newPageCache(below page.Getter) *pageCache {
	return &pageCache{below: below, pages: lru.New[page.Hash, *page.Page](pageBytes, nil)}
}

// Page implements page.Getter.
func (c *pageCache) Page(ctx context.Context, h page.Hash) (*page.Page, error) {
	c.mu.Lock()
	p, ok := c.pages.Get(h)
	c.mu.Unlock()
	if ok {
		return p, nil
	}
	p, err := c.below.Page(ctx, h)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pages.Add(h, p, int64(len(p.Encoded()))), nil
}
