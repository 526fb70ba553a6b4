package disk

import (
	"time"

	"github.com/xetfs/xetfs/cache/disk/internal/index"
	"github.com/xetfs/xetfs/cache/disk/internal/wal"
)

// run executes the queued operations and the maintenance until close.
func (wr *writer) run() {
	defer close(wr.done)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	wr.failed("making room", wr.makeRoom(0, 0))
	for {
		ops, closing := wr.take()
		for i := range ops {
			wr.handle(ops[i])
			wr.stored(ops[i].put)
			ops[i] = op{}
		}
		wr.publishFiles()
		wr.flush()
		busy := wr.housekeep()
		if len(ops) > 0 {
			continue
		}
		if closing {
			wr.finish()
			return
		}
		timer.Reset(wr.pause(busy))
		select {
		case <-wr.wake:
		case <-timer.C:
		case err := <-wr.syncing.result:
			wr.synced(err)
		}
	}
}

func (wr *writer) handle(o op) {
	idle := wr.s.health.suspended.Load()
	switch {
	case o.call != nil && idle:
		o.call.done <- ErrSuspended
	case o.name != nil && idle:
		o.name.done <- ErrSuspended
	case o.name != nil:
		wr.pendingFiles = append(wr.pendingFiles, o.name)
	case o.call != nil && o.call.run == nil:
		wr.syncing.wait(o.call.done)
		wr.startSync()
	case o.call != nil:
		err := o.call.run()
		wr.flush() // the caller may be killed after this
		o.call.done <- err
	case idle:
	case o.drop != nil:
		wr.forget(o.drop)
	case o.put != nil:
		wr.store(o.put)
	}
}

// forget records that chunks are forgotten, and deletes segments without any left.
func (wr *writer) forget(d *dropOp) {
	wr.d.index.Drop(d.key, d.r) // a put may have stored them again
	wr.write(&wal.Record{Kind: wal.DropRecord, Key: d.key, Rows: []index.Row{{First: d.r.Start, N: d.r.Len()}}})
	wr.removeEmpty()
}

// housekeep does due maintenance and reports whether more is left.
func (wr *writer) housekeep() (busy bool) {
	select {
	case err := <-wr.syncing.result: // a busy writer does not wait for it elsewhere
		wr.synced(err)
	default:
	}
	if wr.s.health.suspended.Load() {
		wr.probe()
		return false
	}
	wr.replaceFailedLog()
	if wr.log != nil && wr.log.IsGrown(wr.s.o.testing.journal) {
		wr.failed("writing the index", wr.rotate())
	}
	if wr.syncing.due(&wr.s.o) {
		wr.startSync()
	}
	wr.keepMinFree()
	return wr.deleteOrphan()
}

// pause returns the time until the next maintenance.
func (wr *writer) pause(busy bool) time.Duration {
	switch {
	case wr.s.health.suspended.Load():
		return max(wr.s.o.testing.probe-time.Since(wr.probing.last), time.Millisecond)
	case busy:
		return 0
	}
	pause := time.Hour
	if wr.minFree > 0 {
		pause = wr.space.pause - time.Since(wr.space.last)
	}
	if wr.syncing.unsynced > 0 && !wr.syncing.running {
		pause = min(pause, wr.s.o.SyncEvery-time.Since(wr.syncing.last))
	}
	return max(pause, time.Millisecond)
}

// finish makes everything durable and records a clean close.
func (wr *writer) finish() {
	wr.settleSync()
	if wr.s.health.suspended.Load() {
		wr.abandonLog()
		return
	}
	if wr.log != nil {
		wr.write(&wal.Record{Kind: wal.CloseRecord})
	}
	wr.startSync()
	wr.settleSync()
	if wr.log != nil {
		wr.failed("closing the index", wr.log.Close())
	}
}
