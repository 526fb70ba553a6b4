package hubimport

import (
	"context"
	"strings"
	"time"

	"github.com/xetfs/xetfs/cache/flight"
)

// Follow polls the Hub until ctx ends, with one small request in each period. A new commit becomes
// a new version. If the Hub fails, the newest version remains; each reason is logged once. A reason
// with other numbers, such as the time until a limit ends, is the same.
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
		case withoutDigits(err) != logged:
			logged = withoutDigits(err)
			im.o.Logger.Warn("the revision cannot be read; the mount keeps its version", "event", "follow_failed",
				"symbol", im.symbol, "err", err)
		}
	}
}

func withoutDigits(err error) string {
	return strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return -1
		}
		return r
	}, err.Error())
}

// A failedImport is the last commit whose listing Follow could not read. The polls until its next try
// double: a listing of 100,000 files has 100 pages, and a server limits requests.
type failedImport struct {
	commit string
	err    error
	pause  int // polls that were skipped before the last try
	skip   int // polls until the next try
}

// maxSkipped is how many polls of a commit are skipped at most: 16 minutes with the default period.
const maxSkipped = 64

// poll is one poll of Follow. It does nothing while another update runs.
func (im *Importer) poll(ctx context.Context) (err error) {
	defer flight.Guard(&err)
	if !im.mu.TryLock() {
		return nil
	}
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
	f := &im.failed
	if f.commit != st.ID {
		*f = failedImport{commit: st.ID}
	}
	if f.skip > 0 {
		f.skip--
		return f.err
	}
	if f.err = im.show(ctx, st); f.err == nil {
		*f = failedImport{}
		return nil
	}
	f.pause = min(2*f.pause+1, maxSkipped)
	f.skip = f.pause
	return f.err
}
