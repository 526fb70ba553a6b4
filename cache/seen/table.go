package seen

import (
	"sync"

	"github.com/xetfs/xetfs/cache/lru"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
)

// A Table maps chunks of xorbs to the hash and size that they had when they were unpacked. It
// decides which copies of a chunk are valid: those with the hash in the Table. A hash is tentative
// if its copy may be one of an earlier process. Its memory is bounded, and it forgets the chunks
// that were used least recently. It is safe for concurrent use.
type Table struct {
	parts [tableParts]tablePart
}

// tableParts is the number of parts of a Table, so that reads rarely wait for each other's lock.
const tableParts = 32

// A tablePart has the blocks with the same hash of their keys.
type tablePart struct {
	mu     sync.Mutex
	blocks *lru.Cache[blockKey, *block] // guarded by mu
}

// blockChunks is the number of chunks of an entry. More of them need less memory for reads in order, and
// more for random reads.
const blockChunks = 8

// blockBytes is the memory of a block, with its entry.
const blockBytes = 40*blockChunks + 168

type blockKey struct {
	xorb  codec.Hash
	index uint32 // of the first chunk, by blockChunks
}

type block struct {
	leaves    [blockChunks]merkle.Leaf // a zero hash is unknown
	tentative uint64                   // a bit for each chunk with a tentative hash
}

func (b *block) set(chunk uint32, leaf merkle.Leaf, tentative bool) {
	bit := uint64(1) << (chunk % blockChunks)
	b.leaves[chunk%blockChunks] = leaf
	if b.tentative &^= bit; tentative {
		b.tentative |= bit
	}
}

// get returns the hash of a chunk, and whether it is tentative.
func (b *block) get(chunk uint32) (leaf merkle.Leaf, tentative bool) {
	return b.leaves[chunk%blockChunks], b.tentative>>(chunk%blockChunks)&1 != 0
}

// New returns a Table of about maxBytes.
func New(maxBytes int64) *Table {
	t := new(Table)
	for i := range t.parts {
		t.parts[i].blocks = lru.New[blockKey, *block](maxBytes/tableParts, nil)
	}
	return t
}

// part returns the part with a chunk.
func (t *Table) part(x codec.Hash, chunk uint32) *tablePart {
	return &t.parts[(x.Word(0)+uint64(chunk/blockChunks))%tableParts]
}

// Note records that a chunk was unpacked to leaf. It returns false if the chunk had another hash
// before: one of both is damage. The Table then forgets the chunk. A tentative hash replaces no
// other hash, and is replaced by any.
func (t *Table) Note(x codec.Hash, chunk uint32, leaf merkle.Leaf, tentative bool) bool {
	p := t.part(x, chunk)
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.blockLocked(x, chunk)
	known, isTentative := b.get(chunk)
	switch {
	case known.Hash == (codec.Hash{}) || isTentative:
		b.set(chunk, leaf, tentative)
		return true
	case known == leaf:
		return true
	}
	b.set(chunk, merkle.Leaf{}, false)
	return false
}

// Set records the proven hash and size of a chunk.
func (t *Table) Set(x codec.Hash, chunk uint32, leaf merkle.Leaf) {
	p := t.part(x, chunk)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.blockLocked(x, chunk).set(chunk, leaf, false)
}

// Get returns the hash and size of a chunk; a zero hash if they are unknown or tentative.
func (t *Table) Get(x codec.Hash, chunk uint32) merkle.Leaf {
	leaf, tentative := t.get(x, chunk)
	if tentative {
		return merkle.Leaf{}
	}
	return leaf
}

// GetTentative is Get that also returns tentative hashes.
func (t *Table) GetTentative(x codec.Hash, chunk uint32) merkle.Leaf {
	leaf, _ := t.get(x, chunk)
	return leaf
}

func (t *Table) get(x codec.Hash, chunk uint32) (leaf merkle.Leaf, tentative bool) {
	p := t.part(x, chunk)
	p.mu.Lock()
	defer p.mu.Unlock()
	if b, ok := p.blocks.Get(blockKey{x, chunk / blockChunks}); ok {
		return b.get(chunk)
	}
	return merkle.Leaf{}, false
}

// Drop forgets chunks r of xorb x.
func (t *Table) Drop(x codec.Hash, r codec.ChunkRange) {
	for i := r.Start; i < r.End; i++ {
		t.part(x, i).drop(x, i)
	}
}

func (p *tablePart) drop(x codec.Hash, chunk uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b, ok := p.blocks.Get(blockKey{x, chunk / blockChunks}); ok {
		b.set(chunk, merkle.Leaf{}, false)
	}
}

// blockLocked returns the block of a chunk, which may be new.
func (p *tablePart) blockLocked(x codec.Hash, chunk uint32) *block {
	key := blockKey{x, chunk / blockChunks}
	b, ok := p.blocks.Get(key)
	if !ok {
		b = p.blocks.Add(key, new(block), blockBytes)
	}
	return b
}
