package disk

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/xetfs/xetfs/cache/disk/internal/vfs"
	"github.com/xetfs/xetfs/codec/journal"
)

// A log is the journal that is being written. Records gather in memory and go to the
// kernel with one write.
type log struct {
	f      vfs.File
	w      *journal.Writer
	number uint64
	size   int64  // of the file
	base   int64  // of the snapshot that it begins with
	refs   uint32 // objects that have a name in it
	buf    []byte // appended, and not written yet
	record []byte
}

func newLog(f vfs.File, number uint64, size int64) *log {
	l := &log{f: f, number: number, size: size}
	l.w = journal.NewWriter(l, size)
	return l
}

// Write takes what the journal.Writer has to say.
func (l *log) Write(p []byte) (int, error) {
	l.buf = append(l.buf, p...)
	return len(p), nil
}

func (l *log) append(r *record) error {
	l.record = r.append(l.record[:0])
	_, _, err := l.w.Append(l.record)
	return err
}

// flush gives to the kernel what was appended.
func (l *log) flush() (n int64, err error) {
	if len(l.buf) == 0 {
		return 0, nil
	}
	m, err := l.f.WriteAt(l.buf, l.size)
	before := onDisk(l.size)
	l.size += int64(m)
	l.buf = l.buf[:0]
	return onDisk(l.size) - before, err
}

// grown says that the changes are longer than the snapshot, and than least bytes.
func (l *log) grown(least int64) bool { return l.size-l.base > max(l.base, least) }

func logName(number uint64) string { return fmt.Sprintf("index-%06d.log", number) }

// write appends a record to the journal, if there is one.
func (wr *writer) write(r *record) {
	if wr.log != nil {
		wr.failed("writing the index", wr.log.append(r))
	}
}

// flush gives to the kernel what was appended. After an error nobody knows where the
// journal ends, so it is given up.
func (wr *writer) flush() {
	if wr.log == nil {
		return
	}
	n, err := wr.log.flush()
	wr.s.stats.use(n, &wr.s.stats.journalBytes)
	if err != nil {
		wr.failed("writing the index", err)
		wr.abandonLog()
	}
}

// abandonLog gives up a journal that failed. The next one begins with a snapshot.
func (wr *writer) abandonLog() {
	if wr.log == nil {
		return
	}
	_ = wr.log.f.Close() // it failed already
	wr.log = nil
}

// reference returns the number by which the journal knows an object, and whether that is
// news to it. The caller holds index.mu.
func (wr *writer) reference(id uint32) (ref uint32, isNew bool) {
	o := &wr.d.index.objects[id]
	if wr.log == nil {
		return 0, false
	}
	if o.ref == 0 {
		wr.log.refs++
		o.ref, isNew = wr.log.refs, true
	}
	return o.ref - 1, isNew
}

const tmpLog = "index.tmp"

// rotate writes the whole index into a new journal and puts it in the place of the old
// one. Killed at any moment, one of the two is there and whole.
func (wr *writer) rotate() error {
	wr.settleSync()
	wr.flush()
	if err := wr.makeRoom(wr.snapshotSize(), 0); err != nil {
		return err
	}
	wr.flush() // what making room appended belongs to the old one
	if err := wr.d.Remove(tmpLog); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := wr.d.Create(tmpLog)
	if err != nil {
		return err
	}
	l := newLog(f, wr.number+1, 0)
	old := wr.log
	wr.log = l
	err = wr.snapshot(l)
	if err == nil {
		err = wr.publish(l)
	}
	if err != nil {
		wr.s.stats.use(-onDisk(l.size), &wr.s.stats.journalBytes)
		if old != nil {
			_ = old.f.Close() // its references are those of l by now
		}
		wr.log = nil
		return errors.Join(err, f.Close(), wr.d.Remove(tmpLog))
	}
	wr.number = l.number
	wr.deleteStuck()
	return wr.removeLogs(old)
}

// publish gives the new journal its name.
func (wr *writer) publish(l *log) error {
	if err := l.f.Sync(); err != nil {
		return err
	}
	if err := wr.d.Rename(tmpLog, logName(l.number)); err != nil {
		return err
	}
	return wr.d.SyncDir("")
}

// removeLogs deletes the journals before the present one.
func (wr *writer) removeLogs(old *log) error {
	if old != nil {
		if err := old.f.Close(); err != nil {
			return err
		}
	}
	entries, err := wr.d.List("")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if n, ok := logNumber(e.Name); !ok || n >= wr.number || wr.foreign[e.Name] || wr.isLeaving(e.Name) {
			continue
		}
		if e.Name != wr.damaged {
			wr.delete(orphan{name: e.Name, size: onDisk(e.Size), sort: &wr.s.stats.journalBytes})
			continue
		}
		if err := wr.d.Rename(e.Name, damagedLog); err != nil {
			return err
		}
		wr.s.stats.use(-onDisk(sizeIn(entries, damagedLog)), &wr.s.stats.journalBytes)
	}
	return nil
}

