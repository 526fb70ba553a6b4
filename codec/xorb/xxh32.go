package xorb

import (
	"encoding/binary"
	"math/bits"
)

const (
	prime1 uint32 = 0x9e3779b1
	prime2 uint32 = 0x85ebca77
	prime3 uint32 = 0xc2b2ae3d
	prime4 uint32 = 0x27d4eb2f
	prime5 uint32 = 0x165667b1
)

// xxh32 returns the xxHash of b, 32 bits wide and with seed 0, which is the checksum of
// LZ4 frames.
func xxh32(b []byte) uint32 {
	h := prime5
	n := uint32(len(b))
	if len(b) >= 16 {
		h, b = xxh32Stripes(b)
	}
	h += n
	for ; len(b) >= 4; b = b[4:] {
		h = bits.RotateLeft32(h+binary.LittleEndian.Uint32(b)*prime3, 17) * prime4
	}
	for _, c := range b {
		h = bits.RotateLeft32(h+uint32(c)*prime5, 11) * prime1
	}
	h = (h ^ h>>15) * prime2
	h = (h ^ h>>13) * prime3
	return h ^ h>>16
}

// xxh32Stripes hashes the stripes of 16 bytes and returns what is left of b.
func xxh32Stripes(b []byte) (uint32, []byte) {
	v1, v2, v3, v4 := prime1, prime2, uint32(0), uint32(0)
	v1 += prime2
	v4 -= prime1
	for ; len(b) >= 16; b = b[16:] {
		v1 = xxh32Round(v1, binary.LittleEndian.Uint32(b))
		v2 = xxh32Round(v2, binary.LittleEndian.Uint32(b[4:]))
		v3 = xxh32Round(v3, binary.LittleEndian.Uint32(b[8:]))
		v4 = xxh32Round(v4, binary.LittleEndian.Uint32(b[12:]))
	}
	return bits.RotateLeft32(v1, 1) + bits.RotateLeft32(v2, 7) +
		bits.RotateLeft32(v3, 12) + bits.RotateLeft32(v4, 18), b
}

func xxh32Round(v, lane uint32) uint32 {
	return bits.RotateLeft32(v+lane*prime2, 13) * prime1
}
