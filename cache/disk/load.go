package disk

import (
	"errors"
	"fmt"
	"slices"
)

// own opens the folder as the process that writes to it.
func (s *Store) own() error {
	k := newKeeper(s)
	if err := k.load(); err != nil {
		return err
	}
	s.keeper.Store(k)
	go k.run()
	return nil
}

// load opens the folder, reads its index and compares it with what is there.
func (k *keeper) load() error {
	f, err := k.s.o.testing.openDir(k.s.dir, true)
	if err != nil {
		return err
	}
	k.state = state{d: newFolder(f)}
	k.syncing.result = make(chan error, 1)
	if err := k.loadFolder(); err != nil {
		k.abandonLog()
		return errors.Join(err, k.d.close())
	}
	k.s.disk.Store(k.d)
	return nil
}

func (k *keeper) loadFolder() error {
	if err := k.refused(); err != nil {
		return err
	}
	err := k.d.lock()
	if errors.Is(err, errLocked) {
		return ErrBusy
	}
	if err != nil {
		return err
	}
	k.s.stats.reset()
	names, err := k.d.list("")
	if err != nil {
		return err
	}
	if names, err = k.loadFormat(names); err != nil {
		return err
	}
	if err := k.setFloor(); err != nil {
		return err
	}
	found, err := k.loadIndex(names)
	if err != nil {
		return err
	}
	if err := k.loadSegments(); err != nil {
		return err
	}
	if found == nil && (len(names) > len(k.foreign) || k.s.stats.segmentBytes.Load() > 0) {
		k.s.o.Event(Event{Name: EventRebuilt, What: "the whole index", Err: errNoSnapshot})
	}
	if err := k.loadWholes(); err != nil {
		return err
	}
	if err := k.openLog(found); err != nil {
		return err
	}
	k.openHeads()
	return nil
}

// refused says why the folder is to be left exactly as it is, if it is. Anything else
// will be said again by who needs it.
func (k *keeper) refused() error {
	names, err := k.d.list("")
	if err == nil {
		_, _, err = format(k.d, names)
	}
	if errors.Is(err, ErrRefused) || errors.Is(err, ErrNewer) {
		return err
	}
	return checkNames(k.d)
}

// loadFormat finds out whether the folder can be used, and returns which names count.
func (k *keeper) loadFormat(names []entry) ([]entry, error) {
	id, fresh, err := format(k.d, names)
	if err == nil && fresh {
		id, err = writeFormat(k.d)
		k.s.stats.use(onDisk(1), &k.s.stats.logged)
	}
	if err == nil {
		err = k.d.mkdir("seg")
	}
	if err == nil {
		err = k.d.mkdir("whole")
	}
	if err != nil {
		return nil, err
	}
	k.id = id
	kept := names[:0]
	for _, e := range names {
		n, isLog := logNumber(e.name)
		k.number = max(k.number, n)
		switch {
		case isLog && fresh, e.name == tmpLog, e.name == formatTmp, e.name == probeName:
			k.orphans = append(k.orphans, orphan{name: e.name, size: onDisk(e.size), sort: &k.s.stats.logged})
		case isLog:
			kept = append(kept, e)
		}
		if e.plain && !(fresh && e.name == formatName) {
			k.s.stats.use(onDisk(e.size), &k.s.stats.logged)
		}
	}
	return kept, nil
}

func (k *keeper) setFloor() error {
	_, all, err := k.d.space()
	switch {
	case err != nil:
		return err
	case k.s.o.MinFree == 0:
		k.floor = all / 20
	default:
		k.floor = max(0, k.s.o.MinFree)
	}
	return nil
}

