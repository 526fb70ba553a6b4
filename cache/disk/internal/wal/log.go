package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/xetfs/xetfs/cache/disk/internal/index"
	"github.com/xetfs/xetfs/cache/disk/internal/vfs"
	"github.com/xetfs/xetfs/codec/journal"
)

// TmpName is the name of a journal before Publish, DamagedName that of a copy of the last
// damaged journal.
const (
	TmpName     = "index.tmp"
	DamagedName = "index.damaged"
)

// Name returns the name of a journal.
func Name(number uint64) string { return fmt.Sprintf("index-%06d.log", number) }

// ParseName is the inverse of Name.
func ParseName(name string) (number uint64, ok bool) {
	digits, ok := strings.CutPrefix(name, "index-")
	if !ok {
		return 0, false
	}
	digits, ok = strings.CutSuffix(digits, ".log")
	n, err := strconv.ParseUint(digits, 10, 63)
	return n, ok && err == nil && Name(n) == name
}

// A Log is the journal that is being written. Records gather in memory and go to the kernel
// with one write. It is for one goroutine; Sync alone may run beside the others.
type Log struct {
	Number uint64
	Refs   uint32 // objects with a name in it

	f    vfs.File
	w    *journal.Writer
	grew func(n int64) // receives the growth of the file on disk
	size int64         // of the file
	base int64         // of the snapshot at its start
	buf  []byte        // appended, and not written yet
	rec  []byte
}

func newLog(f vfs.File, number uint64, size int64, grew func(n int64)) *Log {
	l := &Log{Number: number, f: f, size: size, grew: grew}
	l.w = journal.NewWriter(writerFunc(func(p []byte) { l.buf = append(l.buf, p...) }), size)
	return l
}

// A writerFunc is an io.Writer that cannot fail.
type writerFunc func(p []byte)

func (f writerFunc) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}

// Open continues a journal. grew receives each growth of the file on disk.
func Open(d vfs.Dir, r *Recovered, grew func(n int64)) (*Log, error) {
	f, err := d.Open(Name(r.Number), true)
	if err != nil {
		return nil, err
	}
	l := newLog(f, r.Number, r.size, grew)
	l.base, l.Refs = r.base, r.refs
	return l, nil
}

// Create begins an empty journal under the name TmpName.
func Create(d vfs.Dir, number uint64, grew func(n int64)) (*Log, error) {
	if err := d.Remove(TmpName); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f, err := d.Create(TmpName)
	if err != nil {
		return nil, err
	}
	return newLog(f, number, 0, grew), nil
}

// Publish syncs a new journal and gives it its name.
func (l *Log) Publish(d vfs.Dir) error {
	if err := l.Sync(); err != nil {
		return err
	}
	if err := d.Rename(TmpName, Name(l.Number)); err != nil {
		return err
	}
	return d.SyncDir("")
}

// Append adds a record. It does no I/O.
func (l *Log) Append(r *Record) error {
	l.rec = r.append(l.rec[:0])
	_, _, err := l.w.Append(l.rec)
	return err
}

// Flush passes the appended records to the kernel. After an error the end of the journal is
// unknown.
func (l *Log) Flush() error {
	if len(l.buf) == 0 {
		return nil
	}
	n, err := l.f.WriteAt(l.buf, l.size)
	before := index.OnDisk(l.size)
	l.size += int64(n)
	l.buf = l.buf[:0]
	l.grew(index.OnDisk(l.size) - before)
	return err
}

// IsGrown reports whether the changes are longer than the snapshot and than least bytes.
func (l *Log) IsGrown(least int64) bool { return l.size-l.base > max(l.base, least) }

// Size returns the bytes of the file.
func (l *Log) Size() int64 { return l.size }

// Sync makes the written records durable.
func (l *Log) Sync() error { return l.f.Sync() }

// Close closes the file. Records that were not flushed are lost.
func (l *Log) Close() error { return l.f.Close() }

// SnapshotSize returns an upper bound of the bytes of a snapshot.
func SnapshotSize(x *index.Index) int64 {
	objects, files, segments, owners, chunks := x.Totals()
	n := 100 + int64(objects)*42 + int64(files)*80 + int64(segments)*20 + int64(owners)*16 + int64(chunks)*9
	return n + n/1000
}

// Snapshot writes the whole index, oldest segments and files first. last is the highest number
// that a segment ever had.
func (l *Log) Snapshot(x *index.Index, queues *index.EvictionQueues, id [16]byte, last uint32, now time.Time) error {
	err := l.add(&Record{Kind: HeaderRecord, Version: FormatVersion, ID: id, Number: l.Number, Time: uint64(now.Unix())})
	if err == nil {
		err = l.addNames(x)
	}
	queues.Each(func(q index.Queue, m index.QueueItem) {
		switch {
		case err != nil:
		case m.File != nil:
			err = l.add(NewFileRecord(m.File))
		default:
			err = l.addSegment(x, q, m.Segment)
		}
	})
	if err == nil {
		err = l.addLast(x, last)
	}
	if err == nil {
		err = l.add(&Record{Kind: EndRecord})
	}
	if err == nil {
		err = l.Flush()
	}
	l.base = l.size
	return err
}

// add appends a record, and flushes after about 1 MiB.
func (l *Log) add(r *Record) error {
	if err := l.Append(r); err != nil || len(l.buf) <= 1<<20 {
		return err
	}
	return l.Flush()
}

// addNames gives every object a reference.
func (l *Log) addNames(x *index.Index) error {
	keys := x.Renumber()
	l.Refs = uint32(len(keys))
	for _, k := range keys {
		if err := l.add(&Record{Kind: NameRecord, Key: k}); err != nil {
			return err
		}
	}
	return nil
}

// addLast records the highest number of a segment if that segment is gone. The next number is
// then new, also for processes that opened the folder earlier.
func (l *Log) addLast(x *index.Index, last uint32) error {
	if last == 0 || x.Segment(last) != nil {
		return nil
	}
	err := l.add(&Record{Kind: SegmentRecord, Number: uint64(last)})
	if err == nil {
		err = l.add(&Record{Kind: EvictRecord, Number: uint64(last)})
	}
	return err
}

// recordInfos is about the number of chunks in one record of a snapshot.
const recordInfos = 2048

// addSegment writes the chunks of a segment that can be found, in the order of their bytes.
func (l *Log) addSegment(x *index.Index, q index.Queue, s *index.Segment) error {
	if err := l.add(&Record{Kind: SegmentRecord, Number: uint64(s.Number), Queue: q}); err != nil {
		return err
	}
	var records []*Record
	end := int64(-1)
	x.Rows(s, func(off, size int64, at uint32, row index.Row) {
		n := len(records)
		if off != end || len(records[n-1].Infos) >= recordInfos {
			records = append(records, &Record{Kind: AddRecord, Number: uint64(s.Number), Off: uint64(off)})
			n++
		}
		r := records[n-1]
		r.Rows = append(r.Rows, row)
		r.Infos = s.AppendInfos(r.Infos, at, row.N)
		end = off + size
	})
	for _, r := range records {
		if err := l.add(r); err != nil {
			return err
		}
	}
	return nil
}
