package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync/atomic"
)

// What the two queues share, and when a segment is kept as it is. The figures were
// found by replaying traces (TestHitRatio).
const (
	probationShare = 10  // probation holds one part in so many
	keepShare      = 0.7 // a segment of which so much is in use gets another round as a whole
)

// slack is room that is never filled, so that chunks can be copied out of a segment
// before it goes, and the journal can say so.
func (wr *writer) slack() int64 { return wr.s.o.testing.segment + 32<<10 }

// maxChunks bounds the memory of the index, where chunks are much smaller than usual.
func (wr *writer) maxChunks() int { return int(max(wr.s.o.MaxBytes/(16<<10), 1<<16)) }

// fits says whether there is room for n more bytes and some more chunks.
func (wr *writer) fits(n int64, chunks int) (bool, error) {
	x := wr.d.index
	x.mu.RLock()
	chunks += x.chunks
	x.mu.RUnlock()
	if wr.s.stats.used.Load()+onDisk(n)+wr.slack() > wr.s.o.MaxBytes || chunks > wr.maxChunks() {
		return false, nil
	}
	if wr.minFree <= 0 {
		return true, nil
	}
	free, _, err := wr.d.Space()
	return free-onDisk(n)-wr.s.stats.reserved.Load() >= wr.minFree, err
}

// neverFits says that there is no room for n more bytes, even if all went that can go. Where
// nothing is asked for, and others took the room, all goes that can.
func (wr *writer) neverFits(n int64) (bool, error) {
	fixed := wr.fixed()
	if fixed+onDisk(n)+wr.slack() > wr.s.o.MaxBytes {
		return true, nil
	}
	if wr.minFree <= 0 || n == 0 {
		return false, nil
	}
	free, _, err := wr.d.Space()
	free += wr.s.stats.used.Load() - fixed
	return free-onDisk(n)-wr.s.stats.reserved.Load() < wr.minFree, err
}

// fixed returns the bytes that eviction cannot free now.
func (wr *writer) fixed() int64 {
	n := wr.s.stats.used.Load() - wr.held[probation] - wr.held[protected]
	for _, o := range wr.orphans {
		n -= o.size
	}
	for _, w := range wr.d.index.allFiles() {
		if w.open.Load() > 0 {
			n += onDisk(w.size)
		}
	}
	return n
}

