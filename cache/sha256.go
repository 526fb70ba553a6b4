package cache

import (
	"crypto/sha256"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
)

// sumTag precedes a file hash in the name of the place of its SHA-256.
const sumTag = "xetfs SHA-256 of a file\x00"

// sumPlace returns the place of the SHA-256 of a file in a source without proofs. It is the hash of
// the first chunk of a xorb that no file has.
func sumPlace(file codec.Hash) codec.Hash {
	return codec.PlainHash(sha256.Sum256(append([]byte(sumTag), file[:]...)), 1)
}

// SHA256 returns the SHA-256 that ProveSHA256 has stored, also in an earlier process.
func (c *Cache) SHA256(file codec.Hash) (sum [32]byte, ok bool) {
	leaves := c.src.Proven(sumPlace(file), codec.ChunkRange{End: 1})
	if len(leaves) == 0 || leaves[0].Hash.IsZero() {
		return sum, false
	}
	return leaves[0].Hash, true
}

// ProveSHA256 stores the SHA-256 of a file whose content was read whole and proven. The source may
// lose it, as other proven hashes. A source that proves ignores the call.
func (c *Cache) ProveSHA256(file codec.Hash, sum [32]byte) {
	c.src.Prove([]origin.ChunkHashes{{Xorb: sumPlace(file), Leaves: []merkle.Leaf{{Hash: sum, Size: 1}}}})
}
