package writer

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
)

const (
	// putsAtOnce hides the latency of a store, and leaves room for other requests.
	putsAtOnce = 8

	// rescueBatch is how many pages wait to be rescued from a sweep together, which
	// takes one request.
	rescueBatch = 64

	// maxSkipped bounds how many pages of the newest tree are known, to 48 bytes each.
	// A tree of 10 million entries has 5,000.
	maxSkipped = 1 << 20
)

// A pagePutter puts the pages of a tree: several at a time, but a page only when those
// below it are there.
type pagePutter struct {
	ctx     context.Context // of the build
	s       *Session
	skip    map[page.Hash]struct{} // pages that are there for certain
	delayed []delayedPage          // that a sweep wants to delete
	puts    *errgroup.Group
	pctx    context.Context // of puts
}

type delayedPage struct {
	key   names.Key
	value []byte
}

func (s *Session) newPagePutter(ctx context.Context) *pagePutter {
	pp := &pagePutter{ctx: ctx, s: s}
	pp.begin()
	return pp
}

func (pp *pagePutter) begin() {
	pp.puts, pp.pctx = errgroup.WithContext(pp.ctx)
	pp.puts.SetLimit(putsAtOnce)
}

// levelAt is where a page says its level (package page).
const levelAt = 8

// put takes a page. Leaves come before the pages that link to them.
func (pp *pagePutter) put(h page.Hash, value []byte) error {
	if _, ok := pp.skip[h]; ok {
		pp.s.guard.record(names.PageKey(h))
		return nil
	}
	if value[levelAt] > 0 {
		if err := pp.finish(nil); err != nil {
			return err
		}
		pp.begin()
	}
	k := names.PageKey(h)
	if pp.s.guard.isListed(k) {
		pp.delayed = append(pp.delayed, delayedPage{k, value})
		if len(pp.delayed) < rescueBatch {
			return nil
		}
		return pp.putDelayed()
	}
	return pp.start(k, value)
}

// putDelayed rescues the pages that are held back, or waits until they are deleted. Then
// they are put like others.
func (pp *pagePutter) putDelayed() error {
	keys := make([]names.Key, len(pp.delayed))
	for i, held := range pp.delayed {
		keys[i] = held.key
	}
	if _, err := pp.s.guard.protect(pp.ctx, keys...); err != nil {
		return err
	}
	for _, held := range pp.delayed {
		if err := pp.start(held.key, held.value); err != nil {
			return err
		}
	}
	pp.delayed = nil
	return nil
}

// start puts a page in the background. It waits while too many are on their way.
func (pp *pagePutter) start(k names.Key, value []byte) error {
	if pp.pctx.Err() != nil {
		return pp.puts.Wait()
	}
	pp.puts.Go(func() error {
		err := pp.s.w.putPage(pp.pctx, k, value)
		if err == nil {
			pp.s.guard.record(k)
		}
		return err
	})
	return nil
}

// finish returns when all pages are put, with err if it is not nil.
func (pp *pagePutter) finish(err error) error {
	if err == nil && len(pp.delayed) > 0 {
		err = pp.putDelayed()
	}
	if putErr := pp.puts.Wait(); putErr != nil && (err == nil || pp.ctx.Err() == nil) {
		return putErr
	}
	return err
}

// pagesOf returns the pages of a tree that is live, and so are they: a sweep deletes none
// of them for a long time yet. Pages above the leaves are read; leaves must exist with
// their size, or are read, too, with verify. A page that is missing or damaged is left out, and so are pages of
// a tree with too many.
func (w *Writer) pagesOf(ctx context.Context, root page.Hash, verify bool) map[page.Hash]struct{} {
	found := map[page.Hash]struct{}{root: {}}
	next := []page.Hash{root}
	for len(next) > 0 && len(found) < maxSkipped {
		h := next[len(next)-1]
		next = next[:len(next)-1]
		pg, err := w.catalog.Pages().Page(ctx, h)
		if err != nil {
			delete(found, h) // it is put again
			w.o.Logger.Warn("a page of the newest tree cannot be read, and is stored again if it is still needed", "event", "corrupt", "what", "page", "err", err)
			continue
		}
		if pg.Level() == 0 {
			continue
		}
		for l := range pg.LinksFrom(0) {
			if _, ok := found[l.Page]; ok {
				continue // in a tree that is sound no page is there twice
			}
			found[l.Page] = struct{}{}
			if pg.Level() > 1 || verify {
				next = append(next, l.Page)
				continue
			}
			if size, err := w.store.Size(ctx, names.PageKey(l.Page)); err != nil || size != int64(l.Size) {
				delete(found, l.Page)
			}
		}
	}
	return found
}
