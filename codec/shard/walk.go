package shard

import (
	"errors"
	"fmt"
	"io"

	"github.com/xetfs/xetfs/codec"
)

// A walk goes from block to block of one section, whether their contents are read
// in between or not.
type walk struct {
	s       *records
	what    string                // inFile or inXorb
	records func(b []byte) uint64 // behind the header in b
	end     int64                 // where the section must end; 0: not known

	off  int64 // of the block
	head [recordSize]byte
	next int64 // end of the block
	err  error // why the walk ended before the bookend
}

func walkFiles(s *records, end int64) *walk {
	return &walk{s: s, what: inFile, records: fileRecords, end: end, next: s.off}
}

func walkXorbs(s *records, end int64) *walk {
	return &walk{s: s, what: inXorb, records: xorbRecords, end: end, next: s.off}
}

// block goes to the next block and reads its header. It returns false at the bookend
// and where the rest of the section cannot be found, with w.err.
func (w *walk) block() bool {
	w.s.skipTo(w.next)
	w.off = w.next
	b, err := w.s.need(w.what, recordSize)
	if errors.Is(err, codec.ErrCorrupt) {
		err = codec.Corrupt(w.what, w.off, "the section ends without a bookend")
	}
	if err != nil {
		w.err = err
		return false
	}
	if isBookend(b) {
		w.err = w.bookend(b)
		return false
	}
	w.head = [recordSize]byte(b)
	n := w.records(b)
	if w.err = w.s.room(w.what, w.off, n); w.err != nil {
		return false
	}
	w.next = w.off + recordSize + int64(n)*recordSize
	return true
}

// bookend checks the end of the section. A misplaced bookend would hide the blocks behind it.
// Its tail must therefore be zero, although the format's own implementation ignores it. A
// record with counts in its tail is a damaged header, and no writer makes one.
func (w *walk) bookend(b []byte) error {
	if le.Uint64(b[32:]) != 0 || le.Uint64(b[40:]) != 0 {
		return codec.Corrupt(w.what, w.off, "bookend does not end in zeros")
	}
	if w.end != 0 && w.s.off != w.end {
		return codec.Corrupt(w.what, w.off, "bookend ends the section at byte %d, the footer says %d", w.s.off, w.end)
	}
	return nil
}

// A fileWalk reads the contents of blocks too.
type fileWalk struct {
	*walk
	seen, verify bool // a block with terms was read; it had verification hashes
}

// read reads the present block into f, or checks it only if f is nil. After an
// ErrCorrupt the walk can go on with the next block.
func (w *fileWalk) read(f *FileInfo) (FileHead, error) {
	h := decodeFileHeader(w.head[:])
	head, err := readFile(w.s, h, f)
	if err != nil || h.terms == 0 {
		return head, err
	}
	if w.seen && w.verify != h.verify() {
		return FileHead{}, codec.Corrupt(inFile, w.off, "some files of the shard have verification hashes and some have none")
	}
	w.seen, w.verify = true, h.verify()
	return head, nil
}

// places returns where the blocks of a section begin, in the order of the shard.
func (w *walk) places() ([]place, error) {
	var p []place
	for w.block() {
		p = append(p, place{key: le.Uint64(w.head[:]), off: w.off})
	}
	return p, w.err
}

// sections finds the two sections of a shard without footer and returns where the
// second begins and ends.
func sections(r io.ReaderAt, size int64) (xorbs, end int64, err error) {
	s := recordsAt(r, recordSize, size, scanBuffer)
	for _, w := range []func(*records, int64) *walk{walkFiles, walkXorbs} {
		section := w(s, 0)
		for section.block() {
		}
		if section.err != nil {
			return 0, 0, section.err
		}
		xorbs, end = end, s.off
	}
	return xorbs, end, nil
}

// trailing is the error about bytes behind the last bookend of a shard without footer.
func trailing(end, size int64) error {
	return codec.Corrupt("shard", end, "%s behind the last bookend, and no footer among them", plural(size-end, "byte"))
}

func plural(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
