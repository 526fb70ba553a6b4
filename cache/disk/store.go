package disk

import (
	"errors"
	"fmt"

	"github.com/xetfs/xetfs/cache/disk/internal/vfs"
	"github.com/xetfs/xetfs/codec"
)

// store writes the chunks of p that are not stored yet.
func (wr *writer) store(p *putOp) {
	if wr.log == nil {
		return
	}
	x := wr.d.index
	x.mu.RLock()
	missing := x.missing(p.key, p.chunks(), nil)
	x.mu.RUnlock()
	q := wr.queueOf(p, missing)
	for _, r := range missing {
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
}

// queueOf returns where chunks go: those that were here a while ago, and nobody then
// knew that they would be wanted again, have passed probation.
func (wr *writer) queueOf(p *putOp, missing []codec.ChunkRange) queue {
	known, all := 0, 0
	for _, r := range missing {
		all += r.Len()
		for c := r.Start; c < r.End; c++ {
			if wr.ghost.has(p.key, c) {
				known++
			}
		}
	}
	if 2*known > all {
		return protected
	}
	return probation
}

// A segmentWrite is chunks that are written to a segment, and not in the index yet.
type segmentWrite struct {
	putOp
	segment *segment
	off     int64
}

// append writes chunks to the newest segments of a queue and returns where they are,
// also after an error. There must be room.
func (wr *writer) append(q queue, p putOp) (all []segmentWrite, err error) {
	for {
		s, err := wr.head(q, p.pieces[0].size)
		if err != nil {
			return all, err
		}
		n, size := 0, int64(0)
		room := wr.s.o.testing.segment - s.size.Load()
		for n < len(p.pieces) && size+int64(p.pieces[n].size) <= room {
			size += int64(p.pieces[n].size)
			n++
		}
		r := p.chunks()
		r.End = r.Start + uint32(n)
		at := segmentWrite{putOp: p.slice(r), segment: s, off: s.size.Load()}
		if err := wr.appendTo(at); err != nil {
			return all, err
		}
		all = append(all, at)
		if n == len(p.pieces) {
			return all, nil
		}
		r.Start, r.End = r.End, p.chunks().End
		p = p.slice(r)
	}
}

// appendTo writes chunks behind the others of a segment.
func (wr *writer) appendTo(p segmentWrite) error {
	s := p.segment
	f := s.open.Load()
	if f == nil {
		wr.seal(s.queue)
		return errNoSegment
	}
	if _, err := f.WriteAt(p.data, p.off); err != nil {
		wr.giveUp(s, f, p.off)
		return fmt.Errorf("%s: %w", s.name(), err)
	}
	wr.resize(s, p.off+int64(len(p.data)))
	wr.syncing.wrote(s, int64(len(p.data)))
	return nil
}

// enter tells the index and the journal where chunks are.
func (wr *writer) enter(p segmentWrite) {
	x := wr.d.index
	x.mu.Lock()
	at := p.segment.extend(p.off, p.pieces)
	id := x.object(p.key)
	ref, isNew := wr.reference(id)
	x.add(id, p.first, p.segment, at, len(p.pieces))
	x.mu.Unlock()
	if isNew {
		wr.write(&record{kind: nameRecord, key: p.key})
	}
	wr.write(&record{
		kind:   addRecord,
		number: uint64(p.segment.number),
		off:    uint64(p.off),
		rows:   []chunkRow{{ref: ref, first: p.first, n: len(p.pieces)}},
		pieces: p.pieces,
	})
}

var errNoSegment = errors.New("the segment is not open")

// giveUp ends a segment after a write that failed, and cuts off what came of it.
func (wr *writer) giveUp(s *segment, f vfs.File, size int64) {
	if f.Truncate(size) != nil {
		if e, err := f.Stat(); err == nil {
			wr.resize(s, max(size, e.Size))
		}
	}
	wr.seal(s.queue)
}

// resize takes notice of the length of a segment.
func (wr *writer) resize(s *segment, size int64) {
	n := onDisk(size) - onDisk(s.size.Swap(size))
	wr.held[s.queue] += n
	wr.s.stats.use(n, &wr.s.stats.segmentBytes)
}

// head returns the segment to which a queue's next chunk goes.
func (wr *writer) head(q queue, size int) (*segment, error) {
	if s := wr.heads[q]; s != nil {
		if s.size.Load()+int64(size) <= wr.s.o.testing.segment {
			return s, nil
		}
		wr.seal(q)
	}
	return wr.begin(q)
}

// begin makes a new segment. Its number was never used before.
func (wr *writer) begin(q queue) (*segment, error) {
	wr.last++
	s := &segment{number: wr.last, queue: q}
	f, err := wr.d.Create(s.name())
	if err != nil {
		return nil, err
	}
	s.pinned.Store(true)
	if _, err := wr.d.opened.put(s, &segmentFile{f}); err != nil {
		return nil, err
	}
	x := wr.d.index
	x.mu.Lock()
	x.segments[s.number] = s
	x.mu.Unlock()
	wr.heads[q] = s
	wr.queues.push(q, queueItem{segment: s})
	wr.syncing.dirs = true
	wr.write(&record{kind: segmentRecord, number: uint64(s.number), queue: q})
	return s, nil
}

// seal ends the segment to which a queue is written. It stays open for readers.
func (wr *writer) seal(q queue) {
	if s := wr.heads[q]; s != nil {
		s.pinned.Store(false)
		wr.heads[q] = nil
	}
}
