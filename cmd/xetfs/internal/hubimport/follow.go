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
			im.followErr.Store("")
		case withoutDigits(err) != logged:
			logged = withoutDigits(err)
			im.followErr.Store("follow_failed: " + err.Error())
			im.o.Logger.Warn("the revision cannot be imported; the mount keeps its version", "event", "follow_failed",
				"symbol", im.symbol, "err", err)
		}
	}
}

// FollowError returns event and reason of the last poll if it failed; "": it succeeded.
func (im *Importer) FollowError() string {
	text, _ := im.followErr.Load().(string)
	return text
}

func withoutDigits(err error) string {
	return strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return -1
		}
		return r
	}, err.Error())
}

// A failedImport is the last commit whose listing Follow could not read.
type failedImport struct {
	commit  string
	err     error
	backoff backoff
}

// A backoff decides in which polls a commit is listed again: 1, 3, 7 ... polls are skipped after each listing,
// up to a limit. One of 100,000 files has 100 pages, and a server limits requests.
type backoff struct {
	pause int // polls that are skipped after the last listing
	skip  int // those that are left
}

// Limits of the polls that are skipped, after a listing that cannot be read and after one that a file
// contradicts. The files of the second are shown, and the next listing may be the same.
const (
	maxSkipped      = 64   // 16 minutes with the default period
	maxDoubtSkipped = 1023 // four hours
)

// isDue is called in each poll.
func (b *backoff) isDue() bool {
	if b.skip > 0 {
		b.skip--
		return false
	}
	return true
}

// listed is called after a listing. It skips up to most polls.
func (b *backoff) listed(most int) {
	b.pause = min(2*b.pause+1, most)
	b.skip = b.pause
}

// poll is one poll of Follow. It does nothing while another update runs.
func (im *Importer) poll(ctx context.Context) (err error) {
	defer flight.Guard(&err)
	if !im.mu.TryLock() {
		return nil
	}
	defer im.mu.Unlock()
	known, err := im.head(ctx)
	if err != nil {
		return err
	}
	tag, doubted := im.tagOf(known), im.isDoubted() && im.doubt.backoff.isDue()
	if doubted {
		tag = "" // the commit is listed again, although it did not change
	}
	st, err := im.repo.Resolve(ctx, tag)
	if im.o.Seen != nil && (err == nil || isUnchanged(err)) {
		im.o.Seen()
	}
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
	if !f.backoff.isDue() {
		return f.err
	}
	if f.err = im.importCommit(ctx, st, importMode{relist: doubted}); f.err == nil {
		*f = failedImport{}
		return nil
	}
	f.backoff.listed(maxSkipped)
	return f.err
}
