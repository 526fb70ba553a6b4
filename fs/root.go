package fs

import (
	"context"
	"fmt"
	"slices"

	"github.com/xetfs/xetfs/fs/catalog"
)

// openTree returns the tree that a mount shows: that of one symbol, or, where the
// catalog has several and none was picked, a tree in which each is a directory.
func openTree(ctx context.Context, c catalog.Catalog, o Options) (catalog.Tree, error) {
	if o.Symbol != "" {
		return c.Open(ctx, o.Symbol, o.At)
	}
	var symbols []string
	for s, err := range c.Symbols(ctx) {
		if err != nil {
			return nil, fmt.Errorf("list symbols: %w", err)
		}
		symbols = append(symbols, s)
	}
	if slices.Equal(symbols, []string{""}) {
		return c.Open(ctx, "", o.At)
	}
	t := &symbolTree{trees: make(map[string]catalog.Tree)}
	for _, s := range symbols {
		tree, err := c.Open(ctx, s, o.At)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s, err)
		}
		t.symbols = append(t.symbols, s)
		t.trees[s] = tree
	}
	slices.Sort(t.symbols)
	return t, nil
}