// loadIndex takes over what the journal says.
func (k *keeper) loadIndex(logs []entry) (*replayed, error) {
	found, foreign, err := recoverIndex(k.d, logs, k.id)
	if err != nil {
		return nil, err
	}
	k.foreign = foreign
	if found == nil {
		return nil, nil
	}
	k.d.index, k.rows, k.last = found.index, found.rows, found.last
	if found.damaged() {
		k.damaged = logName(found.number)
		err := found.bad
		if err == nil {
			err = errDamaged
		}
		k.s.o.Event(Event{Name: EventRebuilt, What: k.damaged, Err: err})
	}
	return found, nil
}

var (
	errNoSnapshot = errors.New("no journal is whole")
	errDamaged    = errors.New("bytes in the middle of the journal were lost")
)

// loadSegments forgets segments that are not there, and finds files that are none.
func (k *keeper) loadSegments() error {
	entries, err := k.d.list("seg")
	if err != nil {
		return err
	}
	stats, there := &k.s.stats, make(map[uint32]bool)
	for _, e := range entries {
		number, ok := segmentNumber(e.name)
		if !ok {
			continue
		}
		k.last = max(k.last, number)
		if e.err != nil {
			k.s.dropped(segmentName(number), e.err)
			continue // nothing but this is lost, and to delete it would fail, too
		}
		stats.use(onDisk(e.size), &stats.segmentBytes)
		s := k.d.index.segments[number]
		if s == nil || !e.plain || e.size == 0 {
			k.orphans = append(k.orphans, orphan{name: segmentName(number), size: onDisk(e.size), sort: &stats.segmentBytes})
			continue
		}
		there[number] = true
		s.size.Store(e.size)
		k.held[s.queue] += onDisk(e.size)
	}
	for number, s := range k.d.index.segments {
		if !there[number] {
			k.d.index.remove(s)
			s.gone.Store(true)
		}
	}
	return nil
}

// openLog goes on with the journal that was found, if it ends as it should, or begins a
// new one.
func (k *keeper) openLog(found *replayed) error {
	if found != nil && found.goesOn() {
		f, err := k.d.open(logName(found.number), true)
		if err == nil {
			k.log = newLog(f, found.number, found.size)
			k.log.base, k.log.refs = found.base, uint32(len(found.refs))
			k.number = max(k.number, found.number)
			return nil
		}
	}
	err := k.rotate()
	if isFull(err) {
		k.failed("writing the index", err)
		return nil // what is there can be read; the keeper tries again
	}
	return err
}

// openHeads goes on with the newest segments, if all of them is there that should be.
func (k *keeper) openHeads() {
	for q := range k.rows.row {
		for _, m := range slices.Backward(k.rows.row[q]) {
			if m.segment != nil && m.current() {
				k.openHead(queue(q), m.segment)
				break
			}
		}
	}
}

func (k *keeper) openHead(q queue, s *segment) {
	if size := s.size.Load(); size < s.end() || size >= k.s.o.testing.segment {
		return
	}
	f, err := k.d.open(s.name(), true)
	if err != nil {
		return // it fails again when it is read
	}
	s.pinned.Store(true)
	if _, err := k.d.opened.put(s, &openFile{f}); err == nil {
		k.heads[q] = s
	}
}

// recoverIndex reads the newest journal whose snapshot is whole; the result is nil if none
// is. It also returns which journals are of other caches.
func recoverIndex(d files, names []entry, id [16]byte) (found *replayed, foreign map[string]bool, err error) {
	foreign = make(map[string]bool)
	var numbers []uint64
	for _, e := range names {
		if n, ok := logNumber(e.name); ok && e.err == nil {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	for _, n := range slices.Backward(numbers) {
		r, err := readLog(d, id, n)
		switch {
		case errors.Is(err, errOther):
			foreign[logName(n)] = true
		case errors.Is(err, errForeign):
		case err != nil:
			return nil, nil, fmt.Errorf("%s: %w", logName(n), err)
		case r.complete:
			return r, foreign, nil
		}
	}
	return nil, foreign, nil
}

func readLog(d files, id [16]byte, number uint64) (*replayed, error) {
	f, err := d.open(logName(number), false)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return replayLog(f, id, number)
}
