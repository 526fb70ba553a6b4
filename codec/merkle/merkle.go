package merkle

import (
	"io"

	"github.com/zeebo/blake3"

	"github.com/xetfs/xetfs/codec"
)

// A Leaf is one chunk as the tree sees it.
type Leaf struct {
	Hash codec.Hash
	Size uint64 // unpacked bytes
}

// Chunk returns the hash of a chunk. Over all bytes of a shard it is the name of the
// shard. It allocates nothing.
func Chunk(data []byte) codec.Hash {
	if hasWide && len(data) >= minWide {
		return sumWide(&wideDataKey, data)
	}
	h := dataHashers.Get().(*hasher)
	defer dataHashers.Put(h)
	return h.sum(data)
}

// A ChunkHash computes what Chunk returns for bytes that arrive in pieces, such as a
// shard that is too long for memory. NewChunkHash makes one. It is for one goroutine.
type ChunkHash struct{ blake3 *blake3.Hasher }

// NewChunkHash returns a ChunkHash of no bytes.
func NewChunkHash() *ChunkHash { return &ChunkHash{newHasher(dataKey).blake3} }

// Write adds bytes. It always succeeds.
func (c *ChunkHash) Write(p []byte) (int, error) { return c.blake3.Write(p) }

// Sum returns the hash of all bytes so far.
func (c *ChunkHash) Sum() (h codec.Hash) {
	c.blake3.Sum(h[:0])
	return h
}

// hashBuffer is how much of an object ReadChunk reads at once.
const hashBuffer = 128 << 10

// ReadChunk returns what Chunk returns for the first size bytes of r. It holds 128 KiB of
// them at a time.
func ReadChunk(r io.ReaderAt, size int64) (codec.Hash, error) {
	h, buf := NewChunkHash(), make([]byte, min(max(size, 0), hashBuffer))
	for off := int64(0); off < size; off += int64(len(buf)) {
		buf = buf[:min(int64(len(buf)), size-off)]
		if n, err := r.ReadAt(buf, off); n < len(buf) {
			return codec.Hash{}, err
		}
		h.blake3.Write(buf)
	}
	return h.Sum(), nil
}

// Term returns the range hash of the chunks of one term ("verification hash" of a
// shard): only their hashes and their order enter.
func Term(chunks []codec.Hash) codec.Hash {
	h := termHashers.Get().(*hasher)
	defer termHashers.Put(h)
	for i := range chunks {
		h.blake3.Write(chunks[i][:])
	}
	return h.finish()
}

// Keyed returns the hash of a chunk as a shard with a chunk hash key shows it. The
// format calls that an HMAC, but it is BLAKE3 in keyed mode.
func Keyed(chunk codec.Hash, key [32]byte) codec.Hash {
	h, _ := anyHashers.Get().(*hasher)
	if h == nil || h.key != key {
		h = newHasher(key)
	}
	defer anyHashers.Put(h)
	h.text = append(h.text[:0], chunk[:]...)
	return h.sum(h.text)
}
