package index

import (
	"fmt"
	"hash/crc32"
	"sync/atomic"

	"github.com/xetfs/xetfs/codec"
)

// MaxSegment is the largest size of a segment: ends of chunks have 29 bits.
const MaxSegment = 1<<29 - 1

// A Segment is a file of packed chunks and pages, back to back.
type Segment struct {
	Number uint32
	Queue  Queue

	order  uint64  // place in its queue; Policy alone uses it
	chunks []chunk // all that were written, in order; guarded by Index.mu
	owners []owner // their objects, also former ones; guarded by Index.mu
	live   int64   // bytes that can be found; guarded by Index.mu

	redundant int64 // bytes of redundant chunks at the last recount, or marked since; the writer alone uses it

	Size   atomic.Int64 // of the file
	Dirty  bool         // written since the last sync; the writer alone uses it
	Open   atomic.Value // the open file, stored for the package that does the I/O
	Gone   atomic.Bool  // evicted
	Pinned atomic.Bool  // being written, so its file stays open
	Recent atomic.Bool  // read since the last pass over the open files
}

// Name returns the path of the segment in the cache folder.
func (s *Segment) Name() string { return SegmentName(s.Number) }

// SegmentName returns the path of a segment in the cache folder.
func SegmentName(number uint32) string { return fmt.Sprintf("seg/%08x", number) }

// A chunk is one row in the table of a segment: its end and its checksum.
type chunk struct {
	endUses uint32 // end in the segment, times 4, plus the uses: 0 to 3; and redundantBit
	crc     uint32
}

// MaxUses is the largest number of uses that is counted.
const MaxUses = 3

const redundantBit = 1 << 31 // evicted before others; such a chunk has no uses

func (c *chunk) end() int64        { return int64(atomic.LoadUint32(&c.endUses) &^ redundantBit >> 2) }
func (c *chunk) uses() int         { return int(atomic.LoadUint32(&c.endUses) & MaxUses) }
func (c *chunk) isRedundant() bool { return atomic.LoadUint32(&c.endUses)&redundantBit != 0 }

// touch counts one more use.
func (c *chunk) touch() {
	for {
		old := atomic.LoadUint32(&c.endUses)
		if old&MaxUses == MaxUses || atomic.CompareAndSwapUint32(&c.endUses, old, old&^redundantBit+1) {
			return
		}
	}
}

// markRedundant marks a chunk and reports whether the mark is new.
func (c *chunk) markRedundant() bool {
	for {
		old := atomic.LoadUint32(&c.endUses)
		if atomic.CompareAndSwapUint32(&c.endUses, old, old&^MaxUses|redundantBit) {
			return old&redundantBit == 0
		}
	}
}

// decay counts one use less.
func (c *chunk) decay() {
	for {
		old := atomic.LoadUint32(&c.endUses)
		if old&MaxUses == 0 || atomic.CompareAndSwapUint32(&c.endUses, old, old-1) {
			return
		}
	}
}

// An owner names the object of consecutive chunks of a segment.
type owner struct {
	object uint32
	at     uint32 // position in Segment.chunks
	first  uint16 // chunk of the object
	n      uint16
}

// offset returns the start of the chunk at a position of the table.
func (s *Segment) offset(at uint32) int64 {
	if at == 0 {
		return 0
	}
	return s.chunks[at-1].end()
}

// bytes returns the length of n chunks from a position of the table on.
func (s *Segment) bytes(at uint32, n int) int64 {
	return s.chunks[int(at)+n-1].end() - s.offset(at)
}

// End returns the end of the last chunk.
func (s *Segment) End() int64 { return s.offset(uint32(len(s.chunks))) }

// A ChunkInfo is one chunk that is about to be stored, or the row of a record about it.
type ChunkInfo struct {
	Size int // bytes
	Uses uint8
	CRC  uint32
}

// TotalSize returns the bytes of all chunks.
func TotalSize(infos []ChunkInfo) (n int) {
	for _, p := range infos {
		n += p.Size
	}
	return n
}

// extend adds rows to the table of s for chunks at offset off and behind, and returns the
// position of the first. Bytes before off without a chunk get a row of their own.
func (s *Segment) extend(off int64, infos []ChunkInfo) (at uint32) {
	if off > s.End() {
		s.chunks = append(s.chunks, chunk{endUses: uint32(off) << 2})
	}
	at = uint32(len(s.chunks))
	for _, p := range infos {
		off += int64(p.Size)
		s.chunks = append(s.chunks, chunk{endUses: uint32(off)<<2 | uint32(p.Uses), crc: p.CRC})
	}
	return at
}

// AppendInfos appends n rows of the table of s from position at on. The caller holds the lock
// of the index, for reading.
func (s *Segment) AppendInfos(infos []ChunkInfo, at uint32, n int) []ChunkInfo {
	off := s.offset(at)
	for i := range n {
		c := &s.chunks[int(at)+i]
		infos = append(infos, ChunkInfo{Size: int(c.end() - off), Uses: uint8(c.uses()), CRC: c.crc})
		off = c.end()
	}
	return infos
}

// CRCTable is the table of CRC-32C, the checksum of chunks and whole files.
var CRCTable = crc32.MakeTable(crc32.Castagnoli)

// Seed returns the CRC-32C of a key. The checksums of its chunks begin with the seed.
func Seed(k Key) uint32 {
	var b [1 + len(codec.Hash{})]byte
	b[0] = byte(k.Kind)
	copy(b[1:], k.Hash[:])
	return crc32.Checksum(b[:], CRCTable)
}

// Checksum returns the checksum of a chunk: the CRC-32C of its bytes, started with the seed of
// its object and its index. The bytes of another chunk therefore do not match.
func Checksum(seed, index uint32, b []byte) uint32 {
	return crc32.Update(seed+index*0x9e3779b9, CRCTable, b)
}
