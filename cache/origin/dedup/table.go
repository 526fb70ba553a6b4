package dedup

import (
	"cmp"
	"errors"
	"math"
	"slices"
)

// A location is the value of a word in the table. It is a chunk of a xorb, or the block of a
// file in a shard.
type location struct{ what, index uint32 }

const fileBit = 1 << 31

func chunkAt(xorb, index uint32) location { return location{xorb, index} }

// fileAt is the location of a block, which begins at a multiple of 48. One so far behind
// that it does not fit, in a shard of 200 GB, will not be found.
func fileAt(shard uint32, block int64) location {
	return location{fileBit | shard, uint32(min(block/48, math.MaxUint32))}
}

func (p location) isFile() bool  { return p.what&fileBit != 0 }
func (p location) shard() uint32 { return p.what &^ fileBit }
func (p location) block() int64  { return 48 * int64(p.index) }

// A tableEntry is a word and its location.
type tableEntry struct {
	word uint64
	location
}

// compare sorts by words, and locations of one word by their age, if they were added as fill
// says.
func (e tableEntry) compare(other tableEntry) int {
	if e.word != other.word {
		return cmp.Compare(e.word, other.word)
	}
	return cmp.Or(cmp.Compare(e.what, other.what), cmp.Compare(e.index, other.index))
}

const (
	entrySize   = 16
	maxMemtable = 1 << 20 // entries in memory: up to 80 MiB
	maxBulk     = 4       // times as many while it is filled: 64 MiB
	maxRuns     = 8
)

// A table finds locations by words that are evenly spread. New entries are in memory. Full memory
// becomes a sorted run in a scratch file, and many runs are merged into one. The newest location
// of a word counts.
type table struct {
	scratch  func() (TempFile, error)
	most     int // entries in memory; 0: maxMemtable
	memtable map[uint64]location
	runs     []*tempRun // oldest first
	buf      []byte

	// While the table is filling, no word is looked up, and new entries are only appended. The
	// newer location of a word is then the larger one.
	filling bool
	bulk    []tableEntry
}

// fill announces that many locations are added before the first lookup, each larger than those
// before it.
func (x *table) fill() { x.filling = true }

// filled ends the filling and makes the entries ready for lookups.
func (x *table) filled() error {
	x.filling = false
	most := cmp.Or(x.most, maxMemtable)
	if x.scratch != nil && (len(x.runs) > 0 || len(x.bulk) >= most) {
		if err := x.spillBulk(); err != nil {
			return err
		}
	}
	for _, e := range x.bulk {
		if err := x.add(e.word, e.location); err != nil {
			return err
		}
	}
	x.bulk = nil
	return x.merge()
}

// add adds a location.
func (x *table) add(word uint64, at location) error {
	if x.filling {
		x.bulk = append(x.bulk, tableEntry{word, at})
		if len(x.bulk) < maxBulk*cmp.Or(x.most, maxMemtable) || x.scratch == nil {
			return nil
		}
		return x.spillBulk()
	}
	if x.memtable == nil {
		x.memtable = map[uint64]location{}
	}
	x.memtable[word] = at
	if len(x.memtable) < cmp.Or(x.most, maxMemtable) || x.scratch == nil {
		return nil
	}
	return x.spill()
}

// find calls accept with the locations of a word, newest first, until accept returns true. It
// skips a location that cannot be read.
func (x *table) find(word uint64, accept func(location) bool) {
	if at, ok := x.memtable[word]; ok && accept(at) {
		return
	}
	for _, r := range slices.Backward(x.runs) {
		if at, ok := r.find(word, x.buffer()); ok && accept(at) {
			return
		}
	}
}

// buffer returns memory for sortedRun.find.
func (x *table) buffer() []byte {
	if x.buf == nil {
		x.buf = make([]byte, 0, entriesAtOnce*entrySize)
	}
	return x.buf
}

// spill makes a run of what is in memory.
func (x *table) spill() error {
	entries := make([]tableEntry, 0, len(x.memtable))
	for word, at := range x.memtable {
		entries = append(entries, tableEntry{word, at})
	}
	if err := x.addRun(entries); err != nil {
		return err
	}
	clear(x.memtable)
	return nil
}

// spillBulk makes a run of what is kept.
func (x *table) spillBulk() error {
	if err := x.addRun(x.bulk); err != nil {
		return err
	}
	x.bulk = x.bulk[:0]
	return nil
}

// addRun sorts entries and makes a run of them.
func (x *table) addRun(entries []tableEntry) error {
	r, err := x.newRun(sortedEntries(entries))
	if err != nil {
		return err
	}
	x.runs = append(x.runs, r)
	if len(x.runs) < maxRuns {
		return nil
	}
	return x.merge()
}

// sortedEntries sorts entries, and yields the newest one of each word.
func sortedEntries(entries []tableEntry) func(yield func(tableEntry) error) error {
	slices.SortFunc(entries, tableEntry.compare)
	return func(yield func(tableEntry) error) error {
		for i, e := range entries {
			if i+1 < len(entries) && entries[i+1].word == e.word {
				continue // the next is newer
			}
			if err := yield(e); err != nil {
				return err
			}
		}
		return nil
	}
}

// merge makes one run of all.
func (x *table) merge() error {
	if len(x.runs) < 2 {
		return nil
	}
	var readers []*entryReader
	for _, r := range x.runs {
		readers = append(readers, r.reader())
	}
	r, err := x.newRun(func(yield func(tableEntry) error) error { return mergeEntries(readers, yield) })
	if err != nil {
		return err
	}
	old := x.runs
	x.runs = []*tempRun{r}
	for _, r := range old {
		err = errors.Join(err, r.Close())
	}
	return err
}

// mergeEntries yields the entries of some runs, oldest first, by their words. The newest entry of
// a word is yielded.
func mergeEntries(readers []*entryReader, yield func(tableEntry) error) error {
	for _, r := range readers {
		if err := r.next(); err != nil {
			return err
		}
	}
	for {
		var least *entryReader
		for _, r := range readers {
			if !r.end && (least == nil || r.entry.word <= least.entry.word) {
				least = r
			}
		}
		if least == nil {
			return nil
		}
		if err := yield(least.entry); err != nil {
			return err
		}
		word := least.entry.word
		for _, r := range readers {
			for !r.end && r.entry.word == word {
				if err := r.next(); err != nil {
					return err
				}
			}
		}
	}
}

func (x *table) close() error {
	var err error
	for _, r := range x.runs {
		err = errors.Join(err, r.Close())
	}
	x.runs, x.memtable, x.bulk = nil, nil, nil
	return err
}
