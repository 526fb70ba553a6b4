package tree

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/xetfs/xetfs/codec/page"
)

// Update makes the pages of a changed tree and passes the new ones to put, leaves first
// and the root last. Changes are in the order of their keys, one per path. Update uses
// only the path of Old, and only without New. The removal of an absent path changes
// nothing. With the sizes of the old tree, the result is that of Build.
//
// Update reads the pages that contain a change. It continues with the pages behind them,
// up to the next common start of an old and a new page. It holds a few pages of each level
// in memory, for any length of the tree and the changes.
func Update(ctx context.Context, pages page.Getter, s page.Sizes, root page.Hash, changes iter.Seq2[page.Change, error], put func(page.Hash, []byte) error) (page.Link, error) {
	u := &updater{ctx: ctx, source: source{pages: &recent{pages: pages}}, sizes: s, root: root, put: put}
	for c, err := range changes {
		if err == nil {
			err = u.change(c)
		}
		if err != nil {
			return page.Link{}, err
		}
	}
	return u.finish()
}

// An updater changes a tree, all its levels side by side.
type updater struct {
	source
	ctx    context.Context // of the one Update
	sizes  page.Sizes
	root   page.Hash // of the old tree
	put    func(page.Hash, []byte) error
	levels []*editor
	key    string // of the last change
}

// level returns the editor of a level.
func (u *updater) level(n int) (*editor, error) {
	for n >= len(u.levels) {
		e, err := newEditor(u, len(u.levels))
		if err != nil {
			return nil, err
		}
		u.levels = append(u.levels, e)
	}
	return u.levels[n], nil
}

func (u *updater) change(c page.Change) error {
	if err := u.ctx.Err(); err != nil {
		return err
	}
	named := c.New
	if named == nil {
		named = c.Old
	}
	if named == nil {
		return errors.New("a change of nothing")
	}
	key := page.Key(named.Path)
	if len(u.levels) > 0 && key <= u.key {
		return fmt.Errorf("change of %q is not behind the one before", named.Path)
	}
	u.key = key
	e, err := u.level(0)
	if err == nil {
		err = e.begin(key)
	}
	if err == nil && c.New != nil {
		err = e.addEntry(key, c.New)
	}
	if err == nil {
		err = e.drop(key)
	}
	return err
}

// finish finishes level after level, up to the first that is one page.
func (u *updater) finish() (page.Link, error) {
	if len(u.levels) == 0 {
		return u.unchanged()
	}
	for n := 0; ; n++ {
		e, err := u.level(n)
		if err == nil {
			err = e.settle()
		}
		if err != nil {
			return page.Link{}, err
		}
		all := !e.kept // rows of the level went through e.out, and those that are in no page yet:
		open := e.out.Open()
		switch {
		case all && e.made == 0 && open == 0:
			return u.empty()
		case all && e.made == 0 && open == 1 && n > 0:
			return u.only(e.link, n-1)
		}
		if err := e.end(); err != nil {
			return page.Link{}, err
		}
		if all && e.made == 1 {
			return e.newest, nil
		}
	}
}

// empty makes a tree without entries.
func (u *updater) empty() (page.Link, error) {
	return page.NewBuilder(u.sizes, func(h page.Hash, b []byte) error {
		if h == u.root {
			return nil
		}
		return u.put(h, b)
	}).Close()
}

// unchanged returns the link to the old root.
func (u *updater) unchanged() (page.Link, error) {
	p, err := u.page(u.ctx, u.root)
	if err != nil {
		return page.Link{}, err
	}
	l := page.Link{Last: p.Last(), Page: u.root, Identity: p.Identity(), Size: len(p.Encoded())}
	l.Entries, l.Bytes = p.Below()
	return l, nil
}

// only returns the root of a tree in which one page of a level is left. The root is that
// page, or the one below a page with a single link.
func (u *updater) only(l page.Link, level int) (page.Link, error) {
	for ; level > 0; level-- {
		p, err := u.page(u.ctx, l.Page)
		if err != nil {
			return page.Link{}, err
		}
		if p.Level() != level {
			return page.Link{}, pageErr(l.Page, fmt.Errorf("level %d, want %d", p.Level(), level))
		}
		if p.Len() > 1 {
			break
		}
		if l, err = p.Link(0); err != nil {
			return page.Link{}, pageErr(l.Page, err)
		}
	}
	return l, nil
}

// A recent caches the last pages that were read, because the editors of all levels walk over the
// same pages above them.
type recent struct {
	pages page.Getter
	kept  [4 * (page.MaxLevel + 1)]struct {
		hash page.Hash
		page *page.Page
	}
	next int
}

// Page implements page.Getter, for one goroutine.
func (r *recent) Page(ctx context.Context, h page.Hash) (*page.Page, error) {
	for i := range r.kept {
		if k := &r.kept[i]; k.page != nil && k.hash == h {
			return k.page, nil
		}
	}
	p, err := r.pages.Page(ctx, h)
	if err == nil {
		k := &r.kept[r.next%len(r.kept)]
		k.hash, k.page = h, p
		r.next++
	}
	return p, err
}
