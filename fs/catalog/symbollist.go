package catalog

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"iter"
	"slices"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
)

// A symbolList is the symbol list as it was found. It names every symbol that has a live
// version, and maybe some that have none.
type symbolList struct {
	single []listed   // keys of one symbol each
	many   []compacts // compacted lists
	bad    []names.Key
}

// A listed is a key of the symbol list.
type listed struct {
	key      names.Key
	modified time.Time
	symbol   names.Symbol
}

// A compacts is a compacted list.
type compacts struct {
	key     names.Key
	time    time.Time
	symbols []names.Symbol
}

// errMoved says that the symbol list was compacted while it was read.
var errMoved = errors.New("the symbol list was compacted while it was read")

// readSymbols reads the symbol list. Compaction adds a compacted list before it deletes
// what is in it, under a key that sorts behind: so nothing is missed by one List.
func (c *Stored) readSymbols(ctx context.Context) (*symbolList, error) {
	for try := 1; ; try++ {
		l, err := c.readSymbolsOnce(ctx)
		if err == nil || !errors.Is(err, errMoved) || try == maxTries {
			return l, err
		}
	}
}

func (c *Stored) readSymbolsOnce(ctx context.Context) (*symbolList, error) {
	l := new(symbolList)
	var many []names.Key
	for item, err := range c.store.List(ctx, names.SymbolPrefix, "") {
		if err != nil {
			return nil, fmt.Errorf("list symbols: %w", err)
		}
		switch p, err := names.ParseKey(item.Key); {
		case err != nil: // not ours
		case p.Kind == names.SymbolKind:
			l.single = append(l.single, listed{item.Key, item.Modified, names.SymbolOf(p)})
		case p.Kind == names.SymbolListKind:
			many = append(many, item.Key)
		}
	}
	for _, k := range many {
		if err := l.read(ctx, c.store, k); err != nil {
			return nil, err
		}
	}
	return l, c.checkSettled(ctx, many)
}

// read adds a compacted list. One that is damaged is only noted.
func (l *symbolList) read(ctx context.Context, s origin.Store, k names.Key) error {
	var symbols []names.Symbol
	_, err := readTwice(ctx, s, k, "", func(value []byte) (err error) {
		if err = names.CheckValue(k, value); err == nil {
			symbols, err = names.DecodeSymbols(value)
		}
		return err
	})
	switch {
	case errors.Is(err, origin.ErrNotFound):
		return errMoved
	case errors.Is(err, codec.ErrCorrupt):
		l.bad = append(l.bad, k)
		return nil
	case err != nil:
		return err
	}
	p, err := names.ParseKey(k)
	l.many = append(l.many, compacts{k, p.Time, symbols})
	return err
}

// checkSettled says whether there are new compacted lists. A folder is listed in the
// order of its file system, which can miss both what was deleted meanwhile and what took
// its place; other stores list by key.
func (c *Stored) checkSettled(ctx context.Context, many []names.Key) error {
	if !origin.Near(c.store) {
		return nil
	}
	for item, err := range c.store.List(ctx, names.SymbolListPrefix, "") {
		if err != nil {
			return fmt.Errorf("list symbols: %w", err)
		}
		if !slices.Contains(many, item.Key) {
			return errMoved
		}
	}
	return nil
}

// merged returns the state of every symbol.
func (l *symbolList) merged() []names.Symbol {
	lists := make([][]names.Symbol, 0, len(l.many)+1)
	single := make([]names.Symbol, len(l.single))
	for i := range l.single {
		single[i] = l.single[i].symbol
	}
	lists = append(lists, single)
	for _, m := range l.many {
		lists = append(lists, m.symbols)
	}
	return names.MergeSymbols(lists...)
}

// Symbols implements Catalog. It may yield a symbol whose versions were deleted just
// now, or whose first one is being published: to know for certain takes a read for each.
func (c *Stored) Symbols(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		found, err := c.symbols(ctx)
		if err != nil {
			yield("", err)
			return
		}
		for _, s := range found {
			if !yield(s, nil) {
				return
			}
		}
	}
}

func (c *Stored) symbols(ctx context.Context) ([]string, error) {
	l, err := c.readSymbols(ctx)
	if err != nil {
		return nil, err
	}
	if len(l.many) == 0 || len(l.bad) > 0 {
		return c.symbolsOfRefs(ctx, l)
	}
	var found []string
	for _, s := range l.merged() {
		if !s.Gone {
			found = append(found, s.Name)
		}
	}
	return found, nil
}

// symbolsOfRefs returns the symbols that have a ref, without asking it whether there is
// a live version. But where the list says that there is none, the ref has the last word:
// what came after may be what was lost.
func (c *Stored) symbolsOfRefs(ctx context.Context, l *symbolList) ([]string, error) {
	gone := map[string]bool{}
	for _, s := range l.merged() {
		gone[s.Name] = s.Gone
	}
	all, err := c.listRefs(ctx)
	if err != nil {
		return nil, err
	}
	found := all[:0]
	for _, symbol := range all {
		if gone[symbol] {
			_, err := c.Latest(ctx, symbol)
			if errors.Is(err, iofs.ErrNotExist) {
				continue
			}
			if err != nil && ctx.Err() != nil {
				return nil, err
			}
		}
		found = append(found, symbol)
	}
	return found, nil
}

// listRefs returns all symbols that have a ref, sorted.
func (c *Stored) listRefs(ctx context.Context) ([]string, error) {
	var found []string
	for item, err := range c.store.List(ctx, names.RefPrefix, "") {
		if err != nil {
			return nil, fmt.Errorf("list refs: %w", err)
		}
		if p, err := names.ParseKey(item.Key); err == nil && p.Kind == names.RefKind {
			found = append(found, p.Symbol)
		}
	}
	slices.Sort(found) // keys are sorted by how names are escaped
	return found, nil
}
