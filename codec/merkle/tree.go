package merkle

import (
	"strconv"

	"github.com/xetfs/xetfs/codec"
)

// A node has at most maxChildren children, and the first minChildren-1 of them
// never end it.
const (
	minChildren = 3
	maxChildren = 9
	meanCut     = 4 // one hash in four ends a node
)

// Xorb returns the hash of a xorb: the root of the tree over its chunks. For one
// chunk it is the hash of the chunk, for none it is zero.
func Xorb(leaves []Leaf) codec.Hash { return root(leaves) }

// File returns the hash of a file. It is the root of the tree over all chunks, in file order
// and with repetitions, hashed once more. For the empty file it is zero.
func File(leaves []Leaf) codec.Hash {
	if len(leaves) == 0 {
		return codec.Hash{}
	}
	return fileHash(root(leaves))
}

// fileHash returns the hash of the file whose tree has a root.
func fileHash(root codec.Hash) codec.Hash {
	h := fileHashers.Get().(*hasher)
	defer fileHashers.Put(h)
	h.text = append(h.text[:0], root[:]...)
	return h.sum(h.text)
}

// root merges leaves level by level until one node is left. It does not change the leaves. All
// higher levels share one slice, because the parent of a group is never behind the group.
func root(leaves []Leaf) codec.Hash {
	switch len(leaves) {
	case 0:
		return codec.Hash{}
	case 1:
		return leaves[0].Hash
	}
	h := nodeHashers.Get().(*hasher)
	defer nodeHashers.Put(h)
	level := h.mergeLevel(make([]Leaf, 0, len(leaves)/minChildren+1), leaves)
	for len(level) > 1 {
		level = h.mergeLevel(level[:0], level)
	}
	return level[0].Hash
}

// mergeLevel appends the parents of children to parents, which may be the start of
// the same slice.
func (h *hasher) mergeLevel(parents, children []Leaf) []Leaf {
	for len(children) > 0 {
		n := groupLen(children)
		parents = append(parents, h.merge(children[:n]))
		children = children[n:]
	}
	return parents
}

// groupLen returns how many of the nodes in rest have a common parent. A group ends with the
// first node from the third on whose hash ends a group, or else with the ninth.
func groupLen(rest []Leaf) int {
	limit := min(maxChildren, len(rest))
	for n := minChildren; n < limit; n++ {
		if rest[n-1].Hash.Word(3)%meanCut == 0 {
			return n
		}
	}
	return limit
}

// merge returns the parent of a group. It hashes a text with one line per child:
//
//	64 hex digits of the hash's text form, " : ", decimal size, "\n"
func (h *hasher) merge(group []Leaf) Leaf {
	var size uint64
	text := h.text[:0]
	for i := range group {
		text, _ = group[i].Hash.AppendText(text)
		text = append(text, " : "...)
		text = strconv.AppendUint(text, group[i].Size, 10)
		text = append(text, '\n')
		size += group[i].Size
	}
	h.text = text
	return Leaf{Hash: h.sum(text), Size: size}
}
