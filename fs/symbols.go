package fs

import (
	"context"
	iofs "io/fs"
	"iter"
	"slices"
	"strings"

	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
)

// A symbolTree shows every symbol of a catalog as a directory at its path. A symbol
// that lies inside another is hidden by it.
type symbolTree struct {
	symbols []string // sorted
	trees   map[string]catalog.Tree
}

var _ catalog.Tree = (*symbolTree)(nil)

// Version implements catalog.Tree: each symbol has its own.
func (t *symbolTree) Version() names.Row { return names.Row{} }

// Sums adds up those of the symbols.
func (t *symbolTree) Sums() (files, bytes int64) {
	for _, tree := range t.trees {
		if s, ok := tree.(summer); ok {
			f, b := s.Sums()
			files, bytes = files+f, bytes+b
		}
	}
	return files, bytes
}

// find returns the tree that a path is in, the symbol, and the path in that tree.
func (t *symbolTree) find(path string) (tree catalog.Tree, symbol, rest string) {
	for end := 0; end < len(path); end++ {
		slash := strings.IndexByte(path[end:], '/')
		if slash < 0 {
			break
		}
		end += slash
		if tree, ok := t.trees[path[:end]]; ok {
			return tree, path[:end], path[end+1:]
		}
	}
	if tree, ok := t.trees[path]; ok {
		return tree, path, ""
	}
	return nil, "", ""
}

// above says whether a path is a directory that only leads to symbols.
func (t *symbolTree) above(path string) bool {
	if path == "" {
		return true
	}
	for _, s := range t.symbols {
		if strings.HasPrefix(s, path+"/") {
			return true
		}
	}
	return false
}

// Lookup implements catalog.Tree.
func (t *symbolTree) Lookup(ctx context.Context, path string) (page.Entry, error) {
	if tree, symbol, rest := t.find(path); tree != nil {
		e, err := tree.Lookup(ctx, rest)
		e.Path = join(symbol, e.Path)
		if rest == "" {
			e.Path = symbol
		}
		return e, err
	}
	if !t.above(path) {
		return page.Entry{}, &iofs.PathError{Op: "lookup", Path: path, Err: iofs.ErrNotExist}
	}
	return page.Entry{Path: path, Type: page.Dir, Mode: 0o555}, nil
}

// List implements catalog.Tree.
func (t *symbolTree) List(ctx context.Context, dir, after string) iter.Seq2[page.Entry, error] {
	return func(yield func(page.Entry, error) bool) {
		if tree, symbol, rest := t.find(dir); tree != nil {
			for e, err := range tree.List(ctx, rest, after) {
				e.Path = join(symbol, e.Path)
				if !yield(e, err) {
					return
				}
			}
			return
		}
		if !t.above(dir) {
			yield(page.Entry{}, &iofs.PathError{Op: "list", Path: dir, Err: iofs.ErrNotExist})
			return
		}
		t.listAbove(ctx, dir, after, yield)
	}
}

// listAbove yields the next part of the path of every symbol below dir.
func (t *symbolTree) listAbove(ctx context.Context, dir, after string, yield func(page.Entry, error) bool) {
	var below []string
	for _, s := range t.symbols {
		if rest, ok := strings.CutPrefix(s, join(dir, "")); ok {
			name, _, _ := strings.Cut(rest, "/")
			below = append(below, name)
		}
	}
	slices.Sort(below)
	for _, name := range slices.Compact(below) {
		if name <= after {
			continue
		}
		e, err := t.Lookup(ctx, join(dir, name))
		if !yield(e, err) || err != nil {
			return
		}
	}
}
