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
	// A writer compacts the symbol list if it has more keys than a random number between
	// these two. The number is random so that writers do not compact at the same time.
	fewSymbolKeys  = 300
	manySymbolKeys = 700

	// checkedAtOnce is the number of symbols of a compacted list that the next compaction
	// compares with their refs. Deleted symbols therefore disappear in the end.
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

// RebuildSymbols builds the symbol list again from the refs. It returns the number of live
// symbols.
func (w *Writer) RebuildSymbols(ctx context.Context) (int, error) { return w.compact(ctx, true) }

// A compaction writes the keys of the symbol list into one object.
type compaction struct {
	w       *Writer
	list    *catalog.SymbolList
	now     time.Time          // by the clock of the store: the time of the youngest key
	pending map[names.Key]bool // keys that stay
	result  map[string]names.Symbol
}

// compact compacts the symbol list and returns its number of live symbols. It reads every
// ref if all is set or the compacted list is lost.
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

// suspects returns symbols that the list may name without reason: all symbols added since
// the last compaction, and some of the others.
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

// check compares symbols with their refs.
func (c *compaction) check(ctx context.Context, symbols []string) error {
	refs := make([]*names.Ref, len(symbols)) // nil: absent
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
			c.result[symbol] = names.Symbol{Name: symbol, Time: c.w.now()} // the symbol may be live
		}
	}
	return nil
}

// judge sets the entry of a symbol whose ref was read.
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

// postpone handles a symbol that was added by a change that has not happened. The change
// may still happen for one window after the key was stored. The key stays and counts until
// two windows are over by the clock of the store.
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

// write stores the new list and then deletes exactly the keys that are in it.
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
			continue // no writer adds the symbol late
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

// put stores the new list and reads it back.
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
		return fmt.Errorf("new symbol list: cannot be read: %w", err)
	}
	return nil
}
