package xorb

import (
	"encoding/binary"
	"math/bits"

	"github.com/xetfs/xetfs/codec"
)

// A compressor makes LZ4 blocks. The format allows any choice of matches. This compressor finds
// the matches of the reference, so it makes the same bytes and leaves the same chunks unpacked.
// Its zero value is ready.
//
// A block is a sequence of sequences, the last one without match:
//
//	token         4 bits length of the literals, 4 bits length of the match less 4
//	length        if it is 15: bytes to add to it, the last of them not 255
//	literals
//	2 bytes       how far back the match is, little-endian
//	length        as above, of the match
type compressor struct {
	seen [1 << hashBits]uint32 // by their hash, where five bytes stood last

	// The chunk. Its size is a power of two plus some bytes, so a mask replaces the comparison
	// of an index with its end.
	src  [codec.MaxChunkSize + wildLiterals]byte
	size int
}

const (
	hashBits     = 12
	minMatch     = 4
	matchMargin  = 12 // no match begins within these last bytes
	literalTail  = 6  // bytes at the end that no match reaches
	maxDistance  = 1<<16 - 1
	patience     = 32 // tries without success before the search takes longer steps
	wildLiterals = 16 // short literals are copied by this number of bytes at once
	lengthInByte = 15 // from here on a length needs bytes of its own

	places = codec.MaxChunkSize - 1 // mask of a place in src

	// The bytes that compress may write behind its result.
	wildRoom = 1 + wildLiterals + 2
)

func (c *compressor) word(at int) uint64 {
	at &= places
	return binary.LittleEndian.Uint64(c.src[at : at+8])
}

func (c *compressor) half(at int) uint32 {
	at &= places
	return binary.LittleEndian.Uint32(c.src[at : at+4])
}

// hash is that of the five bytes that a little-endian word begins with.
func hash(word uint64) uint32 {
	const prime = 889523592379
	return uint32(word << 24 * prime >> (64 - hashBits) & (1<<hashBits - 1))
}

// load returns room for a chunk that compress is to compress.
func (c *compressor) load(size int) []byte {
	c.size = size
	return c.src[:size]
}

// compress compresses the loaded chunk into dst, and returns the number of bytes. It returns 0
// if they are more than len(dst)-wildRoom.
func (c *compressor) compress(dst []byte) int {
	room := len(dst) - wildRoom
	n, literals := 0, 0
	if c.size > matchMargin {
		clear(c.seen[:])
		for cur := 1; ; {
			start, from := c.find(cur)
			if start < 0 {
				break
			}
			distance := start - from
			for start > literals && start > distance && c.src[(start-1)&places] == c.src[(start-distance-1)&places] {
				start--
			}
			cur = c.matchEnd(start+minMatch, distance)
			c.seen[hash(c.word(cur-2))] = uint32(cur - 2)
			match := cur - start - minMatch
			if n+3+start-literals+lengthBytes(start-literals)+lengthBytes(match) > room {
				return 0
			}
			n += c.putSequence(dst[n:], literals, start-literals, distance, match)
			literals = cur
		}
	}
	last := c.size - literals
	if n+1+last+lengthBytes(last) > room {
		return 0
	}
	return n + c.putLiterals(dst[n:], literals, last)
}

// find returns where the next match begins, from cur on, and which place before it has
// the same bytes; or -1.
func (c *compressor) find(cur int) (start, from int) {
	end := c.size - matchMargin
	next := cur
	for tries := patience; ; tries++ {
		cur = next
		next += tries / patience
		if cur > end {
			return -1, 0
		}
		word := c.word(cur)
		h := hash(word)
		from := int(c.seen[h])
		c.seen[h] = uint32(cur)
		if c.half(from) == uint32(word) && cur-from <= maxDistance {
			return cur, from
		}
	}
}

// matchEnd returns where the bytes from cur on end to be those so far before them.
func (c *compressor) matchEnd(cur, distance int) int {
	end := c.size - literalTail
	for ; end-cur >= 8; cur += 8 {
		if differ := c.word(cur) ^ c.word(cur-distance); differ != 0 {
			return cur + bits.TrailingZeros64(differ)/8
		}
	}
	for cur < end && c.src[cur&places] == c.src[(cur-distance)&places] {
		cur++
	}
	return cur
}

// putSequence writes one sequence.
func (c *compressor) putSequence(dst []byte, at, literals, distance, match int) int {
	n := c.putLiterals(dst, at, literals)
	binary.LittleEndian.PutUint16(dst[n:], uint16(distance))
	n += 2
	if match < lengthInByte {
		dst[0] |= byte(match)
		return n
	}
	dst[0] |= lengthInByte
	return n + putLength(dst[n:], match)
}

// putLiterals writes a token and the literals behind it, which begin at a place of the
// chunk.
func (c *compressor) putLiterals(dst []byte, at, literals int) int {
	if literals >= lengthInByte {
		dst[0] = lengthInByte << 4
		n := 1 + putLength(dst[1:], literals)
		return n + copy(dst[n:], c.src[at:at+literals])
	}
	to := dst[:1+wildLiterals]
	to[0] = byte(literals << 4)
	binary.LittleEndian.PutUint64(to[1:], c.word(at))
	binary.LittleEndian.PutUint64(to[9:], c.word(at+8))
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
