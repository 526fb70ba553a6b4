package xorb

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// minDivergence is how far the bytes of one group must differ from all bytes before
// grouping pays, in nats. The reference has it so.
const minDivergence = 0.02

// Predict makes the choice of the reference between LZ4 and ByteGrouping4LZ4. It counts the set
// bits of all bytes. If the counts at one position modulo 4 differ from those of all bytes
// (Kullback-Leibler divergence), the chunk has numbers of four bytes.
//
// A position counts only if all nine numbers of bits, 0 to 8, occur there. The reference does
// the same: an absent number makes its sum NaN, and the maximum ignores NaN.
func Predict(chunk []byte) Scheme {
	if divergence(bitCounts(chunk)) > minDivergence {
		return ByteGrouping4LZ4
	}
	return LZ4
}

// fewBytes are counted one by one: tables would take longer.
const fewBytes = 1500

// bitCounts counts, for each position modulo 4, the bytes that have 0, 1, … 8 bits
// set.
func bitCounts(chunk []byte) (counts [4][9]uint32) {
	if len(chunk) < fewBytes {
		for i, b := range chunk {
			counts[i%4][bits.OnesCount8(b)]++
		}
		return counts
	}
	// Two words at a time: byte i of the index is the number of bits in byte i of the
	// first word and, 16 times, in that of the second.
	var pairs [8][256]uint32
	n := len(chunk) &^ 15
	for i := 0; i < n; i += 16 {
		w := chunk[i : i+16]
		index := onesPerByte(binary.LittleEndian.Uint64(w)) | onesPerByte(binary.LittleEndian.Uint64(w[8:]))<<4
		pairs[0][byte(index)]++
		pairs[1][byte(index>>8)]++
		pairs[2][byte(index>>16)]++
		pairs[3][byte(index>>24)]++
		pairs[4][byte(index>>32)]++
		pairs[5][byte(index>>40)]++
		pairs[6][byte(index>>48)]++
		pairs[7][byte(index>>56)]++
	}
	for i := range pairs {
		for first := range 9 {
			for second := range 9 {
				n := pairs[i][first|second<<4]
				counts[i%4][first] += n
				counts[i%4][second] += n
			}
		}
	}
	for i := n; i < len(chunk); i++ {
		counts[i%4][bits.OnesCount8(chunk[i])]++
	}
	return counts
}

// onesPerByte returns in each byte the number of bits that are set in that byte of w.
func onesPerByte(w uint64) uint64 {
	w -= w >> 1 & 0x5555555555555555
	w = w&0x3333333333333333 + w>>2&0x3333333333333333
	return (w + w>>4) & 0x0f0f0f0f0f0f0f0f
}

// divergence returns the largest divergence of a position from all positions. The
// base has one more of each than was counted, and is not scaled to make up for that,
// because the reference does not.
func divergence(counts [4][9]uint32) float64 {
	base := [9]float64{1, 1, 1, 1, 1, 1, 1, 1, 1}
	var totals [4]float64
	var total float64
	for j := range counts {
		for c, n := range counts[j] {
			base[c] += float64(n)
			totals[j] += float64(n)
			total += float64(n)
		}
	}
	var largest float64
	for j := range counts {
		var sum float64
		for c, n := range counts[j] {
			p := float64(n) / totals[j]
			sum += p * math.Log(p/(base[c]/total)) // not a number for n = 0
		}
		if sum > largest { // never for not a number
			largest = sum
		}
	}
	return largest
}
