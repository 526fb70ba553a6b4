package xorb

import (
	"github.com/xetfs/xetfs/codec"
)

// ChunkHeaderSize is the length of an encoded ChunkHeader.
const ChunkHeaderSize = 8

// maxPackedSize leaves room for a chunk that grew when it was packed: writers
// exist that keep such a chunk instead of storing it unpacked.
const maxPackedSize = 2 * codec.MaxChunkSize

// A ChunkHeader precedes every packed chunk of a xorb.
//
//	offset  size  field
//	     0     1  version, always 0
//	     1     3  packed size, little-endian
//	     4     1  scheme
//	     5     3  unpacked size, little-endian
type ChunkHeader struct {
	Scheme   Scheme
	Packed   int // bytes that follow the header
	Unpacked int // bytes they decode to
}

// Append adds the encoding of h to b. The sizes must fit their three bytes, which
// those of every chunk of legal size do.
func (h ChunkHeader) Append(b []byte) []byte {
	b = append(b, 0)
	b = appendUint24(b, h.Packed)
	b = append(b, byte(h.Scheme))
	return appendUint24(b, h.Unpacked)
}

// DecodeChunkHeader decodes the header at the start of b. Offsets in its errors count
// from there.
func DecodeChunkHeader(b []byte) (ChunkHeader, error) { return decodeChunkHeader(b, 0) }

// decodeChunkHeader is DecodeChunkHeader for a header at byte off of a larger object.
func decodeChunkHeader(b []byte, off int64) (ChunkHeader, error) {
	if len(b) < ChunkHeaderSize {
		return ChunkHeader{}, badHeader(off+int64(len(b)), "ends after %d of %d bytes", len(b), ChunkHeaderSize)
	}
	h := ChunkHeader{
		Packed:   uint24(b[1:]),
		Scheme:   Scheme(b[4]),
		Unpacked: uint24(b[5:]),
	}
	switch {
	case b[0] != 0:
		return ChunkHeader{}, badHeader(off, "version %d is not known", b[0])
	case h.Packed == 0 || h.Packed > maxPackedSize:
		return ChunkHeader{}, badHeader(off+1, "packed size %d is out of range", h.Packed)
	case h.Scheme > ByteGrouping4LZ4:
		return ChunkHeader{}, badHeader(off+4, "scheme %d is not known", uint8(h.Scheme))
	case h.Unpacked == 0 || h.Unpacked > codec.MaxChunkSize:
		return ChunkHeader{}, badHeader(off+5, "unpacked size %d is out of range", h.Unpacked)
	case h.Scheme == None && h.Packed != h.Unpacked:
		return ChunkHeader{}, badHeader(off+5, "%d bytes that are not packed unpack to %d", h.Packed, h.Unpacked)
	}
	return h, nil
}

func badHeader(off int64, format string, args ...any) error {
	return codec.Corrupt("chunk header", off, format, args...)
}

func uint24(b []byte) int { return int(b[0]) | int(b[1])<<8 | int(b[2])<<16 }

func appendUint24(b []byte, n int) []byte {
	return append(b, byte(n), byte(n>>8), byte(n>>16))
}
