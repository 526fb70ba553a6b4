package publish

import (
	"cmp"
	"context"
	"errors"
	iofs "io/fs"
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
)

// changes returns the changes of tree in the order of keys: entries of the folder that differ,
// and removed paths. Only changes need memory. A nil tree is empty; entries are nil without a folder.
func (p *publishRun) changes(ctx context.Context, tree catalog.Tree, entries iter.Seq2[page.Entry, error]) ([]page.Change, error) {
	var changes []page.Change
	for _, path := range p.o.Remove {
		old, err := tree.Lookup(ctx, path)
		if err != nil {
			return nil, &AbsentError{tree, path, err}
		}
		changes = append(changes, page.Change{Old: &old})
	}
	if entries != nil {
		laid := overlay{tree: tree}
		defer laid.close()
		for e, err := range entries {
			if err == nil {
				err = p.notRemoved(e.Path)
			}
			if err != nil {
				return nil, err
			}
			change, err := laid.over(ctx, e)
			if err != nil {
				return nil, err
			}
			if change != nil {
				changes = append(changes, *change)
			}
		}
	}
	slices.SortStableFunc(changes, func(a, b page.Change) int {
		return page.ComparePaths(cmp.Or(a.New, a.Old).Path, cmp.Or(b.New, b.Old).Path)
	})
	return slices.CompactFunc(changes, func(a, b page.Change) bool {
		return a.New == nil && b.New == nil && a.Old.Path == b.Old.Path
	}), nil
}

// notRemoved refuses to remove an entry of the folder.
func (p *publishRun) notRemoved(path string) error {
	for _, gone := range p.o.Remove {
		if path == gone || strings.HasPrefix(path, gone+"/") {
			return &removeConflict{gone, p.o.Ingest.Folders[0]}
		}
	}
	return nil
}

// An overlay compares entries in the order of keys with what a tree has. The entries of
// one folder come together, so it reads one folder of the tree at a time.
type overlay struct {
	tree catalog.Tree // nil: an empty one
	dir  string
	next func() (page.Entry, error, bool) // entries of dir; nil: not begun
	stop func()
	old  *page.Entry // the next of them; nil: there are no more
}

// over returns the change to e, or nil.
func (o *overlay) over(ctx context.Context, e page.Entry) (*page.Change, error) {
	old, err := o.find(ctx, e.Path)
	switch {
	case err != nil:
		return nil, err
	case old != nil && old.EqualContent(&e):
		return nil, nil //nolint:nilnil // no change
	}
	return &page.Change{Old: old, New: &e}, nil
}

// find returns the entry of the tree at a path, or nil.
func (o *overlay) find(ctx context.Context, name string) (*page.Entry, error) {
	switch {
	case o.tree == nil:
		return nil, nil //nolint:nilnil // absent
	case name == "":
		e, err := o.tree.Lookup(ctx, "")
		return &e, err
	}
	dir := strings.TrimPrefix(path.Dir("/"+name), "/")
	if o.next == nil || dir != o.dir {
		o.close()
		o.dir = dir
		o.next, o.stop = iter.Pull2(o.tree.List(ctx, dir, ""))
		if err := o.advance(); err != nil {
			return nil, err
		}
	}
	for o.old != nil && o.old.Path < name {
		if err := o.advance(); err != nil {
			return nil, err
		}
	}
	if o.old == nil || o.old.Path != name {
		return nil, nil //nolint:nilnil // absent
	}
	return o.old, nil
}

func (o *overlay) advance() error {
	e, err, ok := o.next()
	o.old = nil
	switch {
	case !ok || errors.Is(err, iofs.ErrNotExist):
		return nil // a missing folder, or the end
	case err != nil:
		return err
	}
	o.old = &e
	return nil
}

func (o *overlay) close() {
	if o.next != nil {
		o.stop()
		o.next = nil
	}
}