const damagedLog = "index.damaged"

func sizeIn(entries []vfs.FileInfo, name string) int64 {
	for _, e := range entries {
		if e.Name == name {
			return e.Size
		}
	}
	return 0
}

// snapshotSize returns no less than the bytes that the index takes in a journal.
func (wr *writer) snapshotSize() int64 {
	x := wr.d.index
	x.mu.RLock()
	defer x.mu.RUnlock()
	n := 100 + int64(len(x.objects))*42 + int64(len(x.files))*80
	for _, s := range x.segments {
		n += 20 + int64(len(s.owners))*16 + int64(len(s.chunks))*9
	}
	return n + n/1000
}

// snapshot writes everything that is in the index, oldest first.
func (wr *writer) snapshot(l *log) error {
	err := wr.say(l, &record{kind: headerRecord, version: formatVersion, id: wr.id, number: l.number, time: uint64(now().Unix())})
	if err == nil {
		err = wr.sayNames(l)
	}
	wr.queues.each(func(q queue, m queueItem) {
		if err != nil {
			return
		}
		if m.file != nil {
			err = wr.say(l, m.file.record())
		} else {
			err = wr.saySegment(l, q, m.segment)
		}
	})
	if err == nil {
		err = wr.sayLast(l)
	}
	if err == nil {
		err = wr.say(l, &record{kind: endRecord})
	}
	if err == nil {
		err = wr.spill(l, 0)
	}
	l.base = l.size
	return err
}

// say appends a record, and writes when enough has come together.
func (wr *writer) say(l *log, r *record) error {
	if err := l.append(r); err != nil {
		return err
	}
	return wr.spill(l, 1<<20)
}

func (wr *writer) spill(l *log, most int) error {
	if len(l.buf) <= most {
		return nil
	}
	n, err := l.flush()
	wr.s.stats.use(n, &wr.s.stats.journalBytes)
	return err
}

// sayNames gives every object a reference.
func (wr *writer) sayNames(l *log) error {
	x := wr.d.index
	var keys []key
	x.mu.Lock()
	for id := range x.objects {
		o := &x.objects[id]
		o.ref = 0
		if len(o.leaves) > 0 {
			l.refs++
			o.ref = l.refs
			keys = append(keys, o.key)
		}
	}
	x.mu.Unlock()
	for _, key := range keys {
		if err := wr.say(l, &record{kind: nameRecord, key: key}); err != nil {
			return err
		}
	}
	return nil
}

// sayLast writes down the highest number of a segment, if that one has gone: the next is a
// new one for those, too, who have the folder open since it was there.
func (wr *writer) sayLast(l *log) error {
	if wr.last == 0 || wr.d.index.segments[wr.last] != nil {
		return nil
	}
	err := wr.say(l, &record{kind: segmentRecord, number: uint64(wr.last)})
	if err == nil {
		err = wr.say(l, &record{kind: evictRecord, number: uint64(wr.last)})
	}
	return err
}

// recordPieces is about how many chunks go into one record of a snapshot.
const recordPieces = 2048

// saySegment writes what can be found in a segment, in the order of its bytes.
func (wr *writer) saySegment(l *log, q queue, s *segment) error {
	if err := wr.say(l, &record{kind: segmentRecord, number: uint64(s.number), queue: q}); err != nil {
		return err
	}
	var records []*record
	x := wr.d.index
	x.mu.RLock()
	end := int64(-1)
	x.alive(s, func(id uint32, e extent) {
		off, n := s.offset(e.at), len(records)
		if off != end || len(records[n-1].pieces) >= recordPieces {
			records = append(records, &record{kind: addRecord, number: uint64(s.number), off: uint64(off)})
			n++
		}
		r := records[n-1]
		r.rows = append(r.rows, chunkRow{ref: x.objects[id].ref - 1, first: uint32(e.first), n: int(e.n)})
		r.pieces = s.appendPieces(r.pieces, e.at, int(e.n))
		end = off + s.bytes(e.at, int(e.n))
	})
	x.mu.RUnlock()
	for _, r := range records {
		if err := wr.say(l, r); err != nil {
			return err
		}
	}
	return nil
}

// appendPieces adds rows of the table of s.
func (s *segment) appendPieces(pieces []chunkInfo, at uint32, n int) []chunkInfo {
	off := s.offset(at)
	for i := range n {
		c := &s.chunks[int(at)+i]
		pieces = append(pieces, chunkInfo{size: int(c.end() - off), uses: uint8(c.uses()), crc: c.crc})
		off = c.end()
	}
	return pieces
}
