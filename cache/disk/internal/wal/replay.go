package wal

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/disk/internal/index"
	"github.com/xetfs/xetfs/cache/disk/internal/vfs"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/journal"
)

// A Recovered is the state that a journal describes.
type Recovered struct {
	Index  *index.Index
	Queues index.EvictionQueues
	Number uint64 // of the journal
	Last   uint32 // highest number of a segment
	Bad    error  // an impossible record or a bad block; the records before it count

	refs     uint32 // objects with a name in the journal
	size     int64  // of the file
	base     int64  // of the snapshot
	complete bool   // the snapshot is complete
	tail     journal.Tail
}

// IsAppendable reports whether records may be appended behind the last one.
func (r *Recovered) IsAppendable() bool {
	return r.complete && r.Bad == nil && r.tail == journal.Clean
}

// IsDamaged reports whether records were lost in a way that no crash explains. A journal got its
// name after a sync of the snapshot.
func (r *Recovered) IsDamaged() bool {
	return r.Bad != nil || r.tail == journal.Damaged || !r.complete
}

// ErrNewer means that a newer program wrote the folder. The folder was left as it is.
var ErrNewer = errors.New("disk cache was written by a newer version")

// errOther means that a journal belongs to another cache.
var errOther = errors.New("journal of another cache")

// Recover reads the newest journal with a complete snapshot. Without one, it reads the newest
// journal up to the damage; the result is nil without a journal. foreign are the journals of
// other caches.
func Recover(d vfs.Dir, names []vfs.FileInfo, id [16]byte) (found *Recovered, foreign map[string]bool, err error) {
	foreign = make(map[string]bool)
	for _, n := range newestFirst(names) {
		r, err := read(d, id, n)
		switch {
		case errors.Is(err, errOther):
			foreign[Name(n)] = true
		case errors.Is(err, vfs.ErrForeign):
		case err != nil:
			return nil, nil, fmt.Errorf("%s: %w", Name(n), err)
		case r.complete:
			return r, foreign, nil
		case found == nil:
			found = r
		}
	}
	return found, foreign, nil
}

// ID returns the id in the newest journal with an intact header of this version; ok is false
// without such a journal.
func ID(d vfs.Dir, names []vfs.FileInfo) (id [16]byte, ok bool, err error) {
	for _, n := range newestFirst(names) {
		h, err := readHeader(d, n)
		switch {
		case errors.Is(err, vfs.ErrForeign), errors.Is(err, codec.ErrCorrupt):
		case err != nil:
			return id, false, fmt.Errorf("%s: %w", Name(n), err)
		case h.Version > FormatVersion:
			return id, false, ErrNewer
		case h.Version == FormatVersion:
			return h.ID, true, nil
		}
	}
	return id, false, nil
}

// readHeader returns the first record of a journal.
func readHeader(d vfs.Dir, number uint64) (*Record, error) {
	f, err := d.Open(Name(number), false)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, _, err := journal.NewReader(io.NewSectionReader(f, 0, math.MaxInt64), journal.Options{}).Next()
	if errors.Is(err, io.EOF) || errors.Is(err, unix.EIO) {
		return nil, invalid("no header")
	}
	if err != nil {
		return nil, err
	}
	r := new(Record)
	if err := r.decode(raw); err != nil {
		return nil, err
	}
	if r.Kind != HeaderRecord {
		return nil, invalid("begins with a record of kind %d", r.Kind)
	}
	return r, nil
}

// newestFirst returns the numbers of the journals, except those that cannot be examined.
func newestFirst(names []vfs.FileInfo) (numbers []uint64) {
	for _, e := range names {
		if n, ok := ParseName(e.Name); ok && e.Err == nil {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	slices.Reverse(numbers)
	return numbers
}

func read(d vfs.Dir, id [16]byte, number uint64) (*Recovered, error) {
	f, err := d.Open(Name(number), false)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	e, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return replay(f, e.Size, id, number)
}

// replay reads a journal of size bytes up to the first defect. The error is ErrNewer, errOther,
// or that of reading the file: then the journal is unknown. A bad block is a defect.
func replay(f io.ReaderAt, size int64, id [16]byte, number uint64) (*Recovered, error) {
	r, b := &Recovered{Number: number, size: size}, index.NewBuilder()
	in := journal.NewReader(io.NewSectionReader(f, 0, size), journal.Options{})
	var rec Record
	for n := 0; ; n++ {
		raw, off, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if errors.Is(err, unix.EIO) {
			r.Bad = err
			break
		}
		if err != nil {
			return nil, err
		}
		if len(raw) > 0 && RecordKind(raw[0]) >= recordKinds {
			return nil, ErrNewer
		}
		err = rec.decode(raw)
		if err == nil && n == 0 {
			err = rec.checkHeader(id)
		} else if err == nil {
			err = r.apply(b, &rec, off)
		}
		if errors.Is(err, ErrNewer) || errors.Is(err, errOther) {
			return nil, err
		}
		if err != nil {
			r.Bad = fmt.Errorf("record at byte %d: %w", off, err)
			break
		}
	}
	if r.Bad == nil {
		_, r.tail = in.Tail()
	}
	if r.tail == journal.Unsupported {
		return nil, ErrNewer
	}
	r.Index, r.Queues, r.refs, r.Last = b.Done()
	return r, nil
}

// checkHeader checks the first record of a journal.
func (r *Record) checkHeader(id [16]byte) error {
	switch {
	case r.Kind != HeaderRecord:
		return invalid("begins with a record of kind %d", r.Kind)
	case r.Version > FormatVersion:
		return ErrNewer
	case r.ID != id:
		return errOther
	}
	return nil
}

func invalid(format string, args ...any) error {
	return codec.Corrupt("cache record", 0, format, args...)
}

// apply adds the change of a record to an index.
func (r *Recovered) apply(b *index.Builder, rec *Record, off int64) error {
	switch rec.Kind {
	case HeaderRecord:
		return invalid("a second header")
	case NameRecord:
		b.Name(rec.Key)
	case SegmentRecord:
		b.Segment(uint32(rec.Number), rec.Queue)
	case AddRecord:
		return b.Add(uint32(rec.Number), int64(rec.Off), rec.Rows, rec.Infos)
	case DropRecord:
		b.Drop(rec.Key, rec.Rows[0].First, rec.Rows[0].N)
	case EvictRecord:
		return b.Evict(uint32(rec.Number))
	case FileRecord:
		b.File(rec.Key.Hash, int64(rec.Size), int64(rec.Time), int64(rec.CTime), rec.CRC)
	case ForgetRecord:
		b.ForgetFile(rec.Key.Hash)
	case EndRecord:
		r.complete, r.base = true, off
	}
	return nil
}
