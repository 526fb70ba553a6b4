package disk

import (
	"errors"
	"time"

	"github.com/xetfs/xetfs/cache/disk/internal/index"
	"github.com/xetfs/xetfs/cache/disk/internal/wal"
)

func (y *syncState) wait(done chan error) { y.waiting = append(y.waiting, done) }

func (y *syncState) due(o *Options) bool {
	if y.running || y.unsynced == 0 {
		return false
	}
	return y.unsynced >= o.SyncBytes || time.Since(y.last) >= o.SyncEvery
}

// entered records bytes that a power loss would lose now.
func (y *syncState) entered(n int64) {
	if y.unsynced == 0 && !y.running {
		y.last = time.Now()
	}
	y.unsynced += n
}

// wrote records bytes of a segment that are not durable yet.
func (y *syncState) wrote(s *index.Segment, n int64) {
	y.entered(n)
	if !s.Dirty {
		s.Dirty = true
		y.segments = append(y.segments, s)
	}
}

// startSync starts a sync in the background. If one is under way and a caller waits, the end of
// that one starts the next.
func (wr *writer) startSync() {
	y := &wr.syncing
	if y.running {
		return
	}
	wr.flush()
	y.running, y.last = true, time.Now()
	y.waiters, y.waiting = y.waiting, nil
	y.log = wr.log
	segments, dirs, d, journal := y.segments, y.dirs, wr.d, wr.log
	for _, s := range segments {
		s.Dirty = false
	}
	y.segments, y.dirs, y.unsynced = nil, false, 0
	go func() { y.result <- syncAll(d, segments, dirs, journal) }()
}

var errNoJournal = errors.New("the journal is missing")

// syncAll syncs segments, and then the journal with their records.
func syncAll(d *folder, segments []*index.Segment, dirs bool, journal *wal.Log) error {
	var failed error
	for _, s := range segments {
		f, err := d.opened.get(d.Dir, s)
		if err == nil {
			err = f.Sync()
		}
		if err != nil && !s.Gone.Load() {
			failed = errors.Join(failed, err)
		}
	}
	if dirs {
		failed = errors.Join(failed, d.SyncDir("seg"))
	}
	if journal == nil {
		return errors.Join(failed, errNoJournal)
	}
	if failed == nil {
		failed = journal.Sync()
	}
	return failed
}

// synced ends a sync. After a failed sync the kernel may have dropped any written page, so the
// segments and the journal are not written any more.
func (wr *writer) synced(err error) {
	y := &wr.syncing
	y.running = false
	if err != nil && !errors.Is(err, errNoJournal) {
		wr.failed("syncing", err)
		y.dirs = true
		for q := range wr.heads {
			wr.seal(index.Queue(q))
		}
		if y.log == wr.log {
			wr.abandonLog()
		}
	}
	y.log = nil
	for _, w := range y.waiters {
		w <- err
	}
	y.waiters = nil
	if len(y.waiting) > 0 {
		wr.startSync()
	}
}

// settleSync waits for the sync that is under way, and for a next one that has callers.
func (wr *writer) settleSync() {
	for wr.syncing.running {
		wr.synced(<-wr.syncing.result)
	}
}
