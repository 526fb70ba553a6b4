package disk

import (
	"cmp"
	"crypto/rand"
	"errors"

	"github.com/xetfs/xetfs/cache/disk/internal/index"
	"github.com/xetfs/xetfs/cache/disk/internal/vfs"
	"github.com/xetfs/xetfs/cache/disk/internal/wal"
	"github.com/xetfs/xetfs/codec"
)

// load opens the folder, reads its index and compares the index with the files.
func (wr *writer) load() error {
	f, err := wr.s.o.testing.openDir(wr.s.dir, true)
	if err != nil {
		return err
	}
	wr.writerState = writerState{d: newFolder(f)}
	wr.policy = index.NewPolicy(wr.d.index, index.EvictionQueues{})
	wr.syncing.result = make(chan error, 1)
	if err := wr.loadFolder(); err != nil {
		wr.abandonLog()
		return errors.Join(err, wr.d.close())
	}
	wr.s.use(wr.d)
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
	if err := wr.setMinFree(); err != nil { // all files are counted now
		return err
	}
	if err := wr.openLog(found); err != nil {
		return err
	}
	wr.openHeads()
	return nil
}

// refused returns the reason to leave the folder as it is. Later calls return other errors
// again.
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

// loadFormat checks the format of the folder and returns the names of its journals.
func (wr *writer) loadFormat(names []vfs.FileInfo) ([]vfs.FileInfo, error) {
	id, state, err := format(wr.d, names)
	if state == formatFresh {
		_, _ = rand.Read(id[:]) // it never fails
	}
	if err == nil && state != formatIntact {
		err = writeFormat(wr.d, id)
		wr.s.stats.use(index.OnDisk(1), &wr.s.stats.journalBytes)
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
	if state == formatLost {
		wr.s.o.Event(Event{Name: EventRebuilt, What: formatName, Err: errNoFormat})
	}
	wr.id = id
	kept := names[:0]
	for _, e := range names {
		n, isLog := wal.ParseName(e.Name)
		wr.number = max(wr.number, n)
		switch {
		case isLog && state == formatFresh, e.Name == wal.TmpName, e.Name == formatTmp, e.Name == vfs.ProbeName:
			wr.orphans = append(wr.orphans, orphan{name: e.Name, size: index.OnDisk(e.Size), sort: &wr.s.stats.journalBytes})
		case isLog:
			kept = append(kept, e)
		}
		if e.Regular && !(state != formatIntact && e.Name == formatName) {
			wr.s.stats.use(index.OnDisk(e.Size), &wr.s.stats.journalBytes)
		}
	}
	return kept, nil
}

// loadIndex reads the journal.
func (wr *writer) loadIndex(logs []vfs.FileInfo) (*wal.Recovered, error) {
	found, foreign, err := wal.Recover(wr.d, logs, wr.id)
	if err != nil {
		return nil, err
	}
	wr.foreign = foreign
	if found == nil {
		return nil, nil
	}
	wr.d.index, wr.last = found.Index, found.Last
	wr.policy = index.NewPolicy(found.Index, found.Queues)
	if found.IsDamaged() {
		wr.damaged = wal.Name(found.Number)
		wr.s.o.Event(Event{Name: EventRebuilt, What: wr.damaged, Err: cmp.Or(found.Bad, errDamaged)})
	}
	return found, nil
}

var (
	errNoFormat   = errors.New("it was damaged or missing; the journal has the id of the cache")
	errNoSnapshot = errors.New("no journal has a complete snapshot")
	errDamaged    = errors.New("bytes of the journal were lost")
)

// loadSegments forgets segments without a file, and finds files without a segment.
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
			wr.s.dropped(index.SegmentName(number), e.Err)
			continue // other entries are unaffected, and a deletion would fail, too
		}
		stats.use(index.OnDisk(e.Size), &stats.segmentBytes)
		s := wr.d.index.Segment(number)
		if s == nil || !e.Regular || e.Size == 0 {
			wr.orphans = append(wr.orphans, orphan{name: index.SegmentName(number), size: index.OnDisk(e.Size), sort: &stats.segmentBytes})
			continue
		}
		there[number] = true
		s.Size.Store(e.Size)
		wr.policy.Held[s.Queue] += index.OnDisk(e.Size)
	}
	for _, s := range wr.d.index.Segments() {
		if !there[s.Number] {
			wr.d.index.Remove(s)
			s.Gone.Store(true)
		}
	}
	return nil
}

// openLog continues the journal if its end is intact, or starts a new one.
func (wr *writer) openLog(found *wal.Recovered) error {
	if found != nil && found.IsAppendable() {
		l, err := wal.Open(wr.d, found, wr.countJournal)
		if err == nil {
			wr.log, wr.number = l, max(wr.number, l.Number)
			return nil
		}
	}
	err := wr.rotate()
	switch {
	case errors.Is(err, ErrSuspended): // nothing is evicted until the store has resumed
	case isFull(err):
		wr.failed("writing the index", err)
	default:
		return err
	}
	return nil // the stored entries can be read; the writer tries again
}

// openHeads continues the newest segments that are complete.
func (wr *writer) openHeads() {
	for q := range index.NumQueues {
		if s := wr.policy.Newest(q); s != nil {
			wr.openHead(q, s)
		}
	}
}

func (wr *writer) openHead(q index.Queue, s *index.Segment) {
	if size := s.Size.Load(); size < s.End() || size >= wr.s.o.testing.segment {
		return
	}
	f, err := wr.d.Open(s.Name(), true)
	if err != nil {
		return // a read reports the error
	}
	s.Pinned.Store(true)
	if _, err := wr.d.opened.put(s, &segmentFile{f}); err == nil {
		wr.heads[q] = s
	}
}

// loadFiles forgets whole files that are absent or changed, and finds files without an entry.
func (wr *writer) loadFiles() error {
	entries, err := wr.d.List("whole")
	if err != nil {
		return err
	}
	x, stats := wr.d.index, &wr.s.stats
	there := make(map[codec.Hash]bool)
	for _, e := range entries {
		if !isWholeFile(e.Name) {
			continue
		}
		if e.Err != nil {
			wr.s.dropped("whole/"+e.Name, e.Err)
			continue // as loadSegments does
		}
		stats.use(index.OnDisk(e.Size), &stats.fileBytes)
		h, err := codec.ParseHash(e.Name)
		w := x.File(h)
		if err != nil || w == nil || !isUnchanged(w, e) {
			wr.orphans = append(wr.orphans, orphan{name: "whole/" + e.Name, size: index.OnDisk(e.Size), sort: &stats.fileBytes})
			continue
		}
		there[h] = true
		w.Suspect.Store(e.CTime != w.CTime.Load())
		wr.policy.Held[index.Protected] += index.OnDisk(e.Size)
	}
	for _, w := range x.Files() {
		if !there[w.Hash] {
			wr.policy.RemoveFile(w)
			x.ForgetFile(w.Hash)
		}
	}
	return nil
}
