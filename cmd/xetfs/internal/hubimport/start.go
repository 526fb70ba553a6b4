package hubimport

import (
	"context"
	"errors"
	"time"

	"github.com/xetfs/xetfs/cache/flight"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog"
)

// importWait is the default of Options.Wait. A listing of a few pages is complete then. During the
// import of a longer one, folders are listed in about one round trip each.
const importWait = 200 * time.Millisecond

// Pauses between tries of an import. They double from the first to the last.
const (
	minRetry      = time.Second
	maxRetry      = time.Minute
	maxWrongRetry = 16 * time.Minute // after a wrong listing, which rarely heals and costs all of its pages
)

// nextPause returns the pause after the next try, if this one has failed.
func nextPause(pause time.Duration, err error) time.Duration {
	if errors.Is(err, codec.ErrCorrupt) {
		return min(2*pause, maxWrongRetry)
	}
	return min(2*pause, maxRetry)
}

// Start is Update for a mount. If the listing is long, Start returns before it is complete, and
// the import continues until Close. The trees of Catalog list folders at the Hub meanwhile. Start waits for the
// listing if the catalog is made anew.
func (im *Importer) Start(ctx context.Context) error {
	st, err := im.next(ctx)
	if err != nil || st == nil {
		return err
	}
	if im.mustRenew(ctx) {
		return im.importNow(ctx, *st)
	}
	known, err := im.head(ctx)
	if err != nil {
		return err
	}
	p := newPendingTree(im, *st, known != "")
	im.pending.Store(p)
	first := make(chan error, 1)
	im.background.Go(func() { im.complete(p, first) })
	timer := time.NewTimer(im.o.Wait)
	defer timer.Stop()
	select {
	case err := <-first:
		if !errors.Is(err, origin.ErrUnavailable) {
			return err
		}
	case <-timer.C:
		im.o.Logger.Info("the listing is long; folders are listed when they are opened until it is complete", "event", "import_started",
			"symbol", im.symbol, "commit", st.ID)
	case <-ctx.Done():
	}
	return ctx.Err()
}

// complete imports the commit of a pending tree. It tries until Close, until Follow was faster or until an older
// version is shown. It sends the result of the first try.
func (im *Importer) complete(p *pendingTree, first chan<- error) {
	logged := ""
	for pause := minRetry; ; {
		err := im.showKnown(p, im.importPending(p, first != nil))
		if first != nil {
			first <- err
			first = nil
		}
		if err == nil || im.ctx.Err() != nil {
			return
		}
		select {
		case <-p.complete: // by Follow
			return
		case <-im.ctx.Done():
			return
		case <-time.After(pause):
		}
		if text := withoutDigits(err); text != logged {
			logged = text
			im.o.Logger.Warn("the listing cannot be imported; folders are listed when they are opened", "event", "import_failed",
				"symbol", im.symbol, "commit", p.state.ID, "err", err)
		}
		pause = nextPause(pause, err)
	}
}

// showKnown makes a pending tree the tree of an older version after a failed import. Without an older version
// it returns the error of the import, as it does if readers already got folders of the new commit.
func (im *Importer) showKnown(p *pendingTree, err error) error {
	if err == nil || !isFault(err) || !p.mayFallBack() {
		return err
	}
	t, openErr := im.catalog.Open(im.ctx, im.symbol, names.AsOf{})
	if openErr != nil || !p.fallBack(t) {
		return err
	}
	return im.orKnown(im.ctx, err)
}

// importPending is one try of complete. Later tries import the commit that the revision has then: the first
// one may be gone.
func (im *Importer) importPending(p *pendingTree, isFirst bool) (err error) {
	defer flight.Guard(&err)
	im.mu.Lock()
	defer im.mu.Unlock()
	st := p.state
	if !isFirst {
		if st, err = im.repo.Resolve(im.ctx, ""); err != nil {
			return err
		}
	}
	return im.importCommit(im.ctx, st, importMode{relist: im.isDoubted()})
}

// finishPending ends a pending import with the newest version.
func (im *Importer) finishPending(ctx context.Context) error {
	p := im.pending.Load()
	if p == nil || p.done() != nil {
		return nil
	}
	t, err := im.catalog.Open(ctx, im.symbol, names.AsOf{})
	if err == nil {
		p.finish(t)
	}
	return err
}

// Catalog returns the catalog for a mount after Start.
func (im *Importer) Catalog(c *catalog.StoreCatalog) catalog.VersionedCatalog {
	p := im.pending.Load()
	if p == nil || p.done() != nil {
		return c
	}
	return &pendingCatalog{c, p, im.symbol}
}

// A pendingCatalog is a catalog whose newest version is still imported.
type pendingCatalog struct {
	*catalog.StoreCatalog
	pending *pendingTree
	symbol  string
}

var (
	_ catalog.VersionedCatalog = (*pendingCatalog)(nil)
	_ catalog.Watcher          = (*pendingCatalog)(nil)
	_ catalog.Checker          = (*pendingCatalog)(nil)
)

// isPending reports whether the newest version of a symbol is not imported yet.
func (c *pendingCatalog) isPending(symbol string, at names.AsOf) bool {
	return symbol == c.symbol && at.Form == names.Latest && c.pending.done() == nil
}

// Open implements catalog.Catalog.
func (c *pendingCatalog) Open(ctx context.Context, symbol string, at names.AsOf) (catalog.Tree, error) {
	if c.isPending(symbol, at) {
		return c.pending, nil
	}
	return c.StoreCatalog.Open(ctx, symbol, at)
}

// Latest implements catalog.VersionedCatalog. The row of a pending tree is empty.
func (c *pendingCatalog) Latest(ctx context.Context, symbol string) (names.Row, error) {
	if c.isPending(symbol, names.AsOf{}) {
		return names.Row{}, nil
	}
	return c.StoreCatalog.Latest(ctx, symbol)
}
