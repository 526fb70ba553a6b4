//go:build !amd64

package chunker

// roll takes data into the hash, byte after byte, up to the first that is at a boundary.
// It returns how many bytes that were, and the hash.
func roll(data []byte, h uint64) (int, uint64) { return rollGo(data, h) }
