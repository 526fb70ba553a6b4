package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog"
)

// symbol checks a symbol: its reference, its list of versions, and the trees of those
// that live.
func (c *checker) symbol(ctx context.Context, symbol string) {
	k := names.RefKey(symbol)
	at := place{symbol: symbol}
	ref := new(names.Ref)
	_, err := catalog.ReadDocument(ctx, c.store, k, "", ref)
	if err == nil && ref.Symbol != symbol {
		err = codec.Corrupt("vref", 0, "it is that of %.80q", ref.Symbol)
	}
	if err != nil {
		c.found(k, at, err)
		return
	}
	c.add(&c.report.Symbols)
	h := c.history(ctx, at, ref)
	c.latest(k, at, ref, h)
	for _, number := range slices.Sorted(maps.Keys(h.rows)) {
		if h.head == nil || !h.head.IsDeleted(number) {
			c.add(&c.report.Versions)
			at.version = number
			c.tree(ctx, k, at, h.rows[number])
		}
	}
}

// history reads the list of versions of a symbol, as far as it can be read. Without the
// newest element there is only what the reference itself says.
func (c *checker) history(ctx context.Context, at place, ref *names.Ref) history {
	h := history{rows: map[uint64]names.Row{}}
	repacked := false
	if ref.Latest != nil {
		h.rows[ref.Latest.Number] = *ref.Latest
	}
	seen := map[names.Key]bool{}
	broken := false
	var younger *names.Version
	for todo := []names.Key{ref.Head}; len(todo) > 0; {
		k := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if k == "" || seen[k] {
			continue
		}
		seen[k] = true
		v, err := readVersion(ctx, c.store, k)
		if err != nil {
			c.found(k, at, fmt.Errorf("the versions behind it cannot be found: %w", err))
			if broken = true; h.head == nil {
				return h
			}
			continue
		}
		if h.head == nil {
			h.head = v
		}
		if younger != nil && younger.Parent == k {
			if err := follows(younger, v); err != nil {
				c.found(k, at, err)
			}
		}
		younger = v
		c.rows(k, at, v, h.rows, repacked)
		repacked = repacked || v.Kind == names.Repack
		todo = append(todo, v.Next, v.Parent)
	}
	if !broken {
		c.gaps(ref.Head, at, h)
	}
	return h
}

// follows says what is wrong where v is the parent of another element.
func follows(younger, v *names.Version) error {
	number := v.Number
	if younger.Kind == names.Write {
		number++
	}
	switch {
	case younger.Seq != v.Seq+1:
		return codec.Corrupt("ver", 0, "change %d, and the one after it is %d", v.Seq, younger.Seq)
	case younger.Number != number:
		return codec.Corrupt("ver", 0, "version %d, and change %d after it has version %d", v.Number, younger.Seq, younger.Number)
	case !younger.Time.After(v.Time):
		return codec.Corrupt("ver", 0, "its time is not before that of change %d, a later one", younger.Seq)
	}
	return nil
}

// rows adds the rows of one element to those of younger ones, which say the same. A younger one
// may have another signature, and after a repack another place of the tree.
func (c *checker) rows(k names.Key, at place, v *names.Version, all map[uint64]names.Row, repacked bool) {
	for _, row := range v.Rows {
		known, ok := all[row.Number]
		if !ok {
			all[row.Number] = row
			continue
		}
		a, b := known.Unsigned(), row.Unsigned()
		if repacked {
			a, b = a.WithoutPlace(), b.WithoutPlace()
		}
		if a != b {
			at.version = row.Number
			c.found(k, at, codec.Corrupt("ver", 0, "version %d has the tree %v, a younger element says %v", row.Number, row.Root, known.Root))
		}
	}
}

// gaps looks for versions that are neither there nor deleted.
func (c *checker) gaps(k names.Key, at place, h history) {
	live := uint64(0)
	for number := range h.rows {
		if !h.head.IsDeleted(number) {
			live++
		}
	}
	for _, d := range h.head.Deleted {
		live += d.To - d.From
	}
	if want := h.head.Number + 1; live != want {
		c.found(k, at, codec.Corrupt("ver", 0, "of %d versions, %d exist or were deleted", want, live))
	}
}

