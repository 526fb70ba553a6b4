package tree

import (
	"context"

	"github.com/xetfs/xetfs/codec/page"
)

// A walk moves along the pages of one level, from left to right. Its position is in front
// of a page that it has not fetched, or at the end. It fetches the pages above.
type walk struct {
	source
	root  page.Hash
	top   *page.Page
	level int
	above []place // from the root down; none if the root itself is of that level
	end   bool
}

// A place is a link: a page above the leaves, and a row of it.
type place struct {
	page *page.Page
	row  int
}

func (p place) isLast() bool { return p.row == p.page.Len()-1 }

// newWalk fetches the root. A tree that does not have the level is at its end.
func newWalk(ctx context.Context, s source, root page.Hash, level int) (walk, error) {
	top, err := s.page(ctx, root)
	if err != nil {
		return walk{}, err
	}
	return walk{source: s, root: root, top: top, level: level, end: top.Len() == 0 || top.Level() < level}, nil
}

// seek moves to the first page whose last key is not below key. Without such a page, past
// is true and the position is in front of the last page. The walk must not be at its end.
func (w *walk) seek(ctx context.Context, key string) (past bool, err error) {
	if w.top.Level() == w.level {
		return w.top.Last() < key, nil
	}
	rowOf := func(p *page.Page) int {
		row := p.Seek(key)
		if row == p.Len() {
			past = true
			row--
		}
		return row
	}
	w.above = append(w.above[:0], place{w.top, rowOf(w.top)})
	err = w.descend(ctx, rowOf)
	return past, err
}

// next goes to the page behind.
func (w *walk) next(ctx context.Context) error {
	n := len(w.above)
	for n > 0 && w.above[n-1].isLast() {
		n--
	}
	w.above = w.above[:n]
	if n == 0 {
		w.end = true
		return nil
	}
	w.above[n-1].row++
	return w.descend(ctx, func(*page.Page) int { return 0 })
}

// descend continues from the last place down to the pages above the level of the walk.
func (w *walk) descend(ctx context.Context, rowOf func(*page.Page) int) error {
	for {
		at := w.above[len(w.above)-1]
		if at.page.Level() == w.level+1 {
			return nil
		}
		p, err := w.child(ctx, at.page, at.row)
		if err != nil {
			return err
		}
		w.above = append(w.above, place{p, rowOf(p)})
	}
}

// isFirst and isLast say whether the page is at an end of its level.
func (w *walk) isFirst() bool {
	for _, at := range w.above {
		if at.row > 0 {
			return false
		}
	}
	return true
}

func (w *walk) isLast() bool {
	for _, at := range w.above {
		if !at.isLast() {
			return false
		}
	}
	return true
}

// last returns the last key of the page in front of the walk.
func (w *walk) last() string {
	if len(w.above) == 0 {
		return w.top.Last()
	}
	at := w.above[len(w.above)-1]
	l, _ := at.page.Link(at.row) // the row exists
	return l.Last
}

// hash returns the hash of the page in front of the walk.
func (w *walk) hash() page.Hash {
	if len(w.above) == 0 {
		return w.root
	}
	at := w.above[len(w.above)-1]
	return at.page.Child(at.row)
}

// fetcher returns a function that fetches the page in front of the walk, now or after the
// walk has moved.
func (w *walk) fetcher() func(context.Context) (*page.Page, error) {
	if len(w.above) == 0 {
		return func(context.Context) (*page.Page, error) { return w.top, nil }
	}
	at := w.above[len(w.above)-1]
	return func(ctx context.Context) (*page.Page, error) { return w.child(ctx, at.page, at.row) }
}
