package disk

import "github.com/xetfs/xetfs/codec"

// A survivor is a part of some object that stays when its segment goes, and the queue where it
// goes on.
type survivor struct {
	span
	key   key
	queue queue
}

// hot says that the chunks stay that were used.
func hot(c *chunk) (q queue, stays bool) { return protected, c.uses() > 0 }

// survivors returns the chunks of a segment that stay, and their bytes.
func (wr *writer) survivors(s *segment, stays func(*chunk) (queue, bool)) (stay []survivor, bytes int64) {
	x := wr.d.index
	x.mu.RLock()
	defer x.mu.RUnlock()
	x.alive(s, func(id uint32, e extent) {
		var run *survivor
		for i := range int(e.n) {
			at, c := e.at+uint32(i), uint32(e.first)+uint32(i)
			q, stays := stays(&s.chunks[at])
			if !stays || s.bytes(at, 1) > wr.s.o.testing.segment { // segments were larger once
				run = nil
				continue
			}
			if run == nil || run.queue != q {
				p := span{segment: s, at: at, off: s.offset(at), chunks: codec.ChunkRange{Start: c}}
				stay = append(stay, survivor{p, x.objects[id].key, q})
				run = &stay[len(stay)-1]
			}
			run.chunks.End = c + 1
			run.size += s.bytes(at, 1)
			bytes += s.bytes(at, 1)
		}
	})
	for i := range stay {
		p := &stay[i]
		p.table = s.chunks[p.at : int(p.at)+p.chunks.Len()]
	}
	return stay, bytes
}

// mayCopy says whether chunks can be copied before what they are copied from goes.
func (wr *writer) mayCopy(n int64) bool {
	if wr.minFree <= 0 {
		return true
	}
	free, _, err := wr.d.Space()
	return err == nil && free-n > wr.minFree/2
}

// move copies chunks of a segment behind the others of their queue, and returns how many
// bytes. What cannot be read, or is not what it was, is left behind.
//
// The index learns where they are now when they last there, and the segment may go when
// the index lasts: so at no moment does a power loss take what had lasted before.
func (wr *writer) move(s *segment, stay []survivor) (bytes int64) {
	wr.settleSync()
	var moved []segmentWrite
	for _, p := range stay {
		b := make([]byte, p.size)
		if err := wr.d.readSpan(p.span, b); err != nil {
			wr.failed("reading "+s.name(), err)
			continue
		}
		n := p.check(p.key, b)
		if n == 0 {
			continue
		}
		again := putOp{key: p.key, first: p.chunks.Start, pieces: s.appendPieces(nil, p.at, n)}
		again.data = b[:total(again.pieces)]
		for i := range again.pieces {
			again.pieces[i].uses -= min(again.pieces[i].uses, 1)
		}
		all, err := wr.append(p.queue, again)
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
		return 0
	}
	for _, p := range moved {
		wr.enter(p)
		bytes += int64(len(p.data))
	}
	wr.syncLog()
	return bytes
}

// syncMoved makes chunks last where they were moved to.
func (wr *writer) syncMoved(moved []segmentWrite) error {
	var last *segment
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

// syncLog makes the journal last.
func (wr *writer) syncLog() {
	wr.flush()
	if wr.log == nil {
		return
	}
	if err := wr.log.f.Sync(); err != nil {
		wr.failed("syncing the index", err)
		wr.abandonLog()
	}
}
