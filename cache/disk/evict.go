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
func (k *keeper) slack() int64 { return k.s.o.testing.segment + 32<<10 }

// maxChunks bounds the memory of the index, where chunks are much smaller than usual.
func (k *keeper) maxChunks() int { return int(max(k.s.o.MaxBytes/(16<<10), 1<<16)) }

// fits says whether there is room for n more bytes and some more chunks.
func (k *keeper) fits(n int64, chunks int) (bool, error) {
	x := k.d.index
	x.mu.RLock()
	chunks += x.chunks
	x.mu.RUnlock()
	if k.s.stats.used.Load()+onDisk(n)+k.slack() > k.s.o.MaxBytes || chunks > k.maxChunks() {
		return false, nil
	}
	if k.floor <= 0 {
		return true, nil
	}
	free, _, err := k.d.space()
	return free-onDisk(n)-k.s.stats.promised.Load() >= k.floor, err
}

// neverFits says that there is no room for n more bytes, even if all went that can go. Where
// nothing is asked for, and others took the room, all goes that can.
func (k *keeper) neverFits(n int64) (bool, error) {
	fixed := k.fixed()
	if fixed+onDisk(n)+k.slack() > k.s.o.MaxBytes {
		return true, nil
	}
	if k.floor <= 0 || n == 0 {
		return false, nil
	}
	free, _, err := k.d.space()
	free += k.s.stats.used.Load() - fixed
	return free-onDisk(n)-k.s.stats.promised.Load() < k.floor, err
}

// fixed returns the bytes that eviction cannot free now.
func (k *keeper) fixed() int64 {
	n := k.s.stats.used.Load() - k.held[probation] - k.held[protected]
	for _, o := range k.orphans {
		n -= o.size
	}
	for _, w := range k.d.index.allWholes() {
		if w.open.Load() > 0 {
			n += onDisk(w.size)
		}
	}
	return n
}

// makeRoom evicts until n more bytes fit. The error is ErrFull if they never will, or
// ErrSuspended: where nothing can be deleted nothing more must be forgotten for it.
func (k *keeper) makeRoom(n int64, chunks int) error {
	for first := true; ; first = false {
		ok, err := k.fits(n, chunks)
		if ok || err != nil {
			return err
		}
		if k.s.health.suspended.Load() {
			return ErrSuspended
		}
		if first {
			if never, err := k.neverFits(n); never || err != nil {
				return errors.Join(err, ErrFull)
			}
		}
		if len(k.orphans) > 0 {
			k.deleteOrphan()
			continue
		}
		if !k.evict() {
			return ErrFull
		}
	}
}

// evict throws away what can be spared, or else the oldest of a queue, or gives that another
// round; false: there is nothing that could go. A round costs every chunk in it one use, so
// they come to an end.
func (k *keeper) evict() bool {
	if k.evictSpare() {
		return true
	}
	q := protected
	if k.held[probation]*probationShare > k.held[probation]+k.held[protected] {
		q = probation
	}
	return k.evictFrom(q) || k.evictFrom(1-q)
}

func (k *keeper) evictFrom(q queue) bool {
	for range len(k.rows.row[q]) {
		m, ok := k.rows.pop(q)
		if !ok {
			return false
		}
		if m.whole != nil {
			if k.evictWhole(m.whole) {
				return true
			}
			continue
		}
		if m.segment == k.heads[q] {
			k.seal(q)
		}
		k.evictSegment(m.segment)
		return true
	}
	return false
}

// evictSegment copies what is in use and deletes the rest, or keeps all if most is.
func (k *keeper) evictSegment(s *segment) {
	stay, bytes := k.staying(s, hot)
	if float64(bytes) >= keepShare*float64(s.size.Load()) && bytes > 0 {
		k.keep(s)
		return
	}
	k.throwAway(s, stay, bytes)
}

// throwAway copies what stays of a segment, if there is room for it, and deletes the segment.
func (k *keeper) throwAway(s *segment, stay []staying, bytes int64) {
	if bytes > 0 && k.mayCopy(bytes) {
		k.s.stats.copied.Add(k.move(s, stay))
	}
	k.remember(s)
	k.s.stats.evicted.Add(s.size.Load())
	k.remove(s)
}

