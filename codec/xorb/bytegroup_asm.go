//go:build amd64 || arm64

package xorb

// ungroupBlocks writes 4 n bytes to dst: the first of each group, the second of each,
// and so on. n is a positive multiple of quadsPerBlock.
//
//go:noescape
func ungroupBlocks(dst, g0, g1, g2, g3 *byte, n int)

// groupBlocks is its inverse: it deals 4 n bytes of src.
//
//go:noescape
func groupBlocks(g0, g1, g2, g3, src *byte, n int)

// groupQuads deals the first q quads of src, at least quadsPerBlock. The last block
// may overlap the one before it.
func groupQuads(g [4][]byte, src []byte, q int) {
	groupBlocks(&g[0][0], &g[1][0], &g[2][0], &g[3][0], &src[0], q&^(quadsPerBlock-1))
	if i := q - quadsPerBlock; q%quadsPerBlock != 0 {
		groupBlocks(&g[0][i], &g[1][i], &g[2][i], &g[3][i], &src[4*i], quadsPerBlock)
	}
}

// ungroupQuads is the inverse of groupQuads.
func ungroupQuads(dst []byte, g [4][]byte, q int) {
	ungroupBlocks(&dst[0], &g[0][0], &g[1][0], &g[2][0], &g[3][0], q&^(quadsPerBlock-1))
	if i := q - quadsPerBlock; q%quadsPerBlock != 0 {
		ungroupBlocks(&dst[4*i], &g[0][i], &g[1][i], &g[2][i], &g[3][i], quadsPerBlock)
	}
}
