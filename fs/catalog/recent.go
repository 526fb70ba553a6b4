package catalog

import (
	"context"
	"sync"

	"github.com/xetfs/xetfs/cache/lru"
	"github.com/xetfs/xetfs/codec/page"
)

// maxRecentPages bounds the pages of RecentPages to about 8 MB.
const maxRecentPages = 64

// RecentPages returns a Getter that caches the pages read last. A walk through a tree in order
// reads the pages above the leaves again and again, and the Getter below may cache none.
func RecentPages(pages page.Getter) page.Getter {
	return &recentPages{pages: pages, cached: lru.New[page.Hash, *page.Page](maxRecentPages, nil)}
}

type recentPages struct {
	pages page.Getter

	mu     sync.Mutex
	cached *lru.Cache[page.Hash, *page.Page] // guarded by mu
}

// Page implements page.Getter.
func (r *recentPages) Page(ctx context.Context, h page.Hash) (*page.Page, error) {
	r.mu.Lock()
	p, ok := r.cached.Get(h)
	r.mu.Unlock()
	if ok {
		return p, nil
	}
	p, err := r.pages.Page(ctx, h)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cached.Add(h, p, 1), nil
}
