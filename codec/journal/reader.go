package journal

import (
	"errors"
	"io"
)

// A Mode is how far a Reader reads.
type Mode uint8

const (
	Prefix Mode = iota // up to the first record that is not whole: recovery
	Resync             // everything that can still be read: tools
)

// A Why says for what reason bytes were dropped.
type Why string

const (
	BadLength   Why = "length"      // a fragment runs over the end of its block; the rest of the block is lost
	BadChecksum Why = "checksum"    // a fragment does not match its checksum; the rest of the block is lost
	BadType     Why = "type"        // a fragment is of a type that no Writer writes
	Orphan      Why = "orphan"      // a middle or last part follows no first one
	Unfinished  Why = "unfinished"  // another record begins inside a record
	Interrupted Why = "interrupted" // a record leads into bytes that are lost or were never written
	TooLong     Why = "limit"       // a record is longer than MaxRecord
	ReadError   Why = "io"          // a block could not be read; nothing behind it is
)

const defaultMaxRecord = 16 << 20

// Options say how a Reader reads. The zero value is for recovery.
type Options struct {
	Mode      Mode
	MaxRecord int // longest record in bytes, and the most a Reader allocates for one; 0: 16 MiB

	// OnDrop is called in Resync mode for each gap. off is the start of the gap. bytes counts whole
	// fragments and the bytes behind them for BadLength and BadChecksum, and a block for ReadError.
	// For all others it counts payload, and may be 0.
	OnDrop func(off, bytes int64, why Why)

	// Start makes a Reader in Resync mode begin with the first record at or behind this offset.
	// Bytes before it are not reported as dropped.
	Start int64

	// Unchecked makes a Reader in Resync mode return fragments with wrong checksums. The
	// records are for display only.
	Unchecked bool
}

// A Reader reads records back. It needs memory for one block and one record, however
// long the journal is. It is not safe for concurrent use.
type Reader struct {
	scan scanner
	o    Options

	open  bool   // a first part was read, and no last part yet
	part  []byte // the payloads since then
	start int64  // offset of that first part
	quiet bool   // in the middle of a record that began before o.Start

	trouble Why   // what was wrong first; "" so far nothing
	end     int64 // behind the last record returned
	tail    Tail
	err     error // of all further calls of Next
}

// NewReader returns a Reader of the journal r, which must stand at its first byte. It
// asks r for 32 KiB at a time.
func NewReader(r io.Reader, o Options) *Reader {
	if o.MaxRecord <= 0 {
		o.MaxRecord = defaultMaxRecord
	}
	if o.Mode == Prefix {
		o.Start, o.Unchecked, o.OnDrop = 0, false, nil
	}
	skip := o.Start - o.Start%blockSize
	return &Reader{scan: scanner{r: r, skip: skip, unchecked: o.Unchecked}, o: o, quiet: o.Start > 0}
}

// Next returns the next record and the offset of its first header; the record is valid
// until the following call. At the end, torn or not, the error is io.EOF. Any other error is that
// of the underlying reader and proves nothing about the journal. It must never lead to truncation,
// since records may follow. In Resync mode such an error is a drop, and the end.
//
// After an error, Next returns the same error again.
func (r *Reader) Next() (record []byte, off int64, err error) {
	if r.err != nil {
		return nil, 0, r.err
	}
	record, off, err = r.read()
	recovering := r.o.Mode == Prefix
	if err == nil && !(recovering && r.trouble != "") {
		r.end = r.scan.offset()
		return record, off, nil
	}
	if recovering && (err == nil || errors.Is(err, io.EOF)) {
		r.tail = r.tailBehind(err == nil)
		err = io.EOF
	}
	r.err = err
	return nil, 0, err
}

// Tail returns, after io.EOF in Prefix mode, the end of the good part and the class of the rest. The
// end is the end of the last record, or 0 without a record.
func (r *Reader) Tail() (end int64, t Tail) { return r.end, r.tail }

// read returns the next whole record, past whatever is wrong before it. The first thing
// that is wrong stays in r.trouble. Recovery reads on behind it, too, to learn whether
// good records were cut off from the others.
func (r *Reader) read() (record []byte, off int64, err error) {
	for {
		found := r.scan.next()
		if found != end && found != failed && r.beforeStart(found) {
			continue
		}
		switch found {
		case good:
			if record, off, ok := r.take(); ok {
				return record, off, nil
			}
		case zero:
			r.interrupt()
		case bad:
			r.drop(r.scan.off, r.scan.lost, r.scan.why)
			if r.open {
				r.interrupt()
			}
		case failed:
			return nil, 0, r.fail()
		case end:
			return nil, 0, io.EOF
		}
	}
}

// beforeStart reports whether a finding belongs to a record that began before Start.
func (r *Reader) beforeStart(found finding) bool {
	if r.scan.off < r.o.Start {
		return true
	}
	if !r.quiet {
		return false
	}
	inside := found == good && (r.scan.kind == middlePart || r.scan.kind == lastPart)
	r.quiet = inside && r.scan.kind == middlePart
	return inside
}

// take adds a good fragment to what was read and returns the record that it completes.
func (r *Reader) take() (record []byte, off int64, ok bool) {
	s := &r.scan
	switch s.kind {
	case full:
		r.begin()
		if len(s.payload) > r.o.MaxRecord {
			r.drop(s.off, len(s.payload), TooLong)
			return nil, 0, false
		}
		return s.payload, s.off, true
	case firstPart:
		r.begin()
		r.open, r.part, r.start = true, r.part[:0], s.off
		r.gather()
	case middlePart, lastPart:
		if !r.open {
			r.drop(s.off, len(s.payload), Orphan)
			return nil, 0, false
		}
		if r.gather() && s.kind == lastPart {
			r.open = false
			return r.part, r.start, true
		}
	default:
		r.abandon(len(s.payload), BadType)
	}
	return nil, 0, false
}

// begin gives up a record that another one follows before its end. An empty first part
// is none: old writers left it where 7 bytes were left in a block.
func (r *Reader) begin() {
	if r.open && len(r.part) > 0 {
		r.abandon(0, Unfinished)
	}
	r.open = false
}

// gather adds a payload to the record that is open, if that does not become too long.
func (r *Reader) gather() bool {
	payload := r.scan.payload
	n := len(r.part) + len(payload)
	if n > r.o.MaxRecord {
		r.abandon(len(payload), TooLong)
		return false
	}
	if n > cap(r.part) {
		grown := make([]byte, len(r.part), min(max(n, 2*cap(r.part)), r.o.MaxRecord))
		copy(grown, r.part)
		r.part = grown
	}
	r.part = append(r.part, payload...)
	return true
}

// interrupt ends a record that leads into space never written or into lost bytes.
func (r *Reader) interrupt() {
	if r.open {
		r.abandon(0, Interrupted)
	}
	if r.trouble == "" {
		r.trouble = Interrupted
	}
}

// abandon drops what was gathered of a record, if one is open, and more bytes.
func (r *Reader) abandon(more int, why Why) {
	off := r.scan.off
	if r.open {
		off, more = r.start, more+len(r.part)
	}
	r.open = false
	r.drop(off, more, why)
}

func (r *Reader) drop(off int64, bytes int, why Why) {
	if r.trouble == "" {
		r.trouble = why
	}
	if r.o.OnDrop != nil {
		r.o.OnDrop(off, int64(bytes), why)
	}
}

// fail ends reading after an error of the underlying reader. Recovery must know of it.
func (r *Reader) fail() error {
	if r.o.Mode == Prefix {
		return r.scan.err
	}
	r.drop(r.scan.base, blockSize, ReadError)
	return io.EOF
}
