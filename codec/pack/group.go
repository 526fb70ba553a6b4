package pack

import (
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/xorb"
)

// A group is new chunks that will be one xorb, or a part of one; or it stands for a
// xorb that was stored before.
type group struct {
	id     uint32       // in the index of the session
	hashes []codec.Hash // nil if the ledger knows them, or nobody
	sizes  []uint32
	bytes  int
	packed int        // the most bytes they can have packed
	hash   codec.Hash // of the xorb, once it is cut

	body []byte // of the placer: the packed chunks
	ends []uint32
}

// isCut says that g is a xorb and gets no more chunks.
func (g *group) isCut() bool { return !g.hash.IsZero() }

// packedMost is the most bytes that a chunk can have packed: it is never packed by a
// scheme that makes it larger.
func packedMost(size int) int { return xorb.ChunkHeaderSize + size }

// root returns the hash of a xorb of the chunks of g.
func (g *group) root() codec.Hash {
	leaves := make([]merkle.Leaf, len(g.hashes))
	for i, h := range g.hashes {
		leaves[i] = merkle.Leaf{Hash: h, Size: uint64(g.sizes[i])}
	}
	return merkle.Xorb(leaves)
}

// A place is where a chunk is.
type place struct {
	g     *group
	index uint32
}

func (p place) plus(n int) place { return place{p.g, p.index + uint32(n)} }

// A term is a codec.Term whose xorb may not have a name yet.
type term struct {
	first  place
	chunks uint32
	size   uint32
}

func (t *term) end() place { return t.first.plus(int(t.chunks)) }

// An index finds the chunks that are new in this session. It keeps one word of each
// hash and compares the rest with the group: some 25 bytes a chunk, beside the hashes
// of the groups. Of two chunks with one word it finds the last; the other is stored
// again, should it come again.
type index struct {
	refs   map[uint64]ref
	groups []*group // by id
	unused []uint32 // ids
}

type ref struct{ group, index uint32 }

func newIndex() *index { return &index{refs: map[uint64]ref{}} }

// newGroup returns an empty group.
func (x *index) newGroup() *group {
	g := new(group)
	if n := len(x.unused); n > 0 {
		g.id, x.unused = x.unused[n-1], x.unused[:n-1]
		x.groups[g.id] = g
		return g
	}
	g.id = uint32(len(x.groups))
	x.groups = append(x.groups, g)
	return g
}

func (x *index) find(chunk codec.Hash) (place, bool) {
	r, ok := x.refs[chunk.Word(3)]
	if !ok || x.groups[r.group].hashes[r.index] != chunk {
		return place{}, false
	}
	return place{x.groups[r.group], r.index}, true
}

// add notes that the last chunk of g is new. If it stands in g already, the first place
// counts: from there a run of equal chunks is longest.
func (x *index) add(g *group) {
	last := ref{g.id, uint32(len(g.hashes) - 1)}
	chunk := g.hashes[last.index]
	if at, ok := x.find(chunk); !ok || at.g != g {
		x.refs[chunk.Word(3)] = last
	}
}

// move notes that the chunks of from went behind the first n of to, and forgets from.
func (x *index) move(from, to *group, n int) {
	for i, h := range from.hashes {
		if r := (ref{from.id, uint32(i)}); x.refs[h.Word(3)] == r {
			x.refs[h.Word(3)] = ref{to.id, uint32(n + i)}
		}
	}
	x.release(from)
}

// forget takes out the chunks of g.
func (x *index) forget(g *group) {
	for i, h := range g.hashes {
		if r := (ref{g.id, uint32(i)}); x.refs[h.Word(3)] == r {
			delete(x.refs, h.Word(3))
		}
	}
	x.release(g)
}

func (x *index) release(g *group) {
	x.groups[g.id] = nil
	x.unused = append(x.unused, g.id)
	g.hashes, g.sizes = nil, nil
}
