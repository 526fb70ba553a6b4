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

	body []byte // of the placer: the packed chunks
	ends []uint32
}

// isCut says that g is a xorb and gets no more chunks.
func (x *openXorb) isCut() bool { return !x.hash.IsZero() }

// maxPacked is the most bytes that a chunk can have packed: it is never packed by a
// scheme that makes it larger.
func maxPacked(size int) int { return xorb.ChunkHeaderSize + size }

// root returns the hash of a xorb of the chunks of g.
func (x *openXorb) root() codec.Hash {
	leaves := make([]merkle.Leaf, len(x.hashes))
	for i, h := range x.hashes {
		leaves[i] = merkle.Leaf{Hash: h, Size: uint64(x.sizes[i])}
	}
	return merkle.Xorb(leaves)
}

// A location is where a chunk is.
type location struct {
	g     *openXorb
	index uint32
}

func (l location) plus(n int) location { return location{l.g, l.index + uint32(n)} }

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
	groups []*openXorb // by id
	unused []uint32    // ids
}

type ref struct{ group, index uint32 }

func newIndex() *index { return &index{refs: map[uint64]ref{}} }

// newXorb returns an empty group.
func (x *index) newXorb() *openXorb {
	g := new(openXorb)
	if n := len(x.unused); n > 0 {
		g.id, x.unused = x.unused[n-1], x.unused[:n-1]
		x.groups[g.id] = g
		return g
	}
	g.id = uint32(len(x.groups))
	x.groups = append(x.groups, g)
	return g
}

func (x *index) find(chunk codec.Hash) (location, bool) {
	r, ok := x.refs[chunk.Word(3)]
	if !ok || x.groups[r.group].hashes[r.index] != chunk {
		return location{}, false
	}
	return location{x.groups[r.group], r.index}, true
}

// add notes that the last chunk of g is new. If g has the chunk already, the first location
// counts: a run of equal chunks is longest from there.
func (x *index) add(g *openXorb) {
	last := ref{g.id, uint32(len(g.hashes) - 1)}
	chunk := g.hashes[last.index]
	if at, ok := x.find(chunk); !ok || at.g != g {
		x.refs[chunk.Word(3)] = last
	}
}

// move notes that the chunks of from went behind the first n of to, and forgets from.
func (x *index) move(from, to *openXorb, n int) {
	for i, h := range from.hashes {
		if r := (ref{from.id, uint32(i)}); x.refs[h.Word(3)] == r {
			x.refs[h.Word(3)] = ref{to.id, uint32(n + i)}
		}
	}
	x.release(from)
}

// forget takes out the chunks of g.
func (x *index) forget(g *openXorb) {
	for i, h := range g.hashes {
		if r := (ref{g.id, uint32(i)}); x.refs[h.Word(3)] == r {
			delete(x.refs, h.Word(3))
		}
	}
	x.release(g)
}

func (x *index) release(g *openXorb) {
	x.groups[g.id] = nil
	x.unused = append(x.unused, g.id)
	g.hashes, g.sizes = nil, nil
}
