package cache

import (
	"context"

	"github.com/xetfs/xetfs/codec/page"
)

// keptPage returns an index page from disk, if it is there. A reader that leaves does not
// wait for the disk, which is the error.
func (c *Cache) keptPage(ctx context.Context, h page.Hash) (*page.Page, bool, error) {
	if c.packed == nil {
		return nil, false, nil
	}
	found := make(chan *page.Page, 1)
	c.fetches.going.Go(func() {
		got, err := c.readPage(h)
		if err != nil {
			c.packed.DropPage(h)
		}
		found <- got
	})
	select {
	case got := <-found:
		if got == nil {
			return nil, false, nil
		}
		c.stats.pageDiskHits.Add(1)
		c.pages.add(h, got)
		return got, true, nil
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
}

// readPage reads a page from disk; nil: it is not there. An error says that it is not what
// its hash says.
func (c *Cache) readPage(h page.Hash) (got *page.Page, err error) {
	defer guard(&err)
	if b, ok := c.packed.Page(h); ok {
		return page.DecodeAs(h, b)
	}
	return nil, nil
}

// keepPage puts a page that was checked on disk.
func (c *Cache) keepPage(h page.Hash, p *page.Page) {
	if c.packed != nil {
		_ = c.packed.PutPage(h, p.Encoded()) // it is a cache
	}
}
