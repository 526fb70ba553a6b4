package disk

import (
	"github.com/xetfs/xetfs/cache/disk/internal/index"
	"github.com/xetfs/xetfs/cache/disk/internal/wal"
	"github.com/xetfs/xetfs/codec"
)

// makeRoom evicts until n more bytes fit. The error is ErrFull if they can never fit. It is
// ErrSuspended if the disk is suspended: eviction without deletion frees nothing.
func (wr *writer) makeRoom(n int64, chunks int) error {
	for first := true; ; first = false {
		if wr.fits(n, chunks) {
			return nil
		}
		if wr.s.health.suspended.Load() {
			return ErrSuspended
		}
		if first && wr.neverFits(n) {
			return ErrFull
		}
		if len(wr.orphans) > 0 {
			wr.deleteOrphan()
			continue
		}
		if !wr.evict() {
			return ErrFull
		}
	}
}

// evict frees room as the policy decides. It returns false if nothing can be deleted.
func (wr *writer) evict() bool { return wr.policy.Evict(wr, wr.s.o.testing.segment) }

// shrink evicts until all files together take at most n bytes. It stops while nothing can be
// deleted.
func (wr *writer) shrink(n int64) {
	for wr.s.stats.used.Load() > n && !wr.s.health.suspended.Load() {
		if len(wr.orphans) > 0 {
			wr.deleteOrphan()
		} else if !wr.evict() {
			return
		}
	}
}

// Requeued implements index.Evictor: the journal records the new place of an item.
func (wr *writer) Requeued(m index.QueueItem) {
	if m.File != nil {
		wr.write(wal.NewFileRecord(m.File))
		return
	}
	wr.sealSegment(m.Segment)
	wr.write(&wal.Record{Kind: wal.SegmentRecord, Number: uint64(m.Segment.Number), Queue: m.Segment.Queue})
}

// MoveChunks implements index.Evictor.
func (wr *writer) MoveChunks(s *index.Segment, survivors []index.Survivor, n int64) {
	wr.sealSegment(s)
	if n > 0 && wr.mayCopy(n) {
		wr.s.stats.copied.Add(wr.move(s, survivors))
	}
}

// DeleteSegment implements index.Evictor.
func (wr *writer) DeleteSegment(s *index.Segment) {
	wr.s.stats.evicted.Add(s.Size.Load())
	wr.remove(s)
}

// DeleteFile implements index.Evictor.
func (wr *writer) DeleteFile(w *index.WholeFile) {
	wr.s.stats.evicted.Add(w.Size)
	wr.removeFile(wr.d, w)
}

// removeEmpty deletes the segments without a chunk that can be found.
func (wr *writer) removeEmpty() {
	for _, s := range wr.d.index.EmptySegments() {
		wr.remove(s)
	}
}

// remove deletes a segment. The journal records the eviction before the file is deleted.
func (wr *writer) remove(s *index.Segment) {
	wr.d.index.Remove(s)
	wr.sealSegment(s)
	wr.write(&wal.Record{Kind: wal.EvictRecord, Number: uint64(s.Number)})
	wr.flush()
	wr.d.opened.drop(s)
	n := index.OnDisk(s.Size.Load())
	wr.policy.Held[s.Queue] -= n
	wr.delete(orphan{name: s.Name(), size: n, sort: &wr.s.stats.segmentBytes})
}

// removeFile deletes a file that the index has forgotten.
func (wr *writer) removeFile(d *folder, w *index.WholeFile) {
	if d != wr.d || !wr.policy.RemoveFile(w) {
		return
	}
	wr.policy.Held[index.Protected] -= index.OnDisk(w.Size)
	if d.index.File(w.Hash) != nil { // a new file has replaced this one
		w.Unlinked = true
		wr.uncount(w)
		return
	}
	wr.write(&wal.Record{Kind: wal.ForgetRecord, Key: index.Key{Hash: w.Hash}})
	wr.flush()
	wr.delete(orphan{name: w.Name(), file: w})
}

// move copies chunks of a segment behind the others of their queue, and returns their bytes.
// Chunks that are unreadable or corrupt are left behind.
//
// Order: sync the copies, then update and sync the index, then delete the old segment. A
// power loss at any point keeps every chunk that was durable.
func (wr *writer) move(s *index.Segment, survivors []index.Survivor) (bytes int64) {
	wr.settleSync()
	var moved []segmentWrite
	for _, p := range survivors {
		b := make([]byte, p.Size)
		if err := wr.d.readSpan(p.Span, b); err != nil {
			wr.failed("reading "+s.Name(), err)
			continue
		}
		n := p.Check(p.Key, b)
		if n == 0 {
			continue
		}
		again := putOp{key: p.Key, first: p.Chunks.Start, infos: p.Infos(n)}
		again.data = b[:index.TotalSize(again.infos)]
		all, err := wr.append(p.Queue, again)
		moved = append(moved, all...)
		if err != nil {
			wr.failed("moving chunks", err)
			break
		}
	}
	if len(moved) == 0 {
		return 0
	}
	if err := wr.syncMoved(moved); err != nil {
		wr.failed("syncing what was moved", err)
		for _, p := range moved { // as after any failed sync
			wr.sealSegment(p.segment)
		}
		return 0
	}
	for _, p := range moved {
		wr.enter(p)
		bytes += int64(len(p.data))
	}
	wr.syncLog()
	return bytes
}

// syncMoved makes moved chunks durable.
func (wr *writer) syncMoved(moved []segmentWrite) error {
	var last *index.Segment
	for _, p := range moved {
		if p.segment == last {
			continue
		}
		last = p.segment
		f, err := wr.d.opened.get(wr.d.Dir, last)
		if err == nil {
			err = f.Sync()
		}
		if err != nil {
			return err
		}
	}
	if !wr.syncing.dirs {
		return nil
	}
	return wr.d.SyncDir("seg")
}

// MarkRedundant marks chunks that are stored in a whole file, too. They are evicted first, and
// no trace of them is kept. A chunk that is read later loses the mark. The marks are not
// durable: after the next Open the chunks count as new and unread.
func (s *Store) MarkRedundant(terms []codec.Term) {
	wr := s.writer.Load()
	if wr == nil {
		return
	}
	wr.later(func() { // behind earlier puts
		for _, t := range terms {
			wr.d.index.MarkRedundant(index.XorbKey(t.Xorb), t.Chunks)
		}
	})
}
