package writer

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog"
)

const (
	// A writer that sees more keys in the symbol list than a random number between
	// these compacts it. Random, so that not all writers do at once.
	fewSymbolKeys  = 300
	manySymbolKeys = 700

	// checkedAtOnce is how many symbols of a compacted list are held against their
	// refs when it is compacted again, so that one that is gone does not stay for ever.
	checkedAtOnce = 256
)

// maybeCompact compacts the symbol list if it has many keys.
func (w *Writer) maybeCompact(ctx context.Context) error {
	limit := fewSymbolKeys + int(w.random(manySymbolKeys-fewSymbolKeys))
	count := 0
	for _, err := range w.store.List(ctx, names.SymbolPrefix, "") {
		if err != nil {
			return err
		}
		if count++; count > limit {
			_, err := w.compact(ctx, false)
			return err
		}
	}
	return nil
}

// RebuildSymbols makes the symbol list anew from the refs, and returns how many symbols
// are live.
func (w *Writer) RebuildSymbols(ctx context.Context) (int, error) { return w.compact(ctx, true) }

// A compaction puts the keys of the symbol list into one object.
type compaction struct {
	w       *Writer
	list    *catalog.SymbolList
	now     time.Time          // by the store's clock: when the youngest key was put
	pending map[names.Key]bool // keys that are left alone
	result  map[string]names.Symbol
}

// compact compacts the symbol list, and returns how many live symbols are in it. With
// all, or if what was compacted before is lost, every ref is asked.
func (w *Writer) compact(ctx context.Context, all bool) (int, error) {
	l, err := w.catalog.ReadSymbolList(ctx)
	if err != nil {
		return 0, err
	}
	c := &compaction{w: w, list: l, pending: map[names.Key]bool{}, result: map[string]names.Symbol{}}
	for _, s := range l.Single {
		c.now = latest(c.now, s.Modified)
	}
	for _, s := range l.Merged() {
		c.result[s.Name] = s
	}
	suspects := c.suspects()
	if all || len(l.Compacted) == 0 || len(l.Damaged) > 0 {
		if suspects, err = c.allSymbols(ctx); err != nil {
			return 0, err
		}
	}
	if err := c.check(ctx, suspects); err != nil {
		return 0, err
	}
	return c.write(ctx)
}

// suspects returns the symbols that the list may name without reason: what was added
// since the last compaction, and some of the others.
func (c *compaction) suspects() []string {
	var found []string
	for _, s := range c.list.Single {
		if newest := c.result[s.Symbol.Name]; !newest.Gone {
			found = append(found, newest.Name)
		}
	}
	var older []string
	for _, m := range c.list.Compacted {
		for _, s := range m.Symbols {
			if !c.result[s.Name].Gone {
				older = append(older, s.Name)
			}
		}
	}
	if n := len(older); n > checkedAtOnce {
		from := int(c.w.random(time.Duration(n)))
		older = append(older[from:], older[:from]...)[:checkedAtOnce]
	}
	found = append(found, older...)
	slices.Sort(found)
	return slices.Compact(found)
}

// allSymbols returns all symbols that have a ref or are in the list.
func (c *compaction) allSymbols(ctx context.Context) ([]string, error) {
	found, err := c.w.catalog.RefSymbols(ctx)
	if err != nil {
		return nil, err
	}
	for name := range c.result {
		found = append(found, name)
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}

// check holds symbols against their refs.
func (c *compaction) check(ctx context.Context, symbols []string) error {
	refs := make([]*names.Ref, len(symbols)) // nil: there is none
	failed := make([]error, len(symbols))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(putsAtOnce)
	for i, symbol := range symbols {
		g.Go(func() error {
			seen, err := c.w.catalog.ReadRef(gctx, symbol)
			if !errors.Is(err, iofs.ErrNotExist) {
				refs[i], failed[i] = seen.Ref, err
			}
			return gctx.Err()
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for i, symbol := range symbols {
		if failed[i] == nil {
			c.judge(symbol, refs[i])
		} else if _, ok := c.result[symbol]; !ok {
			c.result[symbol] = names.Symbol{Name: symbol, Time: c.w.now()} // it may be live
		}
	}
	return nil
}

// judge decides what the list says of a symbol whose ref was read.
func (c *compaction) judge(symbol string, ref *names.Ref) {
	s, ok := c.result[symbol]
	if !ok {
		s = names.Symbol{Name: symbol, Time: c.w.now()}
	}
	switch {
	case ref != nil && ref.Latest != nil:
		s.Seq, s.Gone = max(s.Seq, ref.Seq), false
	case ref != nil && ref.Seq >= s.Seq:
		s.Seq, s.Gone = ref.Seq, true
	case !s.Gone:
		c.postpone(symbol, ref)
		return
	}
	c.result[symbol] = s
}

// postpone decides about a symbol that was added by a change that has not happened. It
// still may, for one window after the key was put. Until two are over, by the store's
// clock, the key stays as it is and counts for what it says.
func (c *compaction) postpone(symbol string, ref *names.Ref) {
	reached := uint64(0)
	if ref != nil {
		reached = ref.Seq
	}
	for _, s := range c.list.Single {
		if s.Symbol.Name == symbol && s.Symbol.Seq > reached && c.now.Sub(s.Modified) <= 2*c.w.catalog.Settings().Window {
			c.pending[s.Key] = true
		}
	}
	delete(c.result, symbol)
	if ref != nil {
		c.result[symbol] = names.Symbol{Name: symbol, Seq: ref.Seq, Time: c.w.now(), Gone: true}
	}
}

// write puts the new list, and then deletes exactly what is in it.
func (c *compaction) write(ctx context.Context) (live int, err error) {
	p := c.w
	t := p.now()
	after := func(key time.Time) {
		if !t.After(key) {
			t = key.Add(time.Nanosecond)
		}
	}
	var merged []names.Key
	for _, s := range c.list.Single {
		after(s.Symbol.Time)
		if !c.pending[s.Key] {
			merged = append(merged, s.Key)
		}
	}
	for _, m := range c.list.Compacted {
		after(m.Time)
		merged = append(merged, m.Key)
	}
	var symbols []names.Symbol
	for _, s := range c.result {
		switch {
		case !s.Gone:
			live++
		case t.Sub(s.Time) > p.catalog.Settings().Grace:
			continue // nobody adds it late any more
		}
		symbols = append(symbols, s)
	}
	if err := c.put(ctx, t, names.MergeSymbols(symbols)); err != nil {
		return 0, err
	}
	for _, k := range slices.Concat(merged, c.list.Damaged) {
		if err := p.remove(ctx, k); err != nil {
			return 0, err
		}
	}
	return live, nil
}

// put puts the new list and looks whether it is there as it should be.
func (c *compaction) put(ctx context.Context, t time.Time, symbols []names.Symbol) error {
	for _, k := range c.list.Damaged {
		if p, err := names.ParseKey(k); err == nil && !t.After(p.Time) {
			t = p.Time.Add(time.Nanosecond)
		}
	}
	value, err := names.EncodeSymbols(symbols)
	if err != nil {
		return err
	}
	k := names.SymbolListKey(t, value)
	if err := c.w.put(ctx, k, value); err != nil {
		return err
	}
	if err := c.w.store.Sync(ctx); err != nil {
		return err
	}
	again, _, err := c.w.store.Get(ctx, k, "")
	if err == nil {
		err = names.CheckValue(k, again)
	}
	if err != nil {
		return fmt.Errorf("the new symbol list cannot be read: %w", err)
	}
	return nil
}
