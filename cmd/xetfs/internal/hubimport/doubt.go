package hubimport

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"sync/atomic"
)

// A commit never changes, but its listing may have been wrong. A file that contradicts its entry
// makes the listing doubted: the next start, or the next poll of Follow, lists the commit again. A
// file beside the folder of the catalog records the doubt for later processes.
type doubt struct {
	again   atomic.Bool // the next update lists the commit again
	backoff backoff     // of Follow, since the Hub may repeat its answer; guarded by Importer.mu
}

// doubtSuffix is that of the file beside the folder of the catalog.
const doubtSuffix = ".doubted"

// Doubt makes the next update list the newest commit again. It writes an empty local file and waits for
// nothing else.
func (im *Importer) Doubt() {
	if im.doubt.again.Swap(true) {
		return
	}
	err := os.WriteFile(im.folder+doubtSuffix, nil, 0o600)
	log := im.o.Logger.With("event", "listing_doubted", "symbol", im.symbol)
	if err != nil {
		log.Warn("a file contradicts the listing of its commit, but later processes cannot be notified", "err", err)
		return
	}
	log.Info("a file contradicts the listing of its commit, which is listed again") // the reader gets the error
}

// isDoubted reports whether the newest commit must be listed again.
func (im *Importer) isDoubted() bool { return im.doubt.again.Load() }

// loadDoubt reads the doubt of earlier processes.
func (im *Importer) loadDoubt() error {
	_, err := os.Stat(im.folder + doubtSuffix)
	if errors.Is(err, iofs.ErrNotExist) {
		return nil
	}
	im.doubt.again.Store(err == nil)
	return err
}

// trust ends the doubt after the commit was listed again.
func (im *Importer) trust() error {
	im.doubt.again.Store(false)
	if err := os.Remove(im.folder + doubtSuffix); err != nil && !errors.Is(err, iofs.ErrNotExist) {
		return fmt.Errorf("listing a commit again: %w", err)
	}
	return nil
}
