package dedup

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"math/bits"
	"sort"
)

// A sortedRun is a file of entries that are sorted by word. Each word occurs once.
type sortedRun struct {
	file    TempFile
	entries int64
}

// newRun writes what fill yields into a new file.
func (x *table) newRun(fill func(yield func(tableEntry) error) error) (*sortedRun, error) {
	file, err := x.scratch()
	if err != nil {
		return nil, err
	}
	r := &sortedRun{file: file}
	w := bufio.NewWriterSize(io.NewOffsetWriter(file, 0), 256<<10)
	var b [entrySize]byte
	err = fill(func(e tableEntry) error {
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

func decodeEntry(b []byte) tableEntry {
	return tableEntry{
		word: binary.LittleEndian.Uint64(b),
		location: location{
			what:  binary.LittleEndian.Uint32(b[8:]),
			index: binary.LittleEndian.Uint32(b[12:]),
		},
	}
}

// An entryReader reads a run from its beginning.
type entryReader struct {
	r     *bufio.Reader
	entry tableEntry
	end   bool
}

func (r *sortedRun) reader() *entryReader {
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
func (r *sortedRun) find(word uint64, buf []byte) (location, bool) {
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
			return location{}, false
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
	return location{}, false
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
func findIn(b []byte, word uint64) (location, bool) {
	n := len(b) / entrySize
	i := sort.Search(n, func(i int) bool { return binary.LittleEndian.Uint64(b[i*entrySize:]) >= word })
	if i == n {
		return location{}, false
	}
	e := decodeEntry(b[i*entrySize:])
	return e.location, e.word == word
}
