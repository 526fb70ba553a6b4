package disk

import (
	"errors"
	"fmt"
	"github.com/xetfs/xetfs/cache/disk/internal/vfs"
	"slices"
)

// openAsOwner opens the folder as the process that writes to it.
func (s *Store) openAsOwner() error {
	wr := newWriter(s)
	if err := wr.load(); err != nil {
		return err
	}
	s.writer.Store(wr)
	go wr.run()
	return nil
}

// load opens the folder, reads its index and compares it with what is there.
func (wr *writer) load() error {
	f, err := wr.s.o.testing.openDir(wr.s.dir, true)
	if err != nil {
		return err
	}
	wr.writerState = writerState{d: newFolder(f)}
	wr.syncing.result = make(chan error, 1)
	if err := wr.loadFolder(); err != nil {
		wr.abandonLog()
		return errors.Join(err, wr.d.close())
	}
	wr.s.disk.Store(wr.d)
	return nil
}

func (wr *writer) loadFolder() error {
	if err := wr.refused(); err != nil {
		return err
	}
	err := wr.d.Lock()
	if errors.Is(err, vfs.ErrLocked) {
		return ErrBusy
	}
	if err != nil {
		return err
	}
	wr.s.stats.reset()
	names, err := wr.d.List("")
	if err != nil {
		return err
	}
	if names, err = wr.loadFormat(names); err != nil {
		return err
	}
	if err := wr.setMinFree(); err != nil {
		return err
	}
	found, err := wr.loadIndex(names)
	if err != nil {
		return err
	}
	if err := wr.loadSegments(); err != nil {
		return err
	}
	if found == nil && (len(names) > len(wr.foreign) || wr.s.stats.segmentBytes.Load() > 0) {
		wr.s.o.Event(Event{Name: EventRebuilt, What: "the whole index", Err: errNoSnapshot})
	}
	if err := wr.loadFiles(); err != nil {
		return err
	}
	if err := wr.openLog(found); err != nil {
		return err
	}
	wr.openHeads()
	return nil
}

// refused says why the folder is to be left exactly as it is, if it is. Anything else
// will be said again by who needs it.
func (wr *writer) refused() error {
	names, err := wr.d.List("")
	if err == nil {
		_, _, err = format(wr.d, names)
	}
	if errors.Is(err, ErrRefused) || errors.Is(err, ErrNewer) {
		return err
	}
	return checkNames(wr.d)
}

// loadFormat finds out whether the folder can be used, and returns which names count.
func (wr *writer) loadFormat(names []vfs.FileInfo) ([]vfs.FileInfo, error) {
	id, fresh, err := format(wr.d, names)
	if err == nil && fresh {
		id, err = writeFormat(wr.d)
		wr.s.stats.use(onDisk(1), &wr.s.stats.journalBytes)
	}
	if err == nil {
		err = wr.d.Mkdir("seg")
	}
	if err == nil {
		err = wr.d.Mkdir("whole")
	}
	if err != nil {
		return nil, err
	}
	wr.id = id
	kept := names[:0]
	for _, e := range names {
		n, isLog := logNumber(e.Name)
		wr.number = max(wr.number, n)
		switch {
		case isLog && fresh, e.Name == tmpLog, e.Name == formatTmp, e.Name == vfs.ProbeName:
			wr.orphans = append(wr.orphans, orphan{name: e.Name, size: onDisk(e.Size), sort: &wr.s.stats.journalBytes})
		case isLog:
			kept = append(kept, e)
		}
		if e.Regular && !(fresh && e.Name == formatName) {
			wr.s.stats.use(onDisk(e.Size), &wr.s.stats.journalBytes)
		}
	}
	return kept, nil
}

func (wr *writer) setMinFree() error {
	_, all, err := wr.d.Space()
	switch {
	case err != nil:
		return err
	case wr.s.o.MinFree == 0:
		wr.minFree = all / 20
	default:
		wr.minFree = max(0, wr.s.o.MinFree)
	}
	return nil
}

