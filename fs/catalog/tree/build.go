package tree

import (
	"context"
	"iter"

	"github.com/xetfs/xetfs/codec/page"
)

// Build makes the pages of a whole tree from its entries in the order of their keys. It
// passes them to put, leaves first and the root last. It holds one page of each level in
// memory.
func Build(ctx context.Context, s page.Sizes, entries iter.Seq2[page.Entry, error], put func(page.Hash, []byte) error) (page.Link, error) {
	b := page.NewBuilder(s, put)
	for e, err := range entries {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = b.Add(e)
		}
		if err != nil {
			return page.Link{}, err
		}
	}
	return b.Close()
}
