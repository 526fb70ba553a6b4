package codec

import (
	"iter"
	"math/bits"
)

// A ChunkSet is a set of chunks of one xorb. It takes 1 KiB. The zero ChunkSet is empty.
type ChunkSet struct {
	bits [MaxXorbChunks / 64]uint64
}

// Add adds the chunks of r. None of them may be at MaxXorbChunks or beyond.
func (s *ChunkSet) Add(r ChunkRange) {
	for i, mask := range words(r) {
		s.bits[i] |= mask
	}
}

// Remove removes the chunks of r. None of them may be at MaxXorbChunks or beyond.
func (s *ChunkSet) Remove(r ChunkRange) {
	for i, mask := range words(r) {
		s.bits[i] &^= mask
	}
}

// words yields the index of each word with chunks of r, and the bits of these chunks.
func words(r ChunkRange) iter.Seq2[uint32, uint64] {
	return func(yield func(uint32, uint64) bool) {
		for at := r.Start; at < r.End; {
			i := at / 64
			end := min(r.End, 64*(i+1))
			if mask := uint64(1)<<(end-at) - 1; !yield(i, mask<<(at%64)) {
				return
			}
			at = end
		}
	}
}

// Count returns how many chunks of r are in s.
func (s *ChunkSet) Count(r ChunkRange) (n int) {
	for i, mask := range words(r) {
		n += bits.OnesCount64(s.bits[i] & mask)
	}
	return n
}

// IsEmpty reports whether s has no chunks.
func (s *ChunkSet) IsEmpty() bool { return s.next(0) == MaxXorbChunks }

// Ranges yields the chunks of s as ranges of at most max chunks, in order. A range includes up
// to gap chunks that are not in s between two that are: one request is cheaper than two. The
// first and the last chunk of a range are in s. The set may change while it is ranged over.
func (s *ChunkSet) Ranges(gap, max uint32) iter.Seq[ChunkRange] {
	return func(yield func(ChunkRange) bool) {
		for start := s.next(0); start < MaxXorbChunks; {
			end, next := start, start
			for next-end <= gap && next-start < max && next < MaxXorbChunks {
				end = next + 1
				next = s.next(end)
			}
			if !yield(ChunkRange{Start: start, End: end}) {
				return
			}
			start = next
		}
	}
}

// next returns the first chunk of s from i on, or MaxXorbChunks.
func (s *ChunkSet) next(i uint32) uint32 {
	for i < MaxXorbChunks {
		if word := s.bits[i/64] >> (i % 64); word != 0 {
			return i + uint32(bits.TrailingZeros64(word))
		}
		i = (i/64 + 1) * 64
	}
	return MaxXorbChunks
}
