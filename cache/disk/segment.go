package disk

import (
	"fmt"
	"hash/crc32"
	"sync/atomic"

	"github.com/xetfs/xetfs/codec"
)

// A queue is one of the two rows in which segments wait to be evicted.
type queue uint8

const (
	probation queue = iota // what is new
	protected              // what was used again
	numQueues
)

// maxSegment is the longest segment: chunk.end has 29 bits.
const maxSegment = 1<<29 - 1

// A segment is a file of packed chunks and pages, back to back.
type segment struct {
	number uint32
	order  uint64 // place in its queue; the writer's alone
	queue  queue

	chunks []chunk // all that were written, in order; guarded by index.mu
	owners []owner // what they are, or were; guarded by index.mu
	live   int64   // bytes that can be found; guarded by index.mu

	size      atomic.Int64 // of the file
	redundant int64        // bytes of chunks that were marked as spare; the writer's alone
	dirty     bool         // written to since the last sync; the writer's alone
	open      atomic.Pointer[segmentFile]
	gone      atomic.Bool // evicted
	pinned    atomic.Bool // written to, so it stays open
	recent    atomic.Bool // read since the open files were looked over
}

// A chunk is one row in the table of a segment: where it ends, and what it must hold.
type chunk struct {
	endUses uint32 // end in the segment, times 4, plus how often it was used: 0 to 3; and redundantBit
	crc     uint32
}

const (
	maxUses      = 3
	redundantBit = 1 << 31 // it may go before others; then it has no uses
)

func (c *chunk) end() int64        { return int64(atomic.LoadUint32(&c.endUses) &^ redundantBit >> 2) }
func (c *chunk) uses() int         { return int(atomic.LoadUint32(&c.endUses) & maxUses) }
func (c *chunk) isRedundant() bool { return atomic.LoadUint32(&c.endUses)&redundantBit != 0 }

// touch counts one use more.
func (c *chunk) touch() {
	for {
		old := atomic.LoadUint32(&c.endUses)
		if old&maxUses == maxUses || atomic.CompareAndSwapUint32(&c.endUses, old, old&^redundantBit+1) {
			return
		}
	}
}

// markRedundant marks a chunk, and says whether that is news.
func (c *chunk) markRedundant() bool {
	for {
		old := atomic.LoadUint32(&c.endUses)
		if atomic.CompareAndSwapUint32(&c.endUses, old, old&^maxUses|redundantBit) {
			return old&redundantBit == 0
		}
	}
}

// decay counts one use less.
func (c *chunk) decay() {
	for {
		old := atomic.LoadUint32(&c.endUses)
		if old&maxUses == 0 || atomic.CompareAndSwapUint32(&c.endUses, old, old-1) {
			return
		}
	}
}

// An owner says what chunks of a segment are.
type owner struct {
	object uint32
	at     uint32 // place in segment.chunks
	first  uint16 // chunk of the object
	n      uint16
}

// offset returns where the chunk at a place of the table begins.
func (s *segment) offset(at uint32) int64 {
	if at == 0 {
		return 0
	}
	return s.chunks[at-1].end()
}

// bytes returns the length of n chunks from a place of the table on.
func (s *segment) bytes(at uint32, n int) int64 {
	return s.chunks[int(at)+n-1].end() - s.offset(at)
}

// end returns where the last chunk ends.
func (s *segment) end() int64 { return s.offset(uint32(len(s.chunks))) }

func (s *segment) name() string { return segmentName(s.number) }

func segmentName(number uint32) string { return fmt.Sprintf("seg/%08x", number) }

// A chunkInfo is one chunk that is about to be stored, or the row of a record about it.
type chunkInfo struct {
	size int // bytes
	uses uint8
	crc  uint32
}

// extend adds rows to the table of s, for chunks that follow at byte off, and returns
// the place of the first. Bytes before off that belong to nothing get a row of their own.
func (s *segment) extend(off int64, pieces []chunkInfo) (at uint32) {
	if off > s.end() {
		s.chunks = append(s.chunks, chunk{endUses: uint32(off) << 2})
	}
	at = uint32(len(s.chunks))
	for _, p := range pieces {
		off += int64(p.size)
		s.chunks = append(s.chunks, chunk{endUses: uint32(off)<<2 | uint32(p.uses), crc: p.crc})
	}
	return at
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seed returns the CRC-32C of what an object is, with which the checksums of its chunks
// begin.
func seed(k key) uint32 {
	var b [1 + len(codec.Hash{})]byte
	b[0] = byte(k.kind)
	copy(b[1:], k.hash[:])
	return crc32.Checksum(b[:], castagnoli)
}

// checksum returns the checksum of a chunk: the CRC-32C of its bytes, begun with what
// says which chunk of which object it is, so that the bytes of another do not match.
func checksum(seed, index uint32, b []byte) uint32 {
	return crc32.Update(seed+index*0x9e3779b9, castagnoli, b)
}
