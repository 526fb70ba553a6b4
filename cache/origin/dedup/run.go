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
	file    io.ReaderAt
	off     int64 // of the first entry in the file
	entries int64
}

// newRun writes what fill yields into a new file.
func (x *table) newRun(fill func(yield func(tableEntry) error) error) (*tempRun, error) {
	file, err := x.scratch()
	if err != nil {
		return nil, err
	}
	n, err := writeEntries(io.NewOffsetWriter(file, 0), fill)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &tempRun{sortedRun{file: file, entries: n}, file}, nil
}

// A tempRun is a sortedRun in a file that is gone when it is closed.
type tempRun struct {
	sortedRun
	io.Closer
}

const runBuffer = 256 << 10

// writeEntries writes what fill yields, and returns the number of entries.
func writeEntries(out io.Writer, fill func(yield func(tableEntry) error) error) (n int64, err error) {
	w := bufio.NewWriterSize(out, runBuffer)
	var b [entrySize]byte
	err = fill(func(e tableEntry) error {
		binary.LittleEndian.PutUint64(b[:], e.word)
		binary.LittleEndian.PutUint32(b[8:], e.what)
		binary.LittleEndian.PutUint32(b[12:], e.index)
		n++
		_, err := w.Write(b[:])
		return err
	})
	if err == nil {
		err = w.Flush()
	}
	return n, err
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

// An entryReader reads a run from its beginning. It adds numbers to those of shards and xorbs.
type entryReader struct {
	r             *bufio.Reader
	shards, xorbs uint32
	entry         tableEntry
	end           bool
}

func (r *sortedRun) reader() *entryReader {
	return &entryReader{r: bufio.NewReaderSize(io.NewSectionReader(r.file, r.off, r.entries*entrySize), runBuffer)}
}

func (r *entryReader) next() error {
	var b [entrySize]byte
	_, err := io.ReadFull(r.r, b[:])
	r.end = errors.Is(err, io.EOF)
	if err != nil && !r.end {
		return err
	}
	r.entry = decodeEntry(b[:])
	if r.entry.isFile() {
		r.entry.what += r.shards
	} else {
		r.entry.what += r.xorbs
	}
	return nil
}

const (
	entriesAtOnce = 256
	goodGuesses   = 4 // then halving, in case the words are not spread evenly
)

// find returns the location of a word. buf has room for entriesAtOnce.
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
		if _, err := r.file.ReadAt(b, r.off+first*entrySize); err != nil {
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
