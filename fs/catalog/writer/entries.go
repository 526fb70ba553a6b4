package writer

import (
	"cmp"
	"context"
	"fmt"
	"iter"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog/tree"
)

// hiddenVersions is the name in the root under which a mount shows older versions.
const hiddenVersions = ".versions"

// checkEntry checks one entry alone.
func checkEntry(e *page.Entry) error {
	if err := e.Check(); err != nil {
		return err
	}
	if e.Path == hiddenVersions {
		return fmt.Errorf("entry %q: the name is taken: older versions are shown there", e.Path)
	}
	return nil
}

// checkOrder checks the position of an entry among the entries before it. The builder of
// the tree checks the entry alone, which is expensive enough to do once.
func checkOrder(e *page.Entry, dirs *tree.Order) error {
	err := dirs.Add(e)
	if err == nil && e.Path != hiddenVersions {
		return nil
	}
	return cmp.Or(checkEntry(e), err)
}

// checked yields the entries of a whole tree, which are in the order of their keys. It
// ends with an error at the first invalid entry. It records the shards of the entries as
// reused.
func (s *Session) checked(ctx context.Context, entries iter.Seq2[page.Entry, error]) iter.Seq2[page.Entry, error] {
	return func(yield func(page.Entry, error) bool) {
		var dirs tree.Order
		var last codec.Hash
		for e, err := range entries {
			if err == nil {
				err = checkOrder(&e, &dirs)
			}
			if h := e.ID.Shard; err == nil && h != last && !h.IsZero() {
				err, last = s.reuse.checkShard(ctx, h), h
			}
			if err != nil {
				yield(page.Entry{}, err)
				return
			}
			if !yield(e, nil) {
				return
			}
		}
		if !dirs.HasRoot() {
			yield(page.Entry{}, tree.ErrNoRoot)
		}
	}
}
