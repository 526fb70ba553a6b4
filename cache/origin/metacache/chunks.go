package metacache

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"github.com/xetfs/xetfs/cache/lru"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/xorb"
)

const kindChunks = "chunk hashes proven by files"

// A ChunkTable has the proven hashes and sizes of chunks, for sources that prove nothing else. A
// chunk is proven exactly if the table has its hash, so a disk cache needs no flag per chunk. All
// hashes are in the Backend, and those used last in memory. A hash that the Backend loses makes
// its chunk unproven again, which costs a check of a file. A ChunkTable is safe for concurrent
// use.
type ChunkTable struct {
	meta *Cache

	putting sync.Mutex // held by Put, which reads and writes values

	mu      sync.Mutex
	blocks  *lru.Cache[blockKey, []merkle.Leaf] // immutable; guarded by mu
	changes int64                               // of blocks by Put; guarded by mu
}

// blockChunks is how many chunks of a xorb share a value. A file of a few chunks writes a value
// of at most 4.6 KiB.
const blockChunks = 128

// A blockKey names blockChunks chunks of a xorb.
type blockKey struct {
	xorb  codec.Hash
	index uint32
}

// NewChunkTable returns a ChunkTable over the values in meta, with up to maxBytes in memory.
func NewChunkTable(meta *Cache, maxBytes int64) *ChunkTable {
	return &ChunkTable{meta: meta, blocks: lru.New[blockKey, []merkle.Leaf](maxBytes, nil)}
}

// Put stores the hashes and sizes of chunks. A zero hash removes those of a chunk.
func (t *ChunkTable) Put(chunks []origin.ChunkHashes) {
	t.putting.Lock()
	defer t.putting.Unlock()
	changed := map[blockKey][]merkle.Leaf{}
	for _, c := range chunks {
		for i, leaf := range c.Leaves {
			at := uint64(c.Start) + uint64(i)
			if at >= codec.MaxXorbChunks {
				break
			}
			key := blockKey{c.Xorb, uint32(at / blockChunks)}
			block, ok := changed[key]
			if !ok {
				block = slices.Clone(t.block(key))
			}
			j := int(at % blockChunks)
			if j >= len(block) {
				block = append(block, make([]merkle.Leaf, j+1-len(block))...)
			}
			block[j] = leaf
			changed[key] = block
		}
	}
	for key, block := range changed {
		t.put(key, block)
	}
}

// put replaces a block.
func (t *ChunkTable) put(key blockKey, block []merkle.Leaf) {
	t.mu.Lock()
	t.changes++
	t.blocks.Remove(key)
	t.blocks.Add(key, block, blockBytes(block))
	t.mu.Unlock()
	t.meta.putBlock(key, block)
}

// blockBytes is the memory of a block and of its entry.
func blockBytes(block []merkle.Leaf) int64 { return 192 + 40*int64(len(block)) }

// Leaves returns the hashes and sizes of chunks r of xorb x. The hash of an unknown chunk is
// zero. nil: all are unknown.
func (t *ChunkTable) Leaves(x codec.Hash, r codec.ChunkRange) []merkle.Leaf {
	if r.Start >= r.End || r.End > codec.MaxXorbChunks {
		return nil
	}
	var all []merkle.Leaf
	for at := r.Start; at < r.End; {
		index := at / blockChunks
		end := min(r.End, (index+1)*blockChunks)
		if block := t.block(blockKey{x, index}); int(at%blockChunks) < len(block) {
			if all == nil {
				all = make([]merkle.Leaf, r.Len())
			}
			copy(all[at-r.Start:end-r.Start], block[at%blockChunks:])
		}
		at = end
	}
	return all
}

// Hashed reports whether the hash of every chunk in r is known.
func (t *ChunkTable) Hashed(x codec.Hash, r codec.ChunkRange) bool {
	leaves := t.Leaves(x, r)
	return leaves != nil && !slices.ContainsFunc(leaves, func(l merkle.Leaf) bool { return l.Hash == codec.Hash{} })
}

