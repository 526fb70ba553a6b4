package writer

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
)

const (
	// putsAtOnce hides the latency of a store, and leaves room for other requests.
	putsAtOnce = 8

	// rescueBatch is the number of pages that one request rescues from a sweep.
	rescueBatch = 64

	// maxSkipped bounds the known pages of the newest tree, of 48 bytes each.
	// A tree of 10 million entries has 5,000.
	maxSkipped = 1 << 20
)

// A pagePutter stores the pages of a tree, several at a time. A page is stored when the
// pages below it are.
type pagePutter struct {
	ctx     context.Context // of the build
	s       *Session
	skip    map[page.Hash]struct{} // pages that certainly exist
	delayed []delayedPage          // pages that a sweep wants to delete
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

// levelAt is the offset of the level of a page (package page).
const levelAt = 8

// put stores a page. Leaves precede the pages that link to them.
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

// putDelayed rescues the delayed pages or waits until they are deleted. Then it stores
// them like others.
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

// start stores a page in the background. It waits while too many are under way.
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

// finish returns when all pages are stored, with err if it is not nil.
func (pp *pagePutter) finish(err error) error {
	if err == nil && len(pp.delayed) > 0 {
		err = pp.putDelayed()
	}
	if putErr := pp.puts.Wait(); putErr != nil && (err == nil || pp.ctx.Err() == nil) {
		return putErr
	}
	return err
}

// pagesOf returns the pages of a live tree. A sweep cannot delete them soon, because they are live.
// pagesOf reads the pages above the leaves. A leaf must exist with its size; with verify, it is read.
// The result lacks missing and damaged pages, and pages beyond maxSkipped.
func (w *Writer) pagesOf(ctx context.Context, root page.Hash, verify bool) map[page.Hash]struct{} {
	found, next := map[page.Hash]struct{}{root: {}}, []page.Hash{root}
	leaves := map[page.Hash]int64{} // to their sizes
	for len(next) > 0 && len(found) < maxSkipped {
		h := next[len(next)-1]
		next = next[:len(next)-1]
		pg, err := w.catalog.Pages().Page(ctx, h)
		if err != nil {
			delete(found, h) // stored again
			if ctx.Err() != nil {
				break // nothing is damaged
			}
			w.o.Logger.Warn("page of the newest tree is unreadable; it is stored again if needed", "event", "corrupt", "what", "page", "err", err)
			continue
		}
		if pg.Level() == 0 {
			continue
		}
		for l := range pg.LinksFrom(0) {
			if _, ok := found[l.Page]; ok {
				continue // a sound tree contains no page twice
			}
			found[l.Page] = struct{}{}
			if pg.Level() > 1 || verify {
				next = append(next, l.Page)
				continue
			}
			leaves[l.Page] = int64(l.Size)
		}
	}
	w.keepMissing(ctx, leaves)
	for h := range leaves {
		delete(found, h)
	}
	return found
}

// A request for the size of one page costs as much as a request that lists 1,000 keys.
const (
	maxSizes   = 16  // pages of a remote store whose sizes are requested without a listing
	keysPerOne = 500 // keys that are listed at most for each page
)

// keepMissing deletes the pages that exist with their size from pages.
func (w *Writer) keepMissing(ctx context.Context, pages map[page.Hash]int64) {
	if most := keysPerOne * len(pages); len(pages) > maxSizes && !origin.Local(w.store) {
		for item, err := range w.store.List(ctx, names.PagePrefix, "") {
			if most--; err != nil || most < 0 {
				break
			}
			if p, err := names.ParseKey(item.Key); err == nil && pages[p.Hash] == item.Size {
				delete(pages, p.Hash)
			}
		}
	}
	for h, size := range pages {
		if got, err := w.store.Size(ctx, names.PageKey(h)); err == nil && got == size {
			delete(pages, h)
		}
	}
}
