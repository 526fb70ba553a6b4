package hubimport

import (
	"context"
	"time"

	"github.com/xetfs/xetfs/cache/flight"
)

// Follow polls the Hub until ctx ends, with one small request in each period. A new commit becomes
// a new version. If the Hub fails, the newest version remains; each reason is logged once.
func (im *Importer) Follow(ctx context.Context, period time.Duration) {
	if im.o.Offline || im.repo.Address().IsCommit() {
		return
	}
	tick := time.NewTicker(period)
	defer tick.Stop()
	logged := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := im.poll(ctx)
		switch {
		case ctx.Err() != nil:
		case err == nil:
			logged = ""
		case err.Error() != logged:
			logged = err.Error()
			im.o.Logger.Warn("the revision cannot be read; the mount keeps its version", "event", "follow_failed",
				"symbol", im.symbol, "err", err)
		}
	}
}

// poll is one poll of Follow.
func (im *Importer) poll(ctx context.Context) (err error) {
	defer flight.Guard(&err)
	im.mu.Lock()
	defer im.mu.Unlock()
	tag := im.tag
	if im.isDoubted() {
		tag = "" // the commit is listed again, although it did not change
	}
	st, err := im.repo.Resolve(ctx, tag)
	if isUnchanged(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return im.show(ctx, st)
}
