package pack

import (
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/xorb"
)

// An openXorb is new chunks that will be one xorb or a part of one. It can also represent a
// xorb that was stored before.
type openXorb struct {
	id     uint32       // in the index of the session
	hashes []codec.Hash // nil: only the ledger has them, or none
	sizes  []uint32
	bytes  int
	packed int        // the most bytes they can have packed
	hash   codec.Hash // of the xorb, once it is cut

	body []byte // of the assembler: the packed chunks
	ends []uint32
}

// isCut reports whether x gets no more chunks.
func (x *openXorb) isCut() bool { return !x.hash.IsZero() }

// maxPacked is the most bytes that a chunk can have packed: it is never packed by a
// scheme that makes it larger.
func maxPacked(size int) int { return xorb.ChunkHeaderSize + size }

// root returns the hash of the xorb that the chunks of x make.
func (x *openXorb) root() codec.Hash {
	leaves := make([]merkle.Leaf, len(x.hashes))
	for i, h := range x.hashes {
		leaves[i] = merkle.Leaf{Hash: h, Size: uint64(x.sizes[i])}
	}
	return merkle.Xorb(leaves)
}

// A location is where a chunk is.
type location struct {
	xorb  *openXorb
	index uint32
}

func (l location) plus(n int) location { return location{l.xorb, l.index + uint32(n)} }

// A term is a codec.Term whose xorb may not have a name yet.
type term struct {
	first  location
	chunks uint32
	size   uint32
}

func (t *term) end() location { return t.first.plus(int(t.chunks)) }

// An index finds the chunks that are new in this session. It has one word of each hash and
// compares the rest with the openXorb. This takes about 25 bytes per chunk beside the hashes.
// If two chunks have the same word, it finds the last one; the other one may be stored again.
type index struct {
	refs   map[uint64]ref
	xorbs  []*openXorb // by id
	unused []uint32    // ids
}

// A ref is a location by the id of its xorb.
type ref struct{ xorb, index uint32 }

func newIndex() *index { return &index{refs: map[uint64]ref{}} }

// newXorb returns a xorb without chunks.
func (ix *index) newXorb() *openXorb {
	x := new(openXorb)
	if n := len(ix.unused); n > 0 {
		x.id, ix.unused = ix.unused[n-1], ix.unused[:n-1]
		ix.xorbs[x.id] = x
		return x
	}
	x.id = uint32(len(ix.xorbs))
	ix.xorbs = append(ix.xorbs, x)
	return x
}

func (ix *index) find(chunk codec.Hash) (location, bool) {
	r, ok := ix.refs[chunk.Word(3)]
	if !ok || ix.xorbs[r.xorb].hashes[r.index] != chunk {
		return location{}, false
	}
	return location{ix.xorbs[r.xorb], r.index}, true
}

// add notes that the last chunk of x is new. If x has the chunk already, the first location
// counts: a run of equal chunks is longest from there.
func (ix *index) add(x *openXorb) {
	last := ref{x.id, uint32(len(x.hashes) - 1)}
	chunk := x.hashes[last.index]
	if at, ok := ix.find(chunk); !ok || at.xorb != x {
		ix.refs[chunk.Word(3)] = last
	}
}

// move notes that the chunks of from went behind the first n of to, and forgets from.
func (ix *index) move(from, to *openXorb, n int) {
	for i, h := range from.hashes {
		if r := (ref{from.id, uint32(i)}); ix.refs[h.Word(3)] == r {
			ix.refs[h.Word(3)] = ref{to.id, uint32(n + i)}
		}
	}
	ix.release(from)
}

// forget takes out the chunks of x.
func (ix *index) forget(x *openXorb) {
	for i, h := range x.hashes {
		if r := (ref{x.id, uint32(i)}); ix.refs[h.Word(3)] == r {
			delete(ix.refs, h.Word(3))
		}
	}
	ix.release(x)
}

func (ix *index) release(x *openXorb) {
	ix.xorbs[x.id] = nil
	ix.unused = append(ix.unused, x.id)
	x.hashes, x.sizes = nil, nil
}
