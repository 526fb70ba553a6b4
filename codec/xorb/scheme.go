package xorb

import (
	"sync"

	"github.com/xetfs/xetfs/codec"
)

// A Scheme is how one chunk is packed.
type Scheme uint8

// The schemes of the format. Other programs also have 99 for an automatic choice, which is
// never stored.
const (
	None             Scheme = iota // the chunk itself
	LZ4                            // one LZ4 frame
	ByteGrouping4LZ4               // one LZ4 frame of the chunk with every fourth byte side by side
)

// String returns the name of s that the reference uses in its settings.
func (s Scheme) String() string {
	switch s {
	case None:
		return "none"
	case LZ4:
		return "lz4"
	case ByteGrouping4LZ4:
		return "bg4-lz4"
	}
	return "unknown"
}

// A scratch has room for one chunk.
type scratch [codec.MaxChunkSize]byte

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// unpack decodes the packed bytes of one chunk into all of dst, and writes nothing
// behind it. Offsets in its errors count from the start of packed. len(dst) is the
// unpacked size of the header, so it is at most codec.MaxChunkSize.
func unpack(dst, packed []byte, s Scheme) error {
	switch s {
	case None:
		if len(packed) != len(dst) {
			return codec.Corrupt("chunk", 0, "%d bytes that are not packed unpack to %d", len(packed), len(dst))
		}
		copy(dst, packed)
		return nil
	case LZ4:
		return decodeFrame(dst, packed)
	case ByteGrouping4LZ4:
		grouped := scratches.Get().(*scratch)
		defer scratches.Put(grouped)
		if err := decodeFrame(grouped[:len(dst):len(dst)], packed); err != nil {
			return err
		}
		ungroup4(dst, grouped[:len(dst)])
		return nil
	}
	return codec.Corrupt("chunk", 0, "scheme %d is not known", uint8(s))
}

// A Packer packs single chunks, for callers with several cores or schemes. Its zero value is
// ready. Callers reuse it, because its tables are large. It is not safe for concurrent use.
type Packer struct{ lz4 compressor }

// Append adds a header and the packed chunk to b. It packs by s, or by None where s
// saves nothing. The chunk must have 1 to codec.MaxChunkSize bytes.
func (p *Packer) Append(b, chunk []byte, s Scheme) []byte {
	start := len(b)
	b = append(b, make([]byte, ChunkHeaderSize)...)
	switch s {
	case LZ4:
		copy(p.lz4.load(len(chunk)), chunk)
		b = appendFrame(b, &p.lz4)
	case ByteGrouping4LZ4:
		group4(p.lz4.load(len(chunk)), chunk)
		b = appendFrame(b, &p.lz4)
	}
	packed := len(b) - start - ChunkHeaderSize
	if packed == 0 || packed >= len(chunk) {
		s, packed = None, len(chunk)
		b = append(b[:start+ChunkHeaderSize], chunk...)
	}
	ChunkHeader{Scheme: s, Packed: packed, Unpacked: len(chunk)}.Append(b[:start])
	return b
}
