package xorb

import (
	"encoding/binary"
	"math/bits"
)

// A compressor makes LZ4 blocks. The format leaves open which matches a compressor finds;
// this one looks where that of the reference looks, and so makes the same bytes, and
// leaves the same chunks unpacked. Its zero value is ready.
//
// A block is a row of sequences, the last one without match:
//
//	token         4 bits length of the literals, 4 bits length of the match less 4
//	length        if it is 15: bytes to add to it, the last of them not 255
//	literals
//	2 bytes       how far back the match is, little-endian
//	length        as above, of the match
type compressor struct {
	seen [1 << hashBits]uint32 // by their hash, where five bytes stood last
}

const (
	hashBits     = 12
	minMatch     = 4
	matchMargin  = 12 // no match begins so near to the end
	literalTail  = 6  // bytes at the end that no match reaches
	maxDistance  = 1<<16 - 1
	patience     = 32 // tries without success before the search takes longer steps
	wildLiterals = 16 // short literals are copied by so many bytes at once
	lengthInByte = 15 // from here on a length needs bytes of its own
)

// hash is that of the five bytes that a little-endian word begins with.
func (c *compressor) hash(word uint64) uint32 {
	const prime = 889523592379
	return uint32(word << 24 * prime >> (64 - hashBits) & (1<<hashBits - 1))
}

// compress compresses src into dst, and returns how many bytes it made. That is 0 if
// they are more than len(dst)-wildLiterals.
func (c *compressor) compress(dst, src []byte) int {
	room := len(dst) - wildLiterals
	n, literals := 0, 0
	if len(src) > matchMargin {
		clear(c.seen[:])
		for cur := 1; ; {
			start, from := c.find(src, cur)
			if start < 0 {
				break
			}
			distance := start - from
			for start > literals && start > distance && src[start-1] == src[start-distance-1] {
				start--
			}
			cur = matchEnd(src, start+minMatch, distance)
			c.seen[c.hash(binary.LittleEndian.Uint64(src[cur-2:]))] = uint32(cur - 2)
			size := cur - start - minMatch
			if n+3+start-literals+lengthBytes(start-literals)+lengthBytes(size) > room {
				return 0
			}
			n += putSequence(dst[n:], src[literals:], start-literals, distance, size)
			literals = cur
		}
	}
	last := len(src) - literals
	if n+1+last+lengthBytes(last) > room {
		return 0
	}
	return n + putLiterals(dst[n:], src[literals:], last)
}

// find returns where the next match begins, from cur on, and which place before it has
// the same bytes; or -1.
func (c *compressor) find(src []byte, cur int) (start, from int) {
	end := len(src) - matchMargin
	next := cur
	for tries := patience; ; tries++ {
		cur = next
		next += tries / patience
		if cur > end {
			return -1, 0
		}
		word := binary.LittleEndian.Uint64(src[cur:])
		h := c.hash(word)
		from := int(c.seen[h])
		c.seen[h] = uint32(cur)
		if binary.LittleEndian.Uint32(src[from:]) == uint32(word) && cur-from <= maxDistance {
			return cur, from
		}
	}
}

// matchEnd returns where the bytes from cur on end to be those so far before them.
func matchEnd(src []byte, cur, distance int) int {
	end := len(src) - literalTail
	for ; end-cur >= 8; cur += 8 {
		differ := binary.LittleEndian.Uint64(src[cur:]) ^ binary.LittleEndian.Uint64(src[cur-distance:])
		if differ != 0 {
			return cur + bits.TrailingZeros64(differ)/8
		}
	}
	for cur < end && src[cur] == src[cur-distance] {
		cur++
	}
	return cur
}

// putSequence writes one sequence, whose literals begin src.
func putSequence(dst, src []byte, literals, distance, match int) int {
	n := putLiterals(dst, src, literals)
	binary.LittleEndian.PutUint16(dst[n:], uint16(distance))
	n += 2
	if match < lengthInByte {
		dst[0] |= byte(match)
		return n
	}
	dst[0] |= lengthInByte
	return n + putLength(dst[n:], match)
}

// putLiterals writes a token and the literals behind it.
func putLiterals(dst, src []byte, literals int) int {
	if literals >= lengthInByte {
		dst[0] = lengthInByte << 4
		n := 1 + putLength(dst[1:], literals)
		return n + copy(dst[n:], src[:literals])
	}
	dst[0] = byte(literals << 4)
	if len(src) < wildLiterals {
		return 1 + copy(dst[1:], src[:literals])
	}
	to := dst[1 : 1+wildLiterals]
	binary.LittleEndian.PutUint64(to, binary.LittleEndian.Uint64(src))
	binary.LittleEndian.PutUint64(to[8:], binary.LittleEndian.Uint64(src[8:]))
	return 1 + literals
}

// putLength writes what a length has beyond its token.
func putLength(dst []byte, length int) int {
	n := 0
	for length -= lengthInByte; length >= 255; length -= 255 {
		dst[n] = 255
		n++
	}
	dst[n] = byte(length)
	return n + 1
}

// lengthBytes is how many bytes putLength writes.
func lengthBytes(length int) int {
	if length < lengthInByte {
		return 0
	}
	return (length-lengthInByte)/255 + 1
}
