package disk

import (
	"errors"
	"time"

	"github.com/xetfs/xetfs/cache/disk/internal/index"
	"github.com/xetfs/xetfs/cache/disk/internal/wal"
)

// rotate writes the whole index into a new journal, which then replaces the old one. A process
// that is killed at any moment leaves one of the two complete.
func (wr *writer) rotate() error {
	wr.settleSync()
	wr.flush()
	if err := wr.makeRoom(wal.SnapshotSize(wr.d.index), 0); err != nil {
		return err
	}
	wr.flush() // records of makeRoom belong to the old journal
	l, err := wal.Create(wr.d, wr.number+1, wr.countJournal)
	if err != nil {
		return err
	}
	old := wr.log
	wr.log = l
	err = l.Snapshot(wr.d.index, &wr.policy.EvictionQueues, wr.id, wr.last, time.Now())
	if err == nil {
		err = l.Publish(wr.d)
	}
	if err != nil {
		wr.countJournal(-index.OnDisk(l.Size()))
		if old != nil {
			_ = old.Close() // the objects have the references of l now
		}
		wr.log = nil
		return errors.Join(err, l.Close(), wr.d.Dir.Remove(wal.TmpName))
	}
	wr.number = l.Number
	wr.deleteStuck()
	return wr.removeLogs(old)
}

// replaceFailedLog begins a new journal if the last one failed, unless writes pause. Each put calls it:
// the pause may have ended since the last maintenance.
func (wr *writer) replaceFailedLog() {
	if wr.log == nil && !wr.s.health.full() {
		wr.failed("writing the index", wr.rotate())
	}
}

// removeLogs deletes the journals before the current one. It keeps a copy of a damaged one.
func (wr *writer) removeLogs(old *wal.Log) error {
	if old != nil {
		if err := old.Close(); err != nil {
			return err
		}
	}
	entries, err := wr.d.List("")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if n, ok := wal.ParseName(e.Name); !ok || n >= wr.number || wr.foreign[e.Name] || wr.isLeaving(e.Name) {
			continue
		}
		if e.Name != wr.damaged {
			wr.delete(orphan{name: e.Name, size: index.OnDisk(e.Size), sort: &wr.s.stats.journalBytes})
			continue
		}
		if err := wr.d.Rename(e.Name, wal.DamagedName); err != nil {
			return err
		}
		for _, d := range entries {
			if d.Name == wal.DamagedName {
				wr.countJournal(-index.OnDisk(d.Size)) // the rename has replaced it
			}
		}
	}
	return nil
}
