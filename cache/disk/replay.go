package disk

import (
	"errors"
	"fmt"
	"io"

	"github.com/xetfs/xetfs/cache/disk/internal/vfs"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/journal"
)

// A recovered is what a journal says.
type recovered struct {
	index  *index
	queues evictionQueues
	number uint64
	refs   []uint32 // reference → place in index.objects
	last   uint32   // highest number of a segment

	pending []pendingExtent

	size     int64 // of the file
	base     int64 // of the snapshot
	complete bool  // the snapshot is whole
	tail     journal.Tail
	bad      error // a record that cannot be; what is before it counts
}

// isAppendable says that records may be appended behind the last one.
func (r *recovered) isAppendable() bool { return r.complete && r.bad == nil && r.tail == journal.Clean }

// isDamaged says that something was lost that no crash loses.
func (r *recovered) isDamaged() bool { return r.bad != nil || r.tail == journal.Damaged }

// errOther means that a journal belongs to another cache.
var errOther = errors.New("journal of another cache")

// replayLog reads a journal up to the first thing that is wrong. The error is ErrNewer,
// errOther, or that of reading the file: then nothing is known about the journal.
func replayLog(f vfs.File, id [16]byte, number uint64) (*recovered, error) {
	e, err := f.Stat()
	if err != nil {
		return nil, err
	}
	r := &recovered{index: newIndex(), number: number, size: e.Size}
	r.index.replay = true
	in := journal.NewReader(io.NewSectionReader(f, 0, e.Size), journal.Options{})
	var rec record
	for n := 0; ; n++ {
		b, off, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if recordKind(firstByte(b)) >= recordKinds {
			return nil, ErrNewer
		}
		err = rec.decode(b)
		if err == nil && n == 0 {
			err = r.header(&rec, id)
		} else if err == nil {
			err = r.apply(&rec, off)
		}
		if errors.Is(err, ErrNewer) || errors.Is(err, errOther) {
			return nil, err
		}
		if err != nil {
			r.bad = fmt.Errorf("record at byte %d: %w", off, err)
			break
		}
	}
	if r.bad == nil {
		_, r.tail = in.Tail()
	}
	if r.tail == journal.Unsupported {
		return nil, ErrNewer
	}
	r.place()
	r.pending = nil
	r.index.sweep()
	return r, nil
}

func firstByte(b []byte) byte {
	if len(b) == 0 {
		return 0
	}
	return b[0]
}

func (r *recovered) header(rec *record, id [16]byte) error {
	switch {
	case rec.kind != headerRecord:
		return invalid("begins with a record of kind %d", rec.kind)
	case rec.version > formatVersion:
		return ErrNewer
	case rec.id != id:
		return errOther
	}
	return nil
}

func invalid(format string, args ...any) error {
	return codec.Corrupt("cache record", 0, format, args...)
}

// apply does to the index what a record says.
func (r *recovered) apply(rec *record, off int64) error {
	x := r.index
	switch rec.kind {
	case headerRecord:
		return invalid("a second header")
	case nameRecord:
		id := x.object(rec.key)
		r.refs = append(r.refs, id)
		x.objects[id].ref = uint32(len(r.refs))
	case segmentRecord:
		r.segment(rec)
	case addRecord:
		return r.add(rec)
	case dropRecord:
		r.place()
		if id, ok := x.ids[rec.key]; ok {
			x.cut(id, codec.ChunkRange{Start: rec.rows[0].first, End: rec.rows[0].first + uint32(rec.rows[0].n)})
		}
	case evictRecord:
		s := x.segments[uint32(rec.number)]
		if s == nil {
			return invalid("segment %d is evicted, and was never there", rec.number)
		}
		r.place()
		x.remove(s)
		s.gone.Store(true)
	case fileRecord:
		r.wholeFile(rec)
	case forgetRecord:
		if w := x.files[rec.key.hash]; w != nil {
			w.order = 0
			delete(x.files, w.hash)
		}
	case endRecord:
		r.complete, r.base = true, off
	}
	return nil
}

func (r *recovered) segment(rec *record) {
	number := uint32(rec.number)
	s := r.index.segments[number]
	if s == nil {
		s = &segment{number: number}
		r.index.segments[number] = s
		r.last = max(r.last, number)
	}
	r.queues.push(rec.queue, queueItem{segment: s})
}

// wholeFile notes a whole file, or that it has another round.
func (r *recovered) wholeFile(rec *record) {
	w := r.index.files[rec.key.hash]
	if w == nil {
		w = &wholeFile{hash: rec.key.hash}
		r.index.files[w.hash] = w
	}
	w.size, w.mtime, w.crc = int64(rec.size), int64(rec.time), rec.crc
	w.ctime.Store(int64(rec.ctime))
	r.queues.push(protected, queueItem{file: w})
}

func (r *recovered) add(rec *record) error {
	s := r.index.segments[uint32(rec.number)]
	switch {
	case s == nil:
		return invalid("chunks are added to segment %d, which is not there", rec.number)
	case int64(rec.off) < s.end():
		return invalid("chunks are added at byte %d of a segment that has %d", rec.off, s.end())
	}
	at := s.extend(int64(rec.off), rec.pieces)
	for _, w := range rec.rows {
		if int(w.ref) >= len(r.refs) {
			return invalid("reference %d of %d", w.ref, len(r.refs))
		}
		id, e := r.refs[w.ref], extent{segment: s.number, at: at, first: uint16(w.first), n: uint16(w.n)}
		r.index.own(id, s, e)
		r.pending = append(r.pending, pendingExtent{id, e})
		at += uint32(w.n)
	}
	if len(r.pending) >= maxPending {
		r.place()
	}
	return nil
}
