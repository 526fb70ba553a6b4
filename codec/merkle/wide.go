package merkle

import (
	"encoding/binary"
	"math/bits"
	"sync"

	"golang.org/x/sys/cpu"
	"lukechampine.com/blake3/guts"

	"github.com/xetfs/xetfs/codec"
)

// BLAKE3 is a tree over pieces of 1 KiB. A processor with AVX-512 hashes 16 of them at once, at
// 5.3 GB/s per core. The library of all other hashes uses AVX2 and reaches 3.8 GB/s. This
// library offers no keyed interface but its parts, and it is slower without AVX-512. It
// therefore hashes chunks only.

// A wideBlock is 16 pieces.
type wideBlock = [guts.MaxSIMD * guts.ChunkSize]byte

// minWide is the least number of bytes for which a wideBlock, part of it unused, is quicker.
const minWide = len(wideBlock{}) * 5 / 8

var hasWide = cpu.X86.HasAVX512F

// sumWide returns the keyed hash of at least minWide bytes.
func sumWide(key *[8]uint32, data []byte) (h codec.Hash) {
	root := subtree(key, 0, data)
	root.Flags |= guts.FlagRoot
	words := guts.CompressNode(root)
	for i := range len(h) / 4 {
		binary.LittleEndian.PutUint32(h[i*4:], words[i])
	}
	return h
}

// subtree returns the node over data, whose first piece is the one at place.
func subtree(key *[8]uint32, place uint64, data []byte) guts.Node {
	if len(data) <= len(wideBlock{}) {
		return smallTree(key, place, data)
	}
	left := 1 << (bits.Len(uint(len(data)-1)) - 1) // the largest power of two that leaves something
	l := guts.ChainingValue(subtree(key, place, data[:left]))
	r := guts.ChainingValue(subtree(key, place+uint64(left/guts.ChunkSize), data[left:]))
	return guts.ParentNode(l, r, key, guts.FlagKeyedHash)
}

// tails has room for what is less than a wideBlock: the instructions always read a whole one.
var tails = sync.Pool{New: func() any { return new(wideBlock) }}

func smallTree(key *[8]uint32, place uint64, data []byte) guts.Node {
	if len(data) == len(wideBlock{}) {
		return guts.CompressBuffer((*wideBlock)(data), len(data), key, place, guts.FlagKeyedHash)
	}
	tail := tails.Get().(*wideBlock)
	defer tails.Put(tail)
	n := copy(tail[:], data)
	return guts.CompressBuffer(tail, n, key, place, guts.FlagKeyedHash)
}

// wideKey returns a key as sumWide wants it.
func wideKey(key codec.Hash) (words [8]uint32) {
	for i := range words {
		words[i] = binary.LittleEndian.Uint32(key[i*4:])
	}
	return words
}
