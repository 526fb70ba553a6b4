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

// A SymbolList is the symbol list of a store. It names every symbol that has a live
// version, and possibly others.
type SymbolList struct {
	Single    []SymbolEntry   // keys of one symbol each
	Compacted []CompactedList // compacted lists
	Damaged   []names.Key
}

// A SymbolEntry is a key of the symbol list.
type SymbolEntry struct {
	Key      names.Key
	Modified time.Time
	Symbol   names.Symbol
}

// A CompactedList is a compacted list.
type CompactedList struct {
	Key     names.Key
	Time    time.Time
	Symbols []names.Symbol
}

// errMoved reports that the symbol list was compacted while it was read.
var errMoved = errors.New("the symbol list was compacted while it was read")

// maxListTries bounds how often the symbol list is read while others compact it.
const maxListTries = 10

// ReadSymbolList reads the symbol list. Compaction adds a compacted list before it deletes
// the keys in it. The new key sorts behind those, so that one List misses no symbol.
func (c *StoreCatalog) ReadSymbolList(ctx context.Context) (*SymbolList, error) {
	for try := 1; ; try++ {
		l, err := c.readSymbolListOnce(ctx)
		if err == nil || !errors.Is(err, errMoved) || try == maxListTries {
			return l, err
		}
	}
}

func (c *StoreCatalog) readSymbolListOnce(ctx context.Context) (*SymbolList, error) {
	l := new(SymbolList)
	var many []names.Key
	for item, err := range c.store.List(ctx, names.SymbolPrefix, "") {
		if err != nil {
			return nil, fmt.Errorf("list symbols: %w", err)
		}
		switch p, err := names.ParseKey(item.Key); {
		case err != nil: // not ours
		case p.Kind == names.SymbolKind:
			l.Single = append(l.Single, SymbolEntry{item.Key, item.Modified, names.SymbolOf(p)})
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

// read adds a compacted list. A damaged one is only recorded.
func (l *SymbolList) read(ctx context.Context, s origin.Store, k names.Key) error {
	var symbols []names.Symbol
	_, err := ReadObject(ctx, s, k, "", func(value []byte) (err error) {
		if err = names.CheckValue(k, value); err == nil {
			symbols, err = names.DecodeSymbols(value)
		}
		return err
	})
	switch {
	case errors.Is(err, origin.ErrNotFound):
		return errMoved
	case errors.Is(err, codec.ErrCorrupt):
		l.Damaged = append(l.Damaged, k)
		return nil
	case err != nil:
		return err
	}
	p, err := names.ParseKey(k)
	l.Compacted = append(l.Compacted, CompactedList{k, p.Time, symbols})
	return err
}

// checkSettled returns errMoved if a new compacted list exists. The order of a folder
// listing is that of its file system, so that it can miss both the deleted keys and their
// replacement. Other stores list by key.
func (c *StoreCatalog) checkSettled(ctx context.Context, many []names.Key) error {
	if !origin.Local(c.store) {
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

// Merged returns the state of every symbol.
func (l *SymbolList) Merged() []names.Symbol {
	lists := make([][]names.Symbol, 0, len(l.Compacted)+1)
	single := make([]names.Symbol, len(l.Single))
	for i := range l.Single {
		single[i] = l.Single[i].Symbol
	}
	lists = append(lists, single)
	for _, m := range l.Compacted {
		lists = append(lists, m.Symbols)
	}
	return names.MergeSymbols(lists...)
}

// Symbols implements Catalog. It may yield a symbol whose versions were just deleted, or
// whose first version is being published. Certainty needs a read for each symbol.
func (c *StoreCatalog) Symbols(ctx context.Context) iter.Seq2[string, error] {
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

func (c *StoreCatalog) symbols(ctx context.Context) ([]string, error) {
	l, err := c.ReadSymbolList(ctx)
	if err != nil {
		return nil, err
	}
	if len(l.Compacted) == 0 || len(l.Damaged) > 0 {
		return c.symbolsOfRefs(ctx, l)
	}
	var found []string
	for _, s := range l.Merged() {
		if !s.Gone {
			found = append(found, s.Name)
		}
	}
	return found, nil
}

// symbolsOfRefs returns the symbols that have a ref, without reading the refs. A symbol
// that the list calls deleted is read: a later entry of the list may be lost.
func (c *StoreCatalog) symbolsOfRefs(ctx context.Context, l *SymbolList) ([]string, error) {
	gone := map[string]bool{}
	for _, s := range l.Merged() {
		gone[s.Name] = s.Gone
	}
	all, err := c.RefSymbols(ctx)
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

// RefSymbols returns all symbols that have a ref, sorted.
func (c *StoreCatalog) RefSymbols(ctx context.Context) ([]string, error) {
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