// keep gives a segment another round.
func (k *keeper) keep(s *segment) {
	x := k.d.index
	x.mu.RLock()
	for i := range s.chunks {
		s.chunks[i].cool()
	}
	x.mu.RUnlock()
	n := onDisk(s.size.Load())
	k.held[s.queue] -= n
	k.held[protected] += n
	k.rows.push(protected, member{segment: s})
	k.write(&record{kind: segmentRecord, number: uint64(s.number), queue: protected})
}

// remember notes the chunks that leave probation without having been used.
func (k *keeper) remember(s *segment) {
	if s.queue != probation {
		return
	}
	x := k.d.index
	x.mu.RLock()
	defer x.mu.RUnlock()
	x.alive(s, func(id uint32, e extent) {
		for i := range int(e.n) {
			if c := &s.chunks[int(e.at)+i]; c.uses() == 0 && !c.isSpare() {
				k.ghost.add(x.objects[id].key, uint32(e.first)+uint32(i), x.chunks)
			}
		}
	})
}

// remove deletes a segment. The journal says so before the file is gone.
func (k *keeper) remove(s *segment) {
	x := k.d.index
	x.mu.Lock()
	x.remove(s)
	x.mu.Unlock()
	if k.heads[s.queue] == s {
		k.seal(s.queue)
	}
	k.write(&record{kind: evictRecord, number: uint64(s.number)})
	k.flush()
	k.d.opened.drop(s)
	n := onDisk(s.size.Load())
	k.held[s.queue] -= n
	k.delete(orphan{name: s.name(), size: n, sort: &k.s.stats.segmentBytes})
}

// An orphan is a file that is to be deleted, and is counted until it is.
type orphan struct {
	name string
	size int64
	sort *atomic.Int64 // of Stats

	whole *whole // which is counted until nobody has it open, too; nil: it is none
}

// delete deletes a file. If that fails it is counted on, and tried again with each new
// journal.
func (k *keeper) delete(o orphan) {
	err := k.d.files.remove(o.name)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		k.failed("deleting", err)
		k.stuck = append(k.stuck, o)
	case o.whole != nil:
		o.whole.unlinked = true
		k.uncount(o.whole)
	default:
		k.s.stats.use(-o.size, o.sort)
	}
}

// deleteStuck tries again to delete a file. It is one at a time: a few that can never be deleted
// must not look like a disk that fails.
func (k *keeper) deleteStuck() {
	if len(k.stuck) > 0 {
		o := k.stuck[0]
		k.stuck = k.stuck[1:]
		k.delete(o)
	}
}

// isLeaving says whether a file is to be deleted already.
func (k *keeper) isLeaving(name string) bool {
	named := func(o orphan) bool { return o.name == name }
	return slices.ContainsFunc(k.orphans, named) || slices.ContainsFunc(k.stuck, named)
}

// deleteOrphan deletes one of the files that nobody knows, and says whether there are
// more.
func (k *keeper) deleteOrphan() bool {
	n := len(k.orphans)
	if n == 0 {
		return false
	}
	o := k.orphans[n-1]
	k.orphans = k.orphans[:n-1]
	k.delete(o)
	return n > 1
}

// deleteNamed deletes what has one of these names and is to be deleted, because files of that
// name are to come. They must not, where it fails: they would be deleted later.
func (k *keeper) deleteNamed(names ...string) error {
	named := func(o orphan) bool { return slices.Contains(names, o.name) }
	all := slices.Concat(k.orphans, k.stuck)
	k.orphans, k.stuck = slices.DeleteFunc(k.orphans, named), slices.DeleteFunc(k.stuck, named)
	for _, o := range all {
		if named(o) {
			k.delete(o)
		}
	}
	for _, name := range names {
		if k.isLeaving(name) {
			return fmt.Errorf("%s cannot be deleted", name)
		}
	}
	return nil
}
