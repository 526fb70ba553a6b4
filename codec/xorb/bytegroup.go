package xorb

import "encoding/binary"

// Byte grouping splits the bytes of a chunk into four groups by their position modulo 4. The
// groups follow each other, the longer ones first:
//
//	0 1 2 3 4 5 6 7 8 9  →  0 4 8 · 1 5 9 · 2 6 · 3 7
//
// Numbers of four bytes compress better that way. With n = 4 q + r bytes the first r groups
// have q+1 bytes, the others q.

// quadsPerBlock is how many bytes of each group the vector code takes at once.
const quadsPerBlock = 16

// groupsOf returns the four groups in grouped, which lie one after another.
func groupsOf(grouped []byte) (g [4][]byte) {
	q, r := len(grouped)/4, len(grouped)%4
	for i := range g {
		n := q
		if i < r {
			n++
		}
		g[i], grouped = grouped[:n:n], grouped[n:]
	}
	return g
}

// group4 deals src into dst, which is as long and does not overlap it.
func group4(dst, src []byte) {
	g, q := groupsOf(dst), len(src)/4
	if q < quadsPerBlock {
		deal(g, src, 0)
		return
	}
	groupQuads(g, src, q)
	deal(g, src, q)
}

// ungroup4 is the inverse of group4.
func ungroup4(dst, src []byte) {
	g, q := groupsOf(src), len(src)/4
	if q < quadsPerBlock {
		collect(dst, g, 0)
		return
	}
	ungroupQuads(dst, g, q)
	collect(dst, g, q)
}

// deal does from quad number first on what group4 does, one byte at a time.
func deal(g [4][]byte, src []byte, first int) {
	for i := 4 * first; i < len(src); i++ {
		g[i%4][i/4] = src[i]
	}
}

// collect does from quad number first on what ungroup4 does, one byte at a time.
func collect(dst []byte, g [4][]byte, first int) {
	for i := 4 * first; i < len(dst); i++ {
		dst[i] = g[i%4][i/4]
	}
}

// groupQuadsGo groups the first q quads of src, eight at a time. The last eight may overlap the
// ones before, so q must be at least 8.
func groupQuadsGo(g [4][]byte, src []byte, q int) {
	g0, g1, g2, g3 := g[0][:q], g[1][:q], g[2][:q], g[3][:q]
	for i := 0; i < q; i += 8 {
		i = min(i, q-8)
		s := src[4*i : 4*i+32]
		w0 := binary.LittleEndian.Uint64(s)
		w1 := binary.LittleEndian.Uint64(s[8:])
		w2 := binary.LittleEndian.Uint64(s[16:])
		w3 := binary.LittleEndian.Uint64(s[24:])
		// Quads 0 and 4, 1 and 5, 2 and 6, 3 and 7 share a word, then swap as below.
		a, c := w0&low32|w2<<32, w1&low32|w3<<32
		b, d := w0>>32|w2&^low32, w1>>32|w3&^low32
		a, c = swap16(a, c)
		b, d = swap16(b, d)
		a, b = swap8(a, b)
		c, d = swap8(c, d)
		binary.LittleEndian.PutUint64(g0[i:], a)
		binary.LittleEndian.PutUint64(g1[i:], b)
		binary.LittleEndian.PutUint64(g2[i:], c)
		binary.LittleEndian.PutUint64(g3[i:], d)
	}
}

// ungroupQuadsGo is the inverse of groupQuadsGo: it writes the first q quads of dst. Eight
// bytes of each group form the rows of two tables of 4 × 4 bytes. Two rounds of swaps transpose
// both tables.
func ungroupQuadsGo(dst []byte, g [4][]byte, q int) {
	g0, g1, g2, g3 := g[0][:q], g[1][:q], g[2][:q], g[3][:q]
	for i := 0; i < q; i += 8 {
		i = min(i, q-8)
		a, b := swap8(binary.LittleEndian.Uint64(g0[i:]), binary.LittleEndian.Uint64(g1[i:]))
		c, d := swap8(binary.LittleEndian.Uint64(g2[i:]), binary.LittleEndian.Uint64(g3[i:]))
		a, c = swap16(a, c)
		b, d = swap16(b, d)
		out := dst[4*i : 4*i+32]
		binary.LittleEndian.PutUint64(out, a&low32|b<<32)
		binary.LittleEndian.PutUint64(out[8:], c&low32|d<<32)
		binary.LittleEndian.PutUint64(out[16:], a>>32|b&^low32)
		binary.LittleEndian.PutUint64(out[24:], c>>32|d&^low32)
	}
}

const low32 = 1<<32 - 1

// swap8 exchanges the odd bytes of a with the even bytes of b.
func swap8(a, b uint64) (uint64, uint64) {
	t := (a>>8 ^ b) & 0x00ff00ff00ff00ff
	return a ^ t<<8, b ^ t
}

// swap16 does the same with pairs of bytes.
func swap16(a, b uint64) (uint64, uint64) {
	t := (a>>16 ^ b) & 0x0000ffff0000ffff
	return a ^ t<<16, b ^ t
}
