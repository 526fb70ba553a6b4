// Package tree reads and changes the index of a version: a tree of pages that is a
// function of its sorted entries.
package tree

import (
	"context"
	"errors"
	"iter"

	"github.com/xetfs/xetfs/codec/page"
)

// A Tree reads the pages below one root. It keeps none: the Getter does. It is safe for
// concurrent use.
type Tree struct {
	pages page.Getter
	root  page.Hash
}

// Open reads the root page.
func Open(ctx context.Context, pages page.Getter, root page.Hash) (*Tree, error) {
	return &Tree{pages: pages, root: root}, errors.ErrUnsupported
}

// Sums returns the number of entries and the sum of file sizes, as the root page has it.
func (t *Tree) Sums() (entries, bytes int64) { return 0, 0 }

// Lookup returns the entry at a slash path, or io/fs.ErrNotExist. The root is "".
func (t *Tree) Lookup(ctx context.Context, path string) (page.Entry, error) {
	return page.Entry{}, errors.ErrUnsupported
}

// List yields the entries directly in dir whose names sort after a given one ("" for
// all), in order.
func (t *Tree) List(ctx context.Context, dir, after string) iter.Seq2[page.Entry, error] {
	return nil
}

// All yields the entry of dir and every entry below it, in the order of their keys.
func (t *Tree) All(ctx context.Context, dir string) iter.Seq2[page.Entry, error] { return nil }

// Build makes the pages of a whole tree from its entries in the order of their keys and
// hands them to put, leaves first, the root last.
func Build(ctx context.Context, s page.Sizes, entries iter.Seq2[page.Entry, error], put func(page.Hash, []byte) error) (page.Link, error) {
	return page.Link{}, errors.ErrUnsupported
}

// Update makes the pages of a changed tree and hands those that are new to put, leaves
// first, the root last. Changes come in the order of their keys; Old is not looked at. The result is the one that Build would give.
func Update(ctx context.Context, pages page.Getter, s page.Sizes, root page.Hash, changes iter.Seq2[page.Change, error], put func(page.Hash, []byte) error) (page.Link, error) {
	return page.Link{}, errors.ErrUnsupported
}
