package origin

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"math/bits"
	"slices"
	"sort"
)

// A knownPlace is what the index says of a word: a chunk of a xorb, or the block of a
// file in a shard.
type knownPlace struct{ what, index uint32 }

const fileBit = 1 << 31

func chunkAt(xorb, index uint32) knownPlace { return knownPlace{xorb, index} }

// fileAt is the place of a block, which begins at a multiple of 48. One so far behind
// that it does not fit, in a shard of 200 GB, will not be found.
func fileAt(shard uint32, block int64) knownPlace {
	return knownPlace{fileBit | shard, uint32(min(block/48, math.MaxUint32))}
}

func (p knownPlace) isFile() bool  { return p.what&fileBit != 0 }
func (p knownPlace) shard() uint32 { return p.what &^ fileBit }
func (p knownPlace) block() int64  { return 48 * int64(p.index) }

// A knownEntry is a word and its place.
type knownEntry struct {
	word uint64
	knownPlace
}

const (
	entrySize = 16
	maxRecent = 1 << 20 // entries in memory: up to 80 MiB
	maxRuns   = 8
)

// A knownIndex finds places by words that are evenly spread. What was added last is in
// memory; when that is full it becomes a sorted run in a scratch file, and when there
// are many of these they are merged into one. Of one word the newest place counts.
type knownIndex struct {
	scratch func() (Scratch, error)
	most    int // entries in memory; 0: maxRecent
	recent  map[uint64]knownPlace
	runs    []*knownRun // oldest first
	buf     []byte
}

// add adds a place.
func (x *knownIndex) add(word uint64, at knownPlace) error {
	if x.recent == nil {
		x.recent = map[uint64]knownPlace{}
	}
	x.recent[word] = at
	if len(x.recent) < cmp.Or(x.most, maxRecent) || x.scratch == nil {
		return nil
	}
	return x.spill()
}

// find offers the places of a word to accept, newest first, until it takes one. What
// cannot be read is not there.
func (x *knownIndex) find(word uint64, accept func(knownPlace) bool) {
	if at, ok := x.recent[word]; ok && accept(at) {
		return
	}
	if x.buf == nil {
		x.buf = make([]byte, 0, entriesAtOnce*entrySize)
	}
	for _, r := range slices.Backward(x.runs) {
		if at, ok := r.find(word, x.buf); ok && accept(at) {
			return
		}
	}
}

// spill makes a run of what is in memory.
func (x *knownIndex) spill() error {
	words := make([]uint64, 0, len(x.recent))
	for word := range x.recent {
		words = append(words, word)
	}
	slices.Sort(words)
	r, err := x.newRun(func(yield func(knownEntry) error) error {
		for _, word := range words {
			if err := yield(knownEntry{word, x.recent[word]}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	clear(x.recent)
	x.runs = append(x.runs, r)
	if len(x.runs) < maxRuns {
		return nil
	}
	return x.merge()
}

// merge makes one run of all.
func (x *knownIndex) merge() error {
	if len(x.runs) < 2 {
		return nil
	}
	r, err := x.newRun(func(yield func(knownEntry) error) error { return mergeRuns(x.runs, yield) })
	if err != nil {
		return err
	}
	old := x.runs
	x.runs = []*knownRun{r}
	for _, r := range old {
		err = errors.Join(err, r.file.Close())
	}
	return err
}

// mergeRuns yields the entries of some runs by their words, of equal words the newest.
func mergeRuns(runs []*knownRun, yield func(knownEntry) error) error {
	readers := make([]*entryReader, len(runs))
	for i, r := range runs {
		readers[i] = r.reader()
		if err := readers[i].next(); err != nil {
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

func (x *knownIndex) close() error {
	var err error
	for _, r := range x.runs {
		err = errors.Join(err, r.file.Close())
	}
	x.runs, x.recent = nil, nil
	return err
}

// A knownRun is entries in a file, sorted by their words, of which each comes once.
type knownRun struct {
	file    Scratch
	entries int64
}

// newRun writes what fill yields into a new file.
func (x *knownIndex) newRun(fill func(yield func(knownEntry) error) error) (*knownRun, error) {
	file, err := x.scratch()
	if err != nil {
		return nil, err
	}
	r := &knownRun{file: file}
	w := bufio.NewWriterSize(io.NewOffsetWriter(file, 0), 256<<10)
	var b [entrySize]byte
	err = fill(func(e knownEntry) error {
		binary.LittleEndian.PutUint64(b[:], e.word)
		binary.LittleEndian.PutUint32(b[8:], e.what)
		binary.LittleEndian.PutUint32(b[12:], e.index)
		r.entries++
		_, err := w.Write(b[:])
		return err
	})
	if err == nil {
		err = w.Flush()
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return r, nil
}

func decodeEntry(b []byte) knownEntry {
	return knownEntry{
		word: binary.LittleEndian.Uint64(b),
		knownPlace: knownPlace{
			what:  binary.LittleEndian.Uint32(b[8:]),
			index: binary.LittleEndian.Uint32(b[12:]),
		},
	}
}

// An entryReader reads a run from its beginning.
type entryReader struct {
	r     *bufio.Reader
	entry knownEntry
	end   bool
}

func (r *knownRun) reader() *entryReader {
	return &entryReader{r: bufio.NewReaderSize(io.NewSectionReader(r.file, 0, r.entries*entrySize), 256<<10)}
}

func (r *entryReader) next() error {
	var b [entrySize]byte
	_, err := io.ReadFull(r.r, b[:])
	r.end = errors.Is(err, io.EOF)
	if err != nil && !r.end {
		return err
	}
	r.entry = decodeEntry(b[:])
	return nil
}

const (
	entriesAtOnce = 256
	goodGuesses   = 4 // then halving, in case the words are not spread evenly
)

// find returns the place of a word. buf has room for entriesAtOnce.
func (r *knownRun) find(word uint64, buf []byte) (knownPlace, bool) {
	low, high := int64(0), r.entries
	lowWord, highWord := uint64(0), uint64(math.MaxUint64)
	for try := 0; low < high; try++ {
		at := low + (high-low)/2
		if try < goodGuesses {
			at = low + share(high-low, word-lowWord, highWord-lowWord)
		}
		first := max(low, min(at-entriesAtOnce/2, high-entriesAtOnce))
		n := min(entriesAtOnce, high-first)
		b := buf[:n*entrySize]
		if _, err := r.file.ReadAt(b, first*entrySize); err != nil {
			return knownPlace{}, false
		}
		begin, end := decodeEntry(b).word, decodeEntry(b[(n-1)*entrySize:]).word
		switch {
		case word < begin:
			high, highWord = first, begin
		case word > end:
			low, lowWord = first+n, end
		default:
			return findIn(b, word)
		}
	}
	return knownPlace{}, false
}

// share is n×part/whole.
func share(n int64, part, whole uint64) int64 {
	if part >= whole {
		return n
	}
	high, low := bits.Mul64(uint64(n), part)
	q, _ := bits.Div64(high, low, whole) // high < whole, because n×part/whole < n
	return int64(q)
}

// findIn looks for a word among entries.
func findIn(b []byte, word uint64) (knownPlace, bool) {
	n := len(b) / entrySize
	i := sort.Search(n, func(i int) bool { return binary.LittleEndian.Uint64(b[i*entrySize:]) >= word })
	if i == n {
		return knownPlace{}, false
	}
	e := decodeEntry(b[i*entrySize:])
	return e.knownPlace, e.word == word
}
