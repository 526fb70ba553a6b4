package tree

import (
	"context"
	"iter"

	"github.com/xetfs/xetfs/codec/page"
)

// List yields the entries directly in dir whose names sort after a given one ("" for
// all), in order. It yields io/fs.ErrNotExist if there is no such directory. Leaves are
// fetched up to eight ahead.
func (t *Tree) List(ctx context.Context, dir, after string) iter.Seq2[page.Entry, error] {
	return func(yield func(page.Entry, error) bool) {
		e, err := t.Lookup(ctx, dir)
		if err == nil && e.Type != page.Dir {
			err = notExist(dir)
		}
		if err != nil {
			yield(page.Entry{}, err)
			return
		}
		t.between(ctx, page.ChildKey(dir)+after, page.DirKey(dir)+"\x01", yield)
	}
}

// All yields the entry of dir and every entry below it, in the order of their keys. If
// it is not a directory, that is the one entry.
func (t *Tree) All(ctx context.Context, dir string) iter.Seq2[page.Entry, error] {
	return func(yield func(page.Entry, error) bool) {
		e, err := t.Lookup(ctx, dir)
		if !yield(e, err) || err != nil || e.Type != page.Dir {
			return
		}
		end := "" // none
		if dir != "" {
			end = page.DirKey(dir)
			end = end[:len(end)-1] + "\x01"
		}
		t.between(ctx, page.DirKey(dir), end, yield)
	}
}

// between yields the entries whose keys are above from and below to; "" is no end.
func (t *Tree) between(ctx context.Context, from, to string, yield func(page.Entry, error) bool) {
	for p, err := range t.leaves(ctx, from, to) {
		if err != nil {
			yield(page.Entry{}, err)
			return
		}
		row, exact := p.Find(from)
		if exact {
			row++
		}
		end := p.Len()
		if to != "" {
			end = p.Seek(to)
		}
		for e := range p.EntriesFrom(row) {
			if row++; row > end {
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// leaves yields the leaves with keys from one on and below another; "" is no end. After
// an error it ends. When it ends, nothing of it is going on.
func (t *Tree) leaves(ctx context.Context, from, to string) iter.Seq2[*page.Page, error] {
	return func(yield func(*page.Page, error) bool) {
		w, err := newWalk(ctx, t.source, t.root, 0)
		if err == nil && !w.end {
			w.end, err = w.seek(ctx, from)
		}
		a := ahead{ctx: ctx}
		defer a.close()
		for {
			for err == nil && !w.end && !a.full() {
				last := w.isLast() || to != "" && w.last() >= to
				a.add(w.fetcher(), last)
				if w.end = last; !last {
					err = w.next(ctx)
				}
			}
			if a.empty() {
				break
			}
			p, err := a.take()
			if !yield(p, err) || err != nil {
				return
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}
