package disk

import "github.com/xetfs/xetfs/cache/disk/internal/wal"

// write appends a record to the journal, if there is one.
func (wr *writer) write(r *wal.Record) {
	if wr.log != nil {
		wr.failed("writing the index", wr.log.Append(r))
	}
}

// flush passes the appended records to the kernel. After an error the end of the journal is
// unknown, so the journal is abandoned.
func (wr *writer) flush() {
	if wr.log == nil {
		return
	}
	if err := wr.log.Flush(); err != nil {
		wr.failed("writing the index", err)
		wr.abandonLog()
	}
}

// abandonLog closes a journal that failed. The next one begins with a snapshot.
func (wr *writer) abandonLog() {
	if wr.log == nil {
		return
	}
	_ = wr.log.Close() // it failed already
	wr.log = nil
}

// syncLog makes the journal durable.
func (wr *writer) syncLog() {
	wr.flush()
	if wr.log == nil {
		return
	}
	if err := wr.log.Sync(); err != nil {
		wr.failed("syncing the index", err)
		wr.abandonLog()
	}
}

// countJournal counts bytes of the journal.
func (wr *writer) countJournal(n int64) { wr.s.stats.use(n, &wr.s.stats.journalBytes) }