// loadIndex takes over what the journal says.
func (wr *writer) loadIndex(logs []vfs.FileInfo) (*recovered, error) {
	found, foreign, err := recoverIndex(wr.d, logs, wr.id)
	if err != nil {
		return nil, err
	}
	wr.foreign = foreign
	if found == nil {
		return nil, nil
	}
	wr.d.index, wr.queues, wr.last = found.index, found.queues, found.last
	if found.isDamaged() {
		wr.damaged = logName(found.number)
		err := found.bad
		if err == nil {
			err = errDamaged
		}
		wr.s.o.Event(Event{Name: EventRebuilt, What: wr.damaged, Err: err})
	}
	return found, nil
}

var (
	errNoSnapshot = errors.New("no journal is whole")
	errDamaged    = errors.New("bytes in the middle of the journal were lost")
)

// loadSegments forgets segments that are not there, and finds files that are none.
func (wr *writer) loadSegments() error {
	entries, err := wr.d.List("seg")
	if err != nil {
		return err
	}
	stats, there := &wr.s.stats, make(map[uint32]bool)
	for _, e := range entries {
		number, ok := segmentNumber(e.Name)
		if !ok {
			continue
		}
		wr.last = max(wr.last, number)
		if e.Err != nil {
			wr.s.dropped(segmentName(number), e.Err)
			continue // nothing but this is lost, and to delete it would fail, too
		}
		stats.use(onDisk(e.Size), &stats.segmentBytes)
		s := wr.d.index.segments[number]
		if s == nil || !e.Regular || e.Size == 0 {
			wr.orphans = append(wr.orphans, orphan{name: segmentName(number), size: onDisk(e.Size), sort: &stats.segmentBytes})
			continue
		}
		there[number] = true
		s.size.Store(e.Size)
		wr.held[s.queue] += onDisk(e.Size)
	}
	for number, s := range wr.d.index.segments {
		if !there[number] {
			wr.d.index.remove(s)
			s.gone.Store(true)
		}
	}
	return nil
}

// openLog goes on with the journal that was found, if it ends as it should, or begins a
// new one.
func (wr *writer) openLog(found *recovered) error {
	if found != nil && found.isAppendable() {
		f, err := wr.d.Open(logName(found.number), true)
		if err == nil {
			wr.log = newLog(f, found.number, found.size)
			wr.log.base, wr.log.refs = found.base, uint32(len(found.refs))
			wr.number = max(wr.number, found.number)
			return nil
		}
	}
	err := wr.rotate()
	if isFull(err) {
		wr.failed("writing the index", err)
		return nil // what is there can be read; the writer tries again
	}
	return err
}

// openHeads goes on with the newest segments, if all of them is there that should be.
func (wr *writer) openHeads() {
	for q := range wr.queues.lists {
		for _, m := range slices.Backward(wr.queues.lists[q]) {
			if m.segment != nil && m.current() {
				wr.openHead(queue(q), m.segment)
				break
			}
		}
	}
}

func (wr *writer) openHead(q queue, s *segment) {
	if size := s.size.Load(); size < s.end() || size >= wr.s.o.testing.segment {
		return
	}
	f, err := wr.d.Open(s.name(), true)
	if err != nil {
		return // it fails again when it is read
	}
	s.pinned.Store(true)
	if _, err := wr.d.opened.put(s, &segmentFile{f}); err == nil {
		wr.heads[q] = s
	}
}

// recoverIndex reads the newest journal whose snapshot is whole; the result is nil if none
// is. It also returns which journals are of other caches.
func recoverIndex(d vfs.Dir, names []vfs.FileInfo, id [16]byte) (found *recovered, foreign map[string]bool, err error) {
	foreign = make(map[string]bool)
	var numbers []uint64
	for _, e := range names {
		if n, ok := logNumber(e.Name); ok && e.Err == nil {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	for _, n := range slices.Backward(numbers) {
		r, err := readLog(d, id, n)
		switch {
		case errors.Is(err, errOther):
			foreign[logName(n)] = true
		case errors.Is(err, vfs.ErrForeign):
		case err != nil:
			return nil, nil, fmt.Errorf("%s: %w", logName(n), err)
		case r.complete:
			return r, foreign, nil
		}
	}
	return nil, foreign, nil
}

func readLog(d vfs.Dir, id [16]byte, number uint64) (*recovered, error) {
	f, err := d.Open(logName(number), false)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return replayLog(f, id, number)
}
