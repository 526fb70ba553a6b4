package byhash

import (
	"sync"

	"github.com/xetfs/xetfs/codec"
)

// A Table maps the hash of a chunk to a xorb that has such a chunk. It consists of two
// generations. The older one is dropped when the newer one is full, which bounds the memory. A
// Table is safe for concurrent use.
type Table struct {
	maxBytes int64 // of one generation

	mu         sync.Mutex
	young, old generation // guarded by mu
}

// A generation has the chunks that were added at about the same time.
type generation struct {
	places map[codec.Hash]place
	xorbs  []codec.Hash
}

// A place is a chunk of a xorb.
type place struct {
	xorb  uint32 // position in generation.xorbs
	chunk uint16
}

const (
	// chunkBytes is the memory of an entry in a map that has just grown. It has up to 16/7 slots
	// of 41 bytes then.
	chunkBytes = 96

	xorbBytes = 2 * len(codec.Hash{}) // a slice grows ahead
)

// New returns a Table of about maxBytes, which it allocates as it grows.
func New(maxBytes int64) *Table { return &Table{maxBytes: maxBytes / 2} }

// bytes returns the memory of a generation.
func (g *generation) bytes() int64 {
	return int64(len(g.places))*chunkBytes + int64(len(g.xorbs)*xorbBytes)
}

// Add records the hashes of chunks of xorb x, from chunk first on. It replaces the places of
// earlier chunks with these hashes. A zero hash is unknown and skipped.
func (t *Table) Add(x codec.Hash, first uint32, hashes []codec.Hash) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, h := range hashes {
		if h.IsZero() {
			continue
		}
		if t.young.places == nil || t.young.bytes()+chunkBytes+int64(xorbBytes) > t.maxBytes {
			t.young, t.old = generation{places: map[codec.Hash]place{}}, t.young
		}
		g := &t.young
		if n := len(g.xorbs); n == 0 || g.xorbs[n-1] != x {
			g.xorbs = append(g.xorbs, x)
		}
		g.places[h] = place{uint32(len(g.xorbs) - 1), uint16(first) + uint16(i)}
	}
}

// Find returns the chunk of a xorb that was added last with hash h.
func (t *Table) Find(h codec.Hash) (x codec.Hash, chunk uint32, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, g := range []*generation{&t.young, &t.old} {
		if p, ok := g.places[h]; ok {
			return g.xorbs[p.xorb], uint32(p.chunk), true
		}
	}
	return x, 0, false
}

// IsFull reports whether a further generation drops chunks that were added.
func (t *Table) IsFull() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.old.places != nil
}

// IsEmpty reports whether nothing was added.
func (t *Table) IsEmpty() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.young.places) == 0
}
