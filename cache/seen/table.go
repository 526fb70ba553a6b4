package seen

import (
	"sync"

	"github.com/xetfs/xetfs/cache/lru"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
)

// A Table maps chunks of xorbs to the hash and size that they had when they were unpacked. It
// decides which copies of a chunk are valid: those with the hash in the Table. Its memory is
// bounded, and it forgets the chunks that were used least recently. It is safe for concurrent
// use.
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

// blockChunks is the number of chunks of an entry.
const blockChunks = 64

// blockBytes is the memory of a block, with its entry.
const blockBytes = 40*blockChunks + 160

type blockKey struct {
	xorb  codec.Hash
	index uint32 // of the first chunk, by blockChunks
}

type block [blockChunks]merkle.Leaf // a zero hash is unknown

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
// before: one of both is damage. The Table then forgets the chunk.
func (t *Table) Note(x codec.Hash, chunk uint32, leaf merkle.Leaf) bool {
	p := t.part(x, chunk)
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.leafLocked(x, chunk)
	if known.Hash == (codec.Hash{}) || *known == leaf {
		*known = leaf
		return true
	}
	*known = merkle.Leaf{}
	return false
}

// Set records the proven hash and size of a chunk.
func (t *Table) Set(x codec.Hash, chunk uint32, leaf merkle.Leaf) {
	p := t.part(x, chunk)
	p.mu.Lock()
	defer p.mu.Unlock()
	*p.leafLocked(x, chunk) = leaf
}

// Get returns the hash and size of a chunk; a zero hash if they are unknown.
func (t *Table) Get(x codec.Hash, chunk uint32) merkle.Leaf {
	p := t.part(x, chunk)
	p.mu.Lock()
	defer p.mu.Unlock()
	if b, ok := p.blocks.Get(blockKey{x, chunk / blockChunks}); ok {
		return b[chunk%blockChunks]
	}
	return merkle.Leaf{}
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
		b[chunk%blockChunks] = merkle.Leaf{}
	}
}

// leafLocked returns the place of a chunk, which may be in a new block.
func (p *tablePart) leafLocked(x codec.Hash, chunk uint32) *merkle.Leaf {
	key := blockKey{x, chunk / blockChunks}
	b, ok := p.blocks.Get(key)
	if !ok {
		b = p.blocks.Add(key, new(block), blockBytes)
	}
	return &b[chunk%blockChunks]
}
