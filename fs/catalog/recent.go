package catalog

import (
	"context"
	"sync"

	"github.com/xetfs/xetfs/codec/page"
)

// maxRecent is how many pages recentPages keeps: some 8 MB.
const maxRecent = 64

// recentPages keeps the pages that were asked for last, for lookups that go through a
// tree in order: the Getter below may keep none.
type recentPages struct {
	pages page.Getter

	mu    sync.Mutex
	kept  map[page.Hash]*page.Page // guarded by mu
	order []page.Hash              // of kept, the oldest first; guarded by mu
}

// Page implements page.Getter.
func (r *recentPages) Page(ctx context.Context, h page.Hash) (*page.Page, error) {
	r.mu.Lock()
	p := r.kept[h]
	r.mu.Unlock()
	if p != nil {
		return p, nil
	}
	p, err := r.pages.Page(ctx, h)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kept == nil {
		r.kept = map[page.Hash]*page.Page{}
	}
	if r.kept[h] == nil {
		r.kept[h] = p
		r.order = append(r.order, h)
	}
	if len(r.order) > maxRecent {
		delete(r.kept, r.order[0])
		r.order = r.order[1:]
	}
	return p, nil
}
