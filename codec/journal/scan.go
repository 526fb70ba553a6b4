package journal

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math/bits"
)

const (
	blockSize  = 32 << 10
	headerSize = 7
	typeOffset = 6 // in the header; the checksum covers what begins here
)

// A kind is the type of a fragment: which part of a record it holds. Others than these
// are of a future or a foreign writer.
type kind byte

const (
	unwritten  kind = iota // with length 0: what a file looks like where nothing was written
	full                   // a whole record
	firstPart              // its beginning
	middlePart             // a part between
	lastPart               // its end
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum returns the masked CRC-32C of the type and payload of a fragment.
func checksum(b []byte) uint32 { return mask(crc32.Checksum(b, castagnoli)) }

func mask(crc uint32) uint32 { return bits.RotateLeft32(crc, -15) + 0xa282ead8 }

// A finding is what a scanner found at one place of a journal.
type finding uint8

const (
	good   finding = iota // a fragment that matches its checksum, of whatever kind
	zero                  // space never written, up to the end of the block
	bad                   // bytes to give up, up to the end of the block
	end                   // of the journal, or a fragment that the end cut off
	failed                // the underlying reader returned an error
)

// A scanner walks over the fragments of a journal. It does not know what a record is.
type scanner struct {
	r         io.Reader
	skip      int64 // bytes to pass over before the first block
	unchecked bool  // take fragments whatever their checksums are

	buf     [blockSize]byte
	n       int   // bytes of buf that are the block
	pos     int   // of the next fragment in the block
	base    int64 // offset of the block
	short   bool  // the block ends with the journal
	nonzero int64 // end of the last byte read that is not zero

	// The last finding:
	off     int64 // where it begins
	kind    kind
	payload []byte // valid until the following call
	lost    int    // bytes given up, if it is bad
	why     Why    // they were, if it is bad
	err     error  // if it is failed
}

// next classifies the bytes at the scanner's position and moves behind them. The order of the checks
// is part of the format. It separates a damaged fragment from one that the end of the journal cut
// off.
func (s *scanner) next() finding {
	for s.n-s.pos < headerSize {
		if s.short {
			return end
		}
		if s.err = s.load(); s.err != nil {
			return failed
		}
	}
	s.off = s.offset()
	rest := s.buf[s.pos:s.n]
	size := headerSize + int(binary.LittleEndian.Uint16(rest[4:]))
	s.kind = kind(rest[typeOffset])
	switch {
	case size > len(rest) && s.short:
		s.pos = s.n
		return end
	case size > len(rest):
		return s.giveUp(BadLength)
	case s.kind == unwritten && size == headerSize:
		s.pos = s.n
		return zero
	case !s.unchecked && binary.LittleEndian.Uint32(rest) != checksum(rest[typeOffset:size]):
		return s.giveUp(BadChecksum)
	}
	s.pos += size
	s.payload = rest[headerSize:size]
	return good
}

// giveUp passes over the rest of the block, because the length that would lead to the
// next fragment may be what is damaged.
func (s *scanner) giveUp(why Why) finding {
	s.lost, s.why = s.n-s.pos, why
	s.pos = s.n
	return bad
}

// offset returns the offset of the scanner's position in the journal. At the end it is
// the size of the journal.
func (s *scanner) offset() int64 { return s.base + int64(s.pos) }

// load reads the next block. Only io.EOF makes a block short: every other error of the
// reader says that bytes may be there which could not be read.
func (s *scanner) load() error {
	s.base += int64(s.n)
	s.n, s.pos = 0, 0
	if s.skip > 0 {
		n, err := io.CopyN(io.Discard, s.r, s.skip)
		s.base, s.skip = n, 0
		if err != nil {
			return s.stop(err)
		}
	}
	for s.n < blockSize {
		n, err := s.r.Read(s.buf[s.n:])
		s.n += n
		if err != nil && s.n < blockSize {
			return s.stop(err)
		}
	}
	s.note()
	return nil
}

// stop ends the last block where the reader did.
func (s *scanner) stop(err error) error {
	s.short = true
	if !errors.Is(err, io.EOF) {
		s.n = 0
		return err
	}
	s.note()
	return nil
}

// note stores the offset of the last byte of the block that is not zero. In a block full of records
// it finds that byte at once.
func (s *scanner) note() {
	for i := s.n; i > 0; i-- {
		if s.buf[i-1] != 0 {
			s.nonzero = s.base + int64(i)
			return
		}
	}
}
