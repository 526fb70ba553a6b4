package disk

import (
	"errors"
	"fmt"

	"github.com/xetfs/xetfs/cache/disk/internal/index"
	"github.com/xetfs/xetfs/cache/disk/internal/vfs"
	"github.com/xetfs/xetfs/cache/disk/internal/wal"
)

// store writes the chunks of p that are not stored, or with other bytes. The former copy of a chunk can be
// found until the new one is written.
func (wr *writer) store(p *putOp) {
	wr.replaceFailedLog()
	if wr.log == nil {
		return
	}
	parts := wr.d.index.Differing(p.key, p.first, p.infos)
	q := wr.policy.QueueFor(p.key, parts)
	for _, r := range parts {
		part := p.slice(r)
		err := wr.makeRoom(int64(len(part.data)), r.Len())
		var all []segmentWrite
		if err == nil {
			all, err = wr.append(q, part)
		}
		for _, p := range all {
			wr.enter(p)
			wr.s.stats.written.Add(int64(len(p.data)))
		}
		if err != nil {
			wr.failed("writing", err)
			return
		}
	}
	wr.removeEmpty() // segments whose chunks were all replaced
}

// A segmentWrite is chunks that are written to a segment, and not in the index yet.
type segmentWrite struct {
	putOp
	segment *index.Segment
	off     int64
}

// append writes chunks to the newest segments of a queue and returns their places,
// also after an error. There must be room.
func (wr *writer) append(q index.Queue, p putOp) (all []segmentWrite, err error) {
	for {
		s, err := wr.head(q, p.infos[0].Size)
		if err != nil {
			return all, err
		}
		n, size := 0, int64(0)
		room := wr.s.o.testing.segment - s.Size.Load()
		for n < len(p.infos) && size+int64(p.infos[n].Size) <= room {
			size += int64(p.infos[n].Size)
			n++
		}
		r := p.chunks()
		r.End = r.Start + uint32(n)
		at := segmentWrite{putOp: p.slice(r), segment: s, off: s.Size.Load()}
		if err := wr.appendTo(at); err != nil {
			return all, err
		}
		all = append(all, at)
		if n == len(p.infos) {
			return all, nil
		}
		r.Start, r.End = r.End, p.chunks().End
		p = p.slice(r)
	}
}

// appendTo writes chunks behind the others of a segment.
func (wr *writer) appendTo(p segmentWrite) error {
	s := p.segment
	f := openOf(s)
	if f == nil {
		wr.seal(s.Queue)
		return errNoSegment
	}
	if _, err := f.WriteAt(p.data, p.off); err != nil {
		wr.giveUp(s, f, p.off)
		return fmt.Errorf("%s: %w", s.Name(), err)
	}
	wr.resize(s, p.off+int64(len(p.data)))
	wr.syncing.wrote(s, int64(len(p.data)))
	return nil
}

// enter records the place of chunks in the index and the journal.
func (wr *writer) enter(p segmentWrite) {
	var refs *uint32
	if wr.log != nil {
		refs = &wr.log.Refs
	}
	ref, isNew := wr.d.index.Enter(p.key, p.first, p.segment, p.off, p.infos, refs)
	if isNew {
		wr.write(&wal.Record{Kind: wal.NameRecord, Key: p.key})
	}
	wr.write(&wal.Record{
		Kind:   wal.AddRecord,
		Number: uint64(p.segment.Number),
		Off:    uint64(p.off),
		Rows:   []index.Row{{Ref: ref, First: p.first, N: len(p.infos)}},
		Infos:  p.infos,
	})
}

var errNoSegment = errors.New("the segment is not open")

// giveUp ends a segment after a failed write, and truncates it.
func (wr *writer) giveUp(s *index.Segment, f vfs.File, size int64) {
	if f.Truncate(size) != nil {
		if e, err := f.Stat(); err == nil {
			wr.resize(s, max(size, e.Size))
		}
	}
	wr.seal(s.Queue)
}

// resize records the length of a segment.
func (wr *writer) resize(s *index.Segment, size int64) {
	n := index.OnDisk(size) - index.OnDisk(s.Size.Swap(size))
	wr.policy.Held[s.Queue] += n
	wr.s.stats.use(n, &wr.s.stats.segmentBytes)
}

// head returns the segment for the next chunk of a queue.
func (wr *writer) head(q index.Queue, size int) (*index.Segment, error) {
	if s := wr.heads[q]; s != nil {
		if s.Size.Load()+int64(size) <= wr.s.o.testing.segment {
			return s, nil
		}
		wr.seal(q)
	}
	return wr.begin(q)
}

// begin makes a new segment with a number that was never used before.
func (wr *writer) begin(q index.Queue) (*index.Segment, error) {
	wr.last++
	s := &index.Segment{Number: wr.last, Queue: q}
	f, err := wr.d.Create(s.Name())
	if err != nil {
		return nil, err
	}
	s.Pinned.Store(true)
	if _, err := wr.d.opened.put(s, &segmentFile{f}); err != nil {
		return nil, err
	}
	wr.d.index.AddSegment(s)
	wr.heads[q] = s
	wr.policy.Push(q, index.QueueItem{Segment: s})
	wr.syncing.dirs = true
	wr.write(&wal.Record{Kind: wal.SegmentRecord, Number: uint64(s.Number), Queue: q})
	return s, nil
}
