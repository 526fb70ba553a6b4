package sweep

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
)

// tree checks the tree of one version, which the document with the key k has.
func (c *checker) tree(ctx context.Context, k names.Key, at place, row names.Row) {
	p, err := c.pages.Page(ctx, row.Root)
	if err != nil {
		c.page(row.Root, row.Identity)
		c.found(names.PageKey(row.Root), at, err)
		return
	}
	if entries, bytes := p.Below(); entries != row.Entries || bytes != row.Bytes {
		c.found(k, at, codec.Corrupt("row", 0, "version %d has %d entries and %d bytes, its row says %d and %d", row.Number, entries, bytes, row.Entries, row.Bytes))
	}
	if err := p.CheckIdentity(row.Identity); err != nil {
		c.found(k, at, codec.Corrupt("row", 0, "version %d: root page %v: %v", row.Number, row.Root, err))
		return
	}
	whole, known, _ := c.page(row.Root, row.Identity)
	if !known {
		whole = c.below(ctx, at, row.Root, p)
	}
	if !whole || c.sums[row.Root] || ctx.Err() != nil {
		return // folders cannot be looked up in a tree with holes
	}
	c.sums[row.Root] = true
	if err := c.folders(ctx, at, c.bases[at.symbol], row.Tree()); err != nil {
		c.found(names.PageKey(row.Root), at, err)
	}
	c.bases[at.symbol] = row.Tree()
}

// page reports whether the page was seen before, and whether everything below it is good. It
// counts a new page. same reports whether all links to the page say the same identity. The page is
// compared with the first one.
func (c *checker) page(h page.Hash, id page.Identity) (whole, known, same bool) {
	c.mu.Lock()
	whole, known = c.whole[h]
	if !known {
		c.whole[h] = true // until a page below is found to be bad
		c.named[h] = id
	}
	same = c.named[h] == id
	c.mu.Unlock()
	if !known {
		c.add(&c.report.Pages)
	}
	return whole, known, same
}

// below checks the rows of a page and all pages below it, and reports whether all of them could
// be read.
func (c *checker) below(ctx context.Context, at place, h page.Hash, p *page.Page) bool {
	if p.Level() == 0 {
		c.leaf(ctx, at, p)
		return true
	}
	var bad atomic.Bool
	var wg sync.WaitGroup
	row := 0
	for l := range p.LinksFrom(0) {
		i := row
		row++
		whole, known, same := c.page(l.Page, l.Identity)
		if !same {
			c.found(names.PageKey(h), at, codec.Corrupt("page", 0, "page %v has the identity %v, another link says otherwise", l.Page, l.Identity))
			whole = false
		}
		if known {
			if !whole {
				bad.Store(true)
			}
			continue
		}
		c.besides(&wg, func() {
			if ctx.Err() != nil || !c.child(ctx, at, p, i, l) {
				bad.Store(true)
			}
		})
	}
	wg.Wait()
	if bad.Load() {
		c.mu.Lock()
		c.whole[h] = false
		c.mu.Unlock()
	}
	return !bad.Load()
}

// child checks the page of one link.
func (c *checker) child(ctx context.Context, at place, parent *page.Page, row int, l page.Link) bool {
	if path, err := page.PathOf(l.Last); err == nil {
		at = at.at(path)
	}
	p, err := c.uncached.Page(ctx, l.Page)
	if err == nil {
		err = parent.ProveChild(row, p)
	}
	if err != nil {
		c.found(names.PageKey(l.Page), at, err)
		c.mu.Lock()
		c.whole[l.Page] = false
		c.mu.Unlock()
		return false
	}
	return c.below(ctx, at, l.Page, p)
}

// leaf checks the files of a leaf.
func (c *checker) leaf(ctx context.Context, at place, p *page.Page) {
	c.usage.leaf(p)
	c.mu.Lock()
	c.report.Entries += int64(p.Len())
	c.mu.Unlock()
	for e := range p.EntriesFrom(0) {
		if ctx.Err() != nil {
			return
		}
		if !e.ID.Shard.IsZero() {
			c.file(ctx, at.at(e.Path), &e)
		}
	}
}

// folders checks that every entry of a tree is in a folder. base is a tree without such defects
// or zero; only the differences are checked.
func (c *checker) folders(ctx context.Context, at place, base, root page.Root) error {
	good := "/" // the last checked folder; "/" is no path
	for change, err := range page.Diff(ctx, c.pages, base, root) {
		if err != nil {
			return err
		}
		if e := change.New; e != nil && e.Path != "" {
			dir := parent(e.Path)
			if dir == good {
				continue
			}
			found, err := c.lookup(ctx, root.Page, page.Key(dir))
			if err != nil {
				return err
			}
			if found == nil || found.Path != dir || found.Type != page.Dir {
				c.found(names.PageKey(root.Page), at.at(e.Path), codec.Corrupt("tree", 0, "%.80q is not in a directory", e.Path))
				continue
			}
			good = dir
		}
		if err := c.orphans(ctx, at, root.Page, change); err != nil {
			return err
		}
	}
	return nil
}

// orphans looks for entries in a directory that is one no more.
func (c *checker) orphans(ctx context.Context, at place, root page.Hash, change page.Change) error {
	was, is := change.Old, change.New
	if was == nil || was.Type != page.Dir || is != nil && is.Type == page.Dir {
		return nil
	}
	found, err := c.lookup(ctx, root, page.ChildKey(was.Path))
	if err != nil {
		return err
	}
	if found != nil && found.Path != "" && parent(found.Path) == was.Path {
		c.found(names.PageKey(root), at.at(found.Path), codec.Corrupt("tree", 0, "%.80q is not in a directory", found.Path))
	}
	return nil
}

func parent(path string) string {
	return path[:max(0, strings.LastIndexByte(path, '/'))]
}

// lookup returns the first entry of a tree whose key is not below a given one, or nil.
func (c *checker) lookup(ctx context.Context, root page.Hash, key string) (*page.Entry, error) {
	for h := root; ; {
		p, err := c.pages.Page(ctx, h)
		if err != nil {
			return nil, fmt.Errorf("page %v: %w", h, err)
		}
		row := p.Seek(key)
		if row == p.Len() {
			return nil, nil
		}
		if p.Level() == 0 {
			e, err := p.Entry(row)
			return &e, err
		}
		l, err := p.Link(row)
		if err != nil {
			return nil, err
		}
		h = l.Page
	}
}
