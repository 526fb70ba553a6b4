package shard

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/xetfs/xetfs/codec"
)

const (
	// recordSize is the length of everything but tables and footer.
	recordSize = 48

	// BlockUnit divides the offset of each File Info block.
	BlockUnit = recordSize

	// scanBuffer is what a scan reads at once, lookupBuffer what a lookup does: most
	// blocks of files fit into it.
	scanBuffer   = 256 << 10
	lookupBuffer = 1 << 10
)

var le = binary.LittleEndian

// isBookend reports whether a record ends a section. Its hash alone decides, as no
// file and no xorb has that hash.
func isBookend(b []byte) bool {
	return le.Uint64(b) == math.MaxUint64 && le.Uint64(b[8:]) == math.MaxUint64 &&
		le.Uint64(b[16:]) == math.MaxUint64 && le.Uint64(b[24:]) == math.MaxUint64
}

func appendBookend(b []byte) []byte {
	for range 4 {
		b = le.AppendUint64(b, math.MaxUint64)
	}
	return append(b, make([]byte, recordSize-32)...)
}

// records hands out the bytes of a shard in order, from a few large reads.
type records struct {
	r    io.ReaderAt
	size bool // end is the end of the bytes; false: the end is not known

	buf    []byte
	lo, hi int   // buf[lo:hi] is read and not handed out
	off    int64 // of buf[lo] in the shard
	end    int64 // nothing behind it is handed out
}

// recordsAt hands out the bytes off ≤ i < end of r, which are known to exist.
func recordsAt(r io.ReaderAt, off, end int64, buffer int) *records {
	buffer = int(min(int64(buffer), max(end-off, recordSize)))
	return &records{r: r, size: true, buf: make([]byte, buffer), off: off, end: end}
}

// need returns the next n bytes, which are valid until the following call.
func (s *records) need(what string, n int) ([]byte, error) {
	if s.hi-s.lo < n {
		if err := s.fill(); err != nil {
			return nil, fmt.Errorf("%s at byte %d: %w", what, s.off, err)
		}
	}
	if got := s.hi - s.lo; got < n {
		return nil, codec.Corrupt(what, s.off, "ends after %d of %d bytes", got, n)
	}
	b := s.buf[s.lo : s.lo+n]
	s.lo += n
	s.off += int64(n)
	return b, nil
}

// batch returns the next records: at least one, at most n.
func (s *records) batch(what string, n uint32) ([]byte, error) {
	if s.hi-s.lo < recordSize {
		s.widen(int64(n) * recordSize)
		if _, err := s.need(what, recordSize); err != nil {
			return nil, err
		}
		s.lo -= recordSize
		s.off -= recordSize
	}
	size := int(min(int64(n), int64((s.hi-s.lo)/recordSize)) * recordSize)
	b := s.buf[s.lo : s.lo+size]
	s.lo += size
	s.off += int64(size)
	return b, nil
}

// widen makes room for reads of n bytes, up to the buffer of a scan. A lookup in a large block
// then needs few reads.
func (s *records) widen(n int64) {
	n = min(n, scanBuffer, s.end-s.off)
	if n <= int64(len(s.buf)) {
		return
	}
	buf := make([]byte, n)
	s.hi = copy(buf, s.buf[s.lo:s.hi])
	s.lo, s.buf = 0, buf
}

// skipTo makes off the next byte. It reads nothing.
func (s *records) skipTo(off int64) {
	if off > s.off {
		s.lo += int(min(int64(s.hi-s.lo), off-s.off))
		s.off = off
	}
}

// fill reads as much as the buffer holds. The end of the bytes is no error.
func (s *records) fill() error {
	s.hi = copy(s.buf, s.buf[s.lo:s.hi])
	s.lo = 0
	free := s.buf[s.hi:]
	at := s.off + int64(s.hi)
	if s.size {
		free = free[:max(0, min(int64(len(free)), s.end-at))]
	}
	if len(free) == 0 {
		return nil
	}
	n, err := s.r.ReadAt(free, at)
	s.hi += n
	if n == len(free) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// room refuses a block that says it has more records than there are bytes for.
func (s *records) room(what string, block int64, n uint64) error {
	left := s.end - s.off
	if left >= 0 && n <= uint64(left)/recordSize {
		return nil
	}
	return codec.Corrupt(what, block, "%s wanted, %s left in the section", plural(int64(n), "record"), plural(left, "byte"))
}

// claim returns how many of n records may be allocated at once. It is n if room has found their
// bytes, otherwise few, so that memory grows with the data.
func (s *records) claim(n uint32) int {
	if s.size {
		return int(n)
	}
	return int(min(n, 64))
}