// makeRoom evicts until n more bytes fit. The error is ErrFull if they never will, or
// ErrSuspended: where nothing can be deleted nothing more must be forgotten for it.
func (wr *writer) makeRoom(n int64, chunks int) error {
	for first := true; ; first = false {
		ok, err := wr.fits(n, chunks)
		if ok || err != nil {
			return err
		}
		if wr.s.health.suspended.Load() {
			return ErrSuspended
		}
		if first {
			if never, err := wr.neverFits(n); never || err != nil {
				return errors.Join(err, ErrFull)
			}
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

// evict throws away what can be spared, or else the oldest of a queue, or gives that another
// round; false: there is nothing that could go. A round costs every chunk in it one use, so
// they come to an end.
func (wr *writer) evict() bool {
	if wr.evictRedundant() {
		return true
	}
	q := protected
	if wr.held[probation]*probationShare > wr.held[probation]+wr.held[protected] {
		q = probation
	}
	return wr.evictFrom(q) || wr.evictFrom(1-q)
}

func (wr *writer) evictFrom(q queue) bool {
	for range len(wr.queues.lists[q]) {
		m, ok := wr.queues.pop(q)
		if !ok {
			return false
		}
		if m.file != nil {
			if wr.evictFile(m.file) {
				return true
			}
			continue
		}
		if m.segment == wr.heads[q] {
			wr.seal(q)
		}
		wr.evictSegment(m.segment)
		return true
	}
	return false
}

// evictSegment copies what is in use and deletes the rest, or keeps all if most is.
func (wr *writer) evictSegment(s *segment) {
	stay, bytes := wr.survivors(s, hot)
	if float64(bytes) >= keepShare*float64(s.size.Load()) && bytes > 0 {
		wr.keepSegment(s)
		return
	}
	wr.cleanSegment(s, stay, bytes)
}

// cleanSegment copies what stays of a segment, if there is room for it, and deletes the segment.
func (wr *writer) cleanSegment(s *segment, stay []survivor, bytes int64) {
	if bytes > 0 && wr.mayCopy(bytes) {
		wr.s.stats.copied.Add(wr.move(s, stay))
	}
	wr.remember(s)
	wr.s.stats.evicted.Add(s.size.Load())
	wr.remove(s)
}

// keepSegment gives a segment another round.
func (wr *writer) keepSegment(s *segment) {
	x := wr.d.index
	x.mu.RLock()
	for i := range s.chunks {
		s.chunks[i].decay()
	}
	x.mu.RUnlock()
	n := onDisk(s.size.Load())
	wr.held[s.queue] -= n
	wr.held[protected] += n
	wr.queues.push(protected, queueItem{segment: s})
	wr.write(&record{kind: segmentRecord, number: uint64(s.number), queue: protected})
}

// remember notes the chunks that leave probation without having been used.
func (wr *writer) remember(s *segment) {
	if s.queue != probation {
		return
	}
	x := wr.d.index
	x.mu.RLock()
	defer x.mu.RUnlock()
	x.alive(s, func(id uint32, e extent) {
		for i := range int(e.n) {
			if c := &s.chunks[int(e.at)+i]; c.uses() == 0 && !c.isRedundant() {
				wr.ghost.add(x.objects[id].key, uint32(e.first)+uint32(i), x.chunks)
			}
		}
	})
}

// remove deletes a segment. The journal says so before the file is gone.
func (wr *writer) remove(s *segment) {
	x := wr.d.index
	x.mu.Lock()
	x.remove(s)
	x.mu.Unlock()
	if wr.heads[s.queue] == s {
		wr.seal(s.queue)
	}
	wr.write(&record{kind: evictRecord, number: uint64(s.number)})
	wr.flush()
	wr.d.opened.drop(s)
	n := onDisk(s.size.Load())
	wr.held[s.queue] -= n
	wr.delete(orphan{name: s.name(), size: n, sort: &wr.s.stats.segmentBytes})
}

// An orphan is a file that is to be deleted, and is counted until it is.
type orphan struct {
	name string
	size int64
	sort *atomic.Int64 // of Stats

	file *wholeFile // which is counted until nobody has it open, too; nil: it is none
}

// delete deletes a file. If that fails it is counted on, and tried again with each new
// journal.
func (wr *writer) delete(o orphan) {
	err := wr.d.Dir.Remove(o.name)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		wr.failed("deleting", err)
		wr.stuck = append(wr.stuck, o)
	case o.file != nil:
		o.file.unlinked = true
		wr.uncount(o.file)
	default:
		wr.s.stats.use(-o.size, o.sort)
	}
}

// deleteStuck tries again to delete a file. It is one at a time: a few that can never be deleted
// must not look like a disk that fails.
func (wr *writer) deleteStuck() {
	if len(wr.stuck) > 0 {
		o := wr.stuck[0]
		wr.stuck = wr.stuck[1:]
		wr.delete(o)
	}
}

// isLeaving says whether a file is to be deleted already.
func (wr *writer) isLeaving(name string) bool {
	named := func(o orphan) bool { return o.name == name }
	return slices.ContainsFunc(wr.orphans, named) || slices.ContainsFunc(wr.stuck, named)
}

// deleteOrphan deletes one of the files that nobody knows, and says whether there are
// more.
func (wr *writer) deleteOrphan() bool {
	n := len(wr.orphans)
	if n == 0 {
		return false
	}
	o := wr.orphans[n-1]
	wr.orphans = wr.orphans[:n-1]
	wr.delete(o)
	return n > 1
}

// deleteNamed deletes what has one of these names and is to be deleted, because files of that
// name are to come. They must not, where it fails: they would be deleted later.
func (wr *writer) deleteNamed(names ...string) error {
	named := func(o orphan) bool { return slices.Contains(names, o.name) }
	all := slices.Concat(wr.orphans, wr.stuck)
	wr.orphans, wr.stuck = slices.DeleteFunc(wr.orphans, named), slices.DeleteFunc(wr.stuck, named)
	for _, o := range all {
		if named(o) {
			wr.delete(o)
		}
	}
	for _, name := range names {
		if wr.isLeaving(name) {
			return fmt.Errorf("%s cannot be deleted", name)
		}
	}
	return nil
}
