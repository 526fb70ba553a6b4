package shard

import (
	"fmt"

	"github.com/xetfs/xetfs/codec"
)

const (
	flagDedup = 1 << 31 // in the record of a chunk

	inXorb = "CAS info block"
)

// XorbInfo is a CAS Info block: which chunks one xorb holds.
type XorbInfo struct {
	Xorb     codec.Hash
	Packed   uint32 // serialized size of the xorb; many writers leave it 0
	Unpacked uint32 // sum of the chunks' sizes
	Chunks   []Chunk
}

// A Chunk is one chunk of a xorb.
type Chunk struct {
	Hash  codec.Hash // keyed, and no good for checking, if Meta.Keyed
	Start uint32     // in the unpacked xorb
	Size  uint32     // unpacked bytes
	Dedup bool       // may be offered to other uploaders
}

// CheckTerm compares a term of this xorb with its chunks: they must exist, and
// have as many bytes as the term says. The error is an ErrCorrupt.
func (x *XorbInfo) CheckTerm(t codec.Term) error {
	if t.Chunks.Start >= t.Chunks.End || int64(t.Chunks.End) > int64(len(x.Chunks)) {
		return fmt.Errorf("%w: chunks %v of a xorb with %d chunks", codec.ErrCorrupt, t.Chunks, len(x.Chunks))
	}
	last := x.Chunks[t.Chunks.End-1]
	if size := last.Start + last.Size - x.Chunks[t.Chunks.Start].Start; size != t.Size {
		return fmt.Errorf("%w: chunks %v have %d bytes, the term says %d", codec.ErrCorrupt, t.Chunks, size, t.Size)
	}
	return nil
}

// A xorbHeader precedes the chunks of a xorb.
//
//	offset  size  field
//	     0    32  xorb hash
//	    32     4  flags, unused
//	    36     4  number of chunks
//	    40     4  unpacked size of the xorb
//	    44     4  packed size of the xorb, or 0
type xorbHeader struct {
	xorb             codec.Hash
	chunks           uint32
	unpacked, packed uint32
}

func (h xorbHeader) append(b []byte) []byte {
	b = append(b, h.xorb[:]...)
	b = le.AppendUint32(b, 0)
	b = le.AppendUint32(b, h.chunks)
	b = le.AppendUint32(b, h.unpacked)
	return le.AppendUint32(b, h.packed)
}

func decodeXorbHeader(b []byte) xorbHeader {
	return xorbHeader{
		xorb:     codec.Hash(b),
		chunks:   le.Uint32(b[36:]),
		unpacked: le.Uint32(b[40:]),
		packed:   le.Uint32(b[44:]),
	}
}

func xorbRecords(b []byte) uint64 { return uint64(le.Uint32(b[36:])) }

// append adds the record of one chunk to b.
//
//	offset  size  field
//	     0    32  chunk hash
//	    32     4  start in the unpacked xorb
//	    36     4  unpacked size
//	    40     4  flags: bit 31 may be offered to other uploaders
//	    44     4  unused
func (c Chunk) append(b []byte) []byte {
	var flags uint32
	if c.Dedup {
		flags = flagDedup
	}
	b = append(b, c.Hash[:]...)
	b = le.AppendUint32(b, c.Start)
	b = le.AppendUint32(b, c.Size)
	b = le.AppendUint32(b, flags)
	return le.AppendUint32(b, 0)
}

func decodeChunk(b []byte) Chunk {
	return Chunk{
		Hash:  codec.Hash(b),
		Start: le.Uint32(b[32:]),
		Size:  le.Uint32(b[36:]),
		Dedup: le.Uint32(b[40:])&flagDedup != 0,
	}
}

// badChunk says why c cannot be the chunk that begins at byte start, or nothing.
func badChunk(c Chunk, start uint32) string {
	switch {
	case c.Start != start:
		return fmt.Sprintf("begins at byte %d, the chunk before it ends at %d", c.Start, start)
	case c.Size == 0 || c.Size > codec.MaxChunkSize:
		return fmt.Sprintf("size %d is out of range", c.Size)
	}
	return ""
}

// badXorb returns why a xorb cannot have this number of chunks, or "". The bound keeps sums of
// chunk sizes below 2^32.
func badXorb(chunks uint32) string {
	switch {
	case chunks == 0:
		return "a xorb without chunks"
	case chunks > codec.MaxXorbChunks:
		return fmt.Sprintf("%d chunks are more than a xorb has", chunks)
	}
	return ""
}

// readXorb reads the block whose header s has just handed out; room must have
// found it to fit. It fills x, unless x is nil.
func readXorb(s *records, h xorbHeader, x *XorbInfo) error {
	block := s.off - recordSize
	if reason := badXorb(h.chunks); reason != "" {
		return codec.Corrupt(inXorb, block, "%s", reason)
	}
	if x != nil {
		*x = XorbInfo{Xorb: h.xorb, Packed: h.packed, Unpacked: h.unpacked}
		x.Chunks = make([]Chunk, 0, s.claim(h.chunks))
	}
	var end uint32
	for i := uint32(0); i < h.chunks; {
		b, err := s.batch(inXorb, h.chunks-i)
		if err != nil {
			return err
		}
		for ; len(b) > 0; b = b[recordSize:] {
			c := decodeChunk(b)
			if reason := badChunk(c, end); reason != "" {
				return codec.Corrupt(inXorb, block, "chunk %d: %s", i, reason)
			}
			end += c.Size
			i++
			if x != nil {
				x.Chunks = append(x.Chunks, c)
			}
		}
	}
	if end != h.unpacked {
		return codec.Corrupt(inXorb, block, "the chunks have %d bytes, the header says %d", end, h.unpacked)
	}
	return nil
}
