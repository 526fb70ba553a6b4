package catalog

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"strings"

	"github.com/xetfs/xetfs/codec"
)

// A NestedError reports that the name of one live symbol continues that of another, as
// me/proj continues me. A mount shows the tree of the shorter name there, which hides the
// longer one.
type NestedError struct{ Hidden, By string }

func (e *NestedError) Error() string {
	return fmt.Sprintf("a mount shows the tree of %s in the place of %s", e.By, e.Hidden)
}

// CheckNested returns a NestedError if the first version of a symbol would hide another
// symbol or be hidden by one. A symbol with a live version passes. Damaged symbols do not
// count.
func (c *StoreCatalog) CheckNested(ctx context.Context, symbol string) error {
	if live, err := c.isLive(ctx, symbol); live || err != nil {
		return err
	}
	return c.FindNested(ctx, symbol)
}

// FindNested returns a NestedError if a live symbol hides a symbol or is hidden by it. Symbols
// that are damaged do not count.
func (c *StoreCatalog) FindNested(ctx context.Context, symbol string) error {
	by, err := c.HiddenBy(ctx, symbol, func(string) bool { return true })
	if err != nil {
		return err
	}
	if by != "" {
		return &NestedError{Hidden: symbol, By: by}
	}
	all, err := c.symbols(ctx)
	if err != nil {
		return err
	}
	for _, other := range all {
		if !strings.HasPrefix(other, symbol+"/") {
			continue
		}
		live, err := c.isLive(ctx, other)
		if err != nil {
			return err
		}
		if live {
			return &NestedError{Hidden: other, By: symbol}
		}
	}
	return nil
}

// HiddenBy returns the live symbol whose tree hides another symbol in a mount; "" if none does.
// It reads only symbols for which may returns true.
func (c *StoreCatalog) HiddenBy(ctx context.Context, symbol string, may func(string) bool) (string, error) {
	for end := range len(symbol) {
		if symbol[end] != '/' || !may(symbol[:end]) {
			continue
		}
		if live, err := c.isLive(ctx, symbol[:end]); live || err != nil {
			return symbol[:end], err
		}
	}
	return "", nil
}

// isLive reports whether a symbol has a live version.
func (c *StoreCatalog) isLive(ctx context.Context, symbol string) (bool, error) {
	_, err := c.Latest(ctx, symbol)
	if errors.Is(err, iofs.ErrNotExist) || errors.Is(err, codec.ErrCorrupt) {
		return false, nil
	}
	return err == nil, err
}
