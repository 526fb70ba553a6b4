package origintest

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
)

// Random returns n bytes that do not pack, the same for the same seed.
func Random(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	b := make([]byte, 0, n+8)
	for len(b) < n {
		b = binary.LittleEndian.AppendUint64(b, r.Uint64())
	}
	return b[:n]
}

// Text returns n bytes of words, which LZ4 packs to about half.
func Text(seed uint64, n int) []byte {
	words := []string{
		"chunk ", "xorb ", "shard ", "term ", "of ", "the ", "a ", "file ", "is ", "packed ",
		"and ", "unpacked ", "where ", "it ", "lies, ", "hash ", "range ", "read ", "once.\n",
	}
	r := rand.New(rand.NewPCG(seed, 2))
	b := make([]byte, 0, n+32)
	for len(b) < n {
		if r.IntN(8) == 0 {
			b = binary.AppendUvarint(b, r.Uint64()>>40|0x30)
		}
		b = append(b, words[r.IntN(len(words))]...)
	}
	return b[:n]
}

// Floats returns n bytes of 32-bit numbers around zero, as models have them. They pack only
// after bytes of equal weight are grouped.
func Floats(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 3))
	b := make([]byte, 0, n+4)
	for len(b) < n {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(r.NormFloat64()*0.02)))
	}
	return b[:n]
}
