package codectest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
)

// Put returns a copy of b with v at byte off. A negative off counts from the end.
func Put(b []byte, off int, v ...byte) []byte {
	if off < 0 {
		off += len(b)
	}
	b = bytes.Clone(b)
	if copy(b[off:], v) != len(v) {
		panic(fmt.Sprintf("%d bytes at %d do not fit in %d", len(v), off, len(b)))
	}
	return b
}

// Put32 returns a copy of b with the little-endian v at byte off. A negative off counts
// from the end.
func Put32(b []byte, off int, v uint32) []byte {
	return Put(b, off, binary.LittleEndian.AppendUint32(nil, v)...)
}

// Put64 is Put32 for 64 bits.
func Put64(b []byte, off int, v uint64) []byte {
	return Put(b, off, binary.LittleEndian.AppendUint64(nil, v)...)
}

// Flip returns a copy of b with one bit inverted; bit 0 is the lowest of byte 0.
func Flip(b []byte, bit int) []byte {
	b = bytes.Clone(b)
	b[bit/8] ^= 1 << (bit % 8)
	return b
}

// Mutate returns damaged copies of b with a name for each. The damage is an inverted bit, a
// zeroed or filled byte or aligned word, a proper prefix, or an added byte. Copies equal to b
// are absent.
func Mutate(b []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		try := func(damaged []byte, format string, args ...any) bool {
			return bytes.Equal(damaged, b) || yield(fmt.Sprintf(format, args...), damaged)
		}
		for bit := range 8 * len(b) {
			if !try(Flip(b, bit), "bit %d of byte %d inverted", bit%8, bit/8) {
				return
			}
		}
		for _, fill := range []byte{0, 0xff} {
			for off := range b {
				if !try(Put(b, off, fill), "byte %d is %02x", off, fill) {
					return
				}
			}
			for off := 0; off+4 <= len(b); off += 4 {
				if !try(Put(b, off, fill, fill, fill, fill), "bytes %d to %d are %02x", off, off+3, fill) {
					return
				}
			}
		}
		for n := range b {
			if !try(bytes.Clone(b[:n]), "cut to %d bytes", n) {
				return
			}
		}
		try(append(bytes.Clone(b), 0), "a zero byte more")
	}
}