// Annotate returns a run of chunks of xorb x with the known hashes. A chunk of another size than
// the proven one is codec.ErrCorrupt.
func (t *ChunkTable) Annotate(x codec.Hash, run *xorb.Run) (*xorb.Run, error) {
	leaves := t.Leaves(x, run.Chunks)
	if leaves == nil {
		return run, nil
	}
	annotated := *run
	annotated.Hashes = make([]codec.Hash, len(leaves))
	for i, leaf := range leaves {
		chunk := run.Chunks.Start + uint32(i)
		if leaf.Hash != (codec.Hash{}) && leaf.Size != uint64(run.Size(chunk)) {
			err := codec.Corrupt("chunk", 0, "it has %d bytes, %d are proven", run.Size(chunk), leaf.Size)
			return nil, fmt.Errorf("xorb %s: %w", x, &codec.ChunkError{Chunk: int(chunk), Err: err})
		}
		annotated.Hashes[i] = leaf.Hash
	}
	return &annotated, nil
}

// block returns a block from memory or the Backend.
func (t *ChunkTable) block(key blockKey) []merkle.Leaf {
	t.mu.Lock()
	block, ok := t.blocks.Get(key)
	changes := t.changes
	t.mu.Unlock()
	if ok {
		return block
	}
	block = t.meta.block(key)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.changes == changes { // else a Put may have replaced it
		block = t.blocks.Add(key, block, blockBytes(block))
	}
	return block
}

func (k *Cache) blockKey(key blockKey) [32]byte {
	return k.key(kindChunks, binary.LittleEndian.AppendUint32(key.xorb[:], key.index))
}

// block returns the stored chunks of a block.
func (k *Cache) block(b blockKey) []merkle.Leaf {
	if k.backend == nil {
		return nil
	}
	key := k.blockKey(b)
	block, _ := get(context.Background(), k, key, func(b []byte) ([]merkle.Leaf, error) { return decodeBlock(key, b) })
	return block
}

// putBlock replaces the stored chunks of a block. A Backend does not replace a value itself.
func (k *Cache) putBlock(b blockKey, block []merkle.Leaf) {
	if k.backend == nil {
		return
	}
	key := k.blockKey(b)
	k.drop(key)
	k.put(key, encodeBlock(key, block))
}

// encodeBlock encodes consecutive chunks of a xorb, up to the last known one of a block.
//
//	offset  size  field
//	     0     …  for each chunk: 32 bytes, its hash, zero if it is unknown; 4 bytes, its size
func encodeBlock(key [32]byte, block []merkle.Leaf) []byte {
	b := appendHead(make([]byte, 0, minSize+chunkSize*len(block)), key)
	for i := range block {
		b = append(b, block[i].Hash[:]...)
		b = binary.LittleEndian.AppendUint32(b, uint32(block[i].Size))
	}
	return seal(b)
}

const chunkSize = 36 // bytes of a chunk in a value

// decodeBlock decodes the chunks of a block.
func decodeBlock(key [32]byte, b []byte) ([]merkle.Leaf, error) {
	b, err := unseal(key, b)
	if err != nil {
		return nil, err
	}
	return decodeBlockBody(b)
}

func decodeBlockBody(b []byte) ([]merkle.Leaf, error) {
	if len(b)%chunkSize != 0 || len(b) > blockChunks*chunkSize {
		return nil, badValue(headSize, "%d bytes are no list of chunks", len(b))
	}
	block := make([]merkle.Leaf, 0, len(b)/chunkSize)
	for ; len(b) > 0; b = b[chunkSize:] {
		leaf := merkle.Leaf{Hash: codec.Hash(b), Size: uint64(binary.LittleEndian.Uint32(b[32:]))}
		if leaf.Size > codec.MaxChunkSize {
			return nil, badValue(headSize, "a chunk of %d bytes", leaf.Size)
		}
		block = append(block, leaf)
	}
	return block, nil
}