// latest holds what the reference says of the newest live version against the list.
func (c *checker) latest(k names.Key, at place, ref *names.Ref, h history) {
	if h.head == nil {
		return
	}
	var newest *names.Row
	live := slices.DeleteFunc(slices.Collect(maps.Values(h.rows)), func(row names.Row) bool { return h.head.IsDeleted(row.Number) })
	if len(live) > 0 {
		row := slices.MaxFunc(live, func(a, b names.Row) int { return cmp.Compare(a.Number, b.Number) })
		newest = &row
	}
	switch {
	case newest == nil && ref.Latest == nil:
	case newest == nil:
		c.found(k, at, codec.Corrupt("vref", 0, "latest is version %d, and no version lives", ref.Latest.Number))
	case ref.Latest == nil:
		c.found(k, at, codec.Corrupt("vref", 0, "no latest version, and version %d lives", newest.Number))
	case *ref.Latest != *newest:
		c.found(k, at, codec.Corrupt("vref", 0, "latest is version %d, and version %d lives", ref.Latest.Number, newest.Number))
	case slices.ContainsFunc(h.head.Rows, func(row names.Row) bool { return row.Number == newest.Number && row != *newest }):
		c.found(k, at, codec.Corrupt("vref", 0, "latest is version %d with another signature than in the list", newest.Number))
	}
}

// A LostRefError reports that a symbol has versions and no reference. No command deletes a
// reference. Without it, no reader finds the versions.
type LostRefError struct {
	Symbol string
	Change uint64 // the last one whose version exists
}

// Error implements error.
func (e *LostRefError) Error() string {
	why := "the reference is lost"
	if e.Change <= 1 {
		why = "the reference is lost, or the first publish was killed or is under way"
	}
	return fmt.Sprintf("%s, and change %d of the symbol exists; restore the reference with xetfs catalog repair-ref STORE %s", why, e.Change, e.Symbol)
}

// lostRefs reports the symbols that have versions and no reference. It looks for the reference
// again: the symbol may be new.
func (c *checker) lostRefs(ctx context.Context) {
	for _, symbol := range slices.Sorted(maps.Keys(c.heads)) {
		k := names.RefKey(symbol)
		_, err := c.store.Size(ctx, k)
		switch {
		case errors.Is(err, origin.ErrNotFound):
			c.found(k, place{symbol: symbol}, &LostRefError{symbol, c.heads[symbol]})
		case err != nil:
			c.found(k, place{symbol: symbol}, err)
		}
	}
}

// symbolList checks the list of symbols, which may name too many and must not lack one. Readers
// of a store that was never compacted need no list.
func (c *checker) symbolList(ctx context.Context) error {
	refs, err := c.liveSymbols(ctx)
	if err != nil {
		return err
	}
	c.hidden(refs)
	var k names.Key // of a list
	var lists [][]names.Symbol
	var single []names.Symbol
	err = each(ctx, c.store, names.SymbolPrefix, func(item origin.Item, p names.Parsed) error {
		if p.Kind == names.SymbolKind {
			single = append(single, names.SymbolOf(p))
			return nil
		}
		list, err := readSymbols(ctx, c.store, item.Key)
		switch {
		case errors.Is(err, origin.ErrNotFound): // compacted again, a moment ago
		case err != nil:
			c.found(item.Key, place{}, err)
		default:
			k, lists = item.Key, append(lists, list)
		}
		return nil
	})
	if err != nil || len(lists) == 0 {
		return err
	}
	listed := map[string]bool{}
	for _, s := range names.MergeSymbols(append(lists, single)...) {
		listed[s.Name] = !s.Gone
	}
	for _, symbol := range refs {
		if !listed[symbol] {
			c.found(k, place{symbol: symbol}, codec.Corrupt("symbol list", 0, "it lacks %.80q, which is live", symbol))
		}
	}
	return nil
}

// liveSymbols returns the symbols that have a live version now, before the list is read.
func (c *checker) liveSymbols(ctx context.Context) (live []string, err error) {
	err = each(ctx, c.store, names.RefPrefix, func(_ origin.Item, p names.Parsed) error {
		ref := new(names.Ref)
		if _, err := catalog.ReadDocument(ctx, c.store, names.RefKey(p.Symbol), "", ref); err == nil && ref.Symbol == p.Symbol && ref.Latest != nil {
			live = append(live, p.Symbol)
		}
		return nil // what is wrong was found before
	})
	return live, err
}

// hidden reports the live symbols that a mount does not show.
func (c *checker) hidden(live []string) {
	is := map[string]bool{}
	for _, symbol := range live {
		is[symbol] = true
	}
	for _, symbol := range live {
		for end := range len(symbol) {
			if symbol[end] == '/' && is[symbol[:end]] {
				c.found(names.RefKey(symbol), place{symbol: symbol}, &catalog.NestedError{Hidden: symbol, By: symbol[:end]})
				break
			}
		}
	}
}

func readSymbols(ctx context.Context, s origin.Store, k names.Key) ([]names.Symbol, error) {
	b, _, err := s.Get(ctx, k, "")
	if err != nil {
		return nil, err
	}
	if err := names.CheckValue(k, b); err != nil {
		return nil, err
	}
	return names.DecodeSymbols(b)
}
