package chunker

// rollBlocks is rollGo for a number of bytes that is a multiple of eight.
//
//go:noescape
func rollBlocks(p *byte, n int, h uint64, table *[256]uint64) (int, uint64)

// roll takes data into the hash, byte after byte, up to the first that is at a boundary.
// It returns how many bytes that were, and the hash.
func roll(data []byte, h uint64) (int, uint64) {
	blocks := len(data) &^ 7
	if blocks == 0 {
		return rollGo(data, h)
	}
	n, h := rollBlocks(&data[0], blocks, h, &gear)
	if h < boundary {
		return n, h
	}
	rest, h := rollGo(data[n:], h)
	return n + rest, h
}
