package journal

import (
	"encoding/binary"
	"io"
	"slices"
)

// A Writer appends records. It is not safe for concurrent use.
type Writer struct {
	w   io.Writer
	end int64  // of the journal, in bytes
	err error  // of the first write that failed
	buf []byte // what one Append writes
}

// NewWriter continues a journal of size bytes that ends cleanly (0: a new one). The bytes for w must
// land at byte size. After a Clean tail, size is the size of the file, which may be a few zeros more
// than the end of Tail. After any other tail the file must be cut at that end first.
func NewWriter(w io.Writer, size int64) *Writer {
	return &Writer{w: w, end: size}
}

// Append writes one record, which may be empty, with a single Write. It returns the offset of the
// first header and the end of the journal.
//
// After an error the written part of the record is unknown, so the writer is dead. Every later call
// returns the same error and writes nothing.
func (w *Writer) Append(record []byte) (off, end int64, err error) {
	if w.err != nil {
		return 0, 0, w.err
	}
	room := blockSize - int(w.end%blockSize)
	w.buf = slices.Grow(w.buf[:0], mostEncoded(len(record)))
	if room < headerSize {
		w.buf = append(w.buf, trailer[:room]...)
		room = blockSize
	}
	off = w.end + int64(len(w.buf))
	w.buf = appendRecord(w.buf, record, room)

	n, err := w.w.Write(w.buf)
	if err == nil && n < len(w.buf) {
		err = io.ErrShortWrite
	}
	if err != nil {
		w.err = err
		return 0, 0, err
	}
	w.end += int64(n)
	return off, w.end, nil
}

// mostEncoded returns the maximal encoded size of a record of n bytes. It includes the trailer
// before it, a first part without payload, and a last part in its own block.
func mostEncoded(n int) int {
	return len(trailer) + n + (n/(blockSize-headerSize)+2)*headerSize
}

var trailer [headerSize - 1]byte

// appendRecord adds the fragments of a record to b. The first of them may take room
// bytes, header included; the others, a block each.
func appendRecord(b, record []byte, room int) []byte {
	for first := true; ; first = false {
		n := min(len(record), room-headerSize)
		last := n == len(record)
		b = appendFragment(b, kindOf(first, last), record[:n])
		if last {
			return b
		}
		record, room = record[n:], blockSize
	}
}

func appendFragment(b []byte, k kind, payload []byte) []byte {
	start := len(b)
	b = append(b, 0, 0, 0, 0, byte(len(payload)), byte(len(payload)>>8), byte(k))
	b = append(b, payload...)
	binary.LittleEndian.PutUint32(b[start:], checksum(b[start+typeOffset:]))
	return b
}

func kindOf(first, last bool) kind {
	switch {
	case first && last:
		return full
	case first:
		return firstPart
	case last:
		return lastPart
	}
	return middlePart
}
