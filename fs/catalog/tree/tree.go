package tree

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"strings"

	"github.com/xetfs/xetfs/codec/page"
)

// A Tree reads the pages below one root. It keeps none: the Getter does. It is safe for
// concurrent use.
type Tree struct {
	source
	root           page.Hash
	entries, bytes int64
}

// Open reads the root page. The pages of a pinned tree are compared with its identity.
func Open(ctx context.Context, pages page.Getter, root page.Root) (*Tree, error) {
	t := &Tree{source: source{pages, root.Pinned}, root: root.Page}
	p, err := t.page(ctx, root.Page)
	if err == nil && root.Pinned {
		if err = p.CheckIdentity(root.Identity); err != nil {
			err = pageErr(root.Page, err)
		}
	}
	if err != nil {
		return nil, err
	}
	t.entries, t.bytes = p.Below()
	return t, nil
}

// Root returns the hash of the root page.
func (t *Tree) Root() page.Hash { return t.root }

// Totals returns the number of entries and the sum of the file sizes, as stated by the root page.
func (t *Tree) Totals() (entries, bytes int64) { return t.entries, t.bytes }

// Lookup returns the entry at a slash path, or io/fs.ErrNotExist. The root is "".
func (t *Tree) Lookup(ctx context.Context, path string) (page.Entry, error) {
	if strings.IndexByte(path, 0) >= 0 {
		return page.Entry{}, notExist(path) // its key might be that of another path
	}
	var buf [256]byte
	key := page.AppendKey(buf[:0], path)
	p, err := t.page(ctx, t.root)
	for err == nil && p.Level() > 0 {
		row, h, ok := p.FindLink(key)
		if !ok {
			return page.Entry{}, notExist(path)
		}
		p, err = t.below(ctx, p, row, h)
	}
	if err != nil {
		return page.Entry{}, err
	}
	e, ok := p.FindEntry(key)
	if !ok {
		return page.Entry{}, notExist(path)
	}
	return e, nil
}

func notExist(path string) error {
	return &iofs.PathError{Op: "lookup", Path: path, Err: iofs.ErrNotExist}
}

// A source fetches the pages of a tree.
type source struct {
	pages  page.Getter
	pinned bool // pages are proven by their identities (page.Root)
}

// page fetches a page that no link leads to: a root.
func (s source) page(ctx context.Context, h page.Hash) (*page.Page, error) {
	p, err := s.pages.Page(ctx, h)
	if err != nil {
		return nil, pageErr(h, err)
	}
	return p, nil
}

// child fetches the page of a link and compares the two.
func (s source) child(ctx context.Context, parent *page.Page, row int) (*page.Page, error) {
	return s.below(ctx, parent, row, parent.Child(row))
}

// below is child for a caller that has the hash of the link.
func (s source) below(ctx context.Context, parent *page.Page, row int, h page.Hash) (*page.Page, error) {
	p, err := s.pages.Page(ctx, h)
	switch {
	case err == nil && s.pinned:
		err = parent.ProveChild(row, p)
	case err == nil:
		err = parent.CheckChild(row, p)
	}
	if err != nil {
		return nil, pageErr(h, err)
	}
	return p, nil
}

// pageErr adds the hash of the page. A missing page must not look like a missing name.
func pageErr(h page.Hash, err error) error {
	if errors.Is(err, iofs.ErrNotExist) {
		return fmt.Errorf("page %v: %v", h, err)
	}
	return fmt.Errorf("page %v: %w", h, err)
}
