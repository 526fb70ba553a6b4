package cache

import (
	"github.com/xetfs/xetfs/cache/flight"
	"github.com/xetfs/xetfs/codec/page"
)

// readDiskPage returns an index page from disk, or nil. It drops a page with another hash.
func (c *Cache) readDiskPage(h page.Hash) *page.Page {
	if c.packed == nil {
		return nil
	}
	p, err := c.decodeDiskPage(h)
	if err != nil {
		c.packed.DropPage(h)
	}
	if p != nil {
		c.stats.pageDiskHits.Add(1)
	}
	return p
}

// decodeDiskPage reads a page from disk; nil if it is absent.
func (c *Cache) decodeDiskPage(h page.Hash) (p *page.Page, err error) {
	defer flight.Guard(&err)
	if b, ok := c.packed.Page(h); ok {
		return page.DecodeAs(h, b)
	}
	return nil, nil
}

// putDiskPage stores a checked page on disk.
func (c *Cache) putDiskPage(h page.Hash, p *page.Page) {
	if c.packed != nil {
		_ = c.packed.PutPage(h, p.Encoded()) // it is a cache
	}
}
