package merkle

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/xetfs/xetfs/codec"
)

// A FileTree returns what File returns, for every number of leaves and whatever ends the
// groups.
func TestFileTree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.OneOf(rapid.IntRange(0, 40), rapid.IntRange(0, 3000)).Draw(t, "leaves")
		cut := rapid.SampledFrom([]int{0, 1, 4, 1 << 30}).Draw(t, "average group size")
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		var tree FileTree
		leaves := make([]Leaf, n)
		for i := range leaves {
			leaves[i] = randomLeaf(random, cut)
			tree.Add(leaves[i])
		}
		if got, want := tree.Sum(), File(leaves); got != want {
			t.Errorf("%d leaves: %s, want %s", n, got, want)
		}
	})
}

// randomLeaf returns a leaf. One in cut ends a group; 0: none does.
func randomLeaf(random *rand.Rand, cut int) Leaf {
	var h codec.Hash
	for i := range h {
		h[i] = byte(random.Uint32())
	}
	h[24] |= 1
	if cut > 0 && random.IntN(cut) == 0 {
		h[24] = 0
	}
	return Leaf{Hash: h, Size: random.Uint64N(codec.MaxChunkSize)}
}

// The memory of a FileTree does not grow with the number of its leaves.
func TestFileTreeMemory(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	var tree FileTree
	for range 100_000 {
		tree.Add(randomLeaf(random, 4))
	}
	open := 0
	for _, l := range tree.levels {
		open += cap(l.open)
	}
	if open > 20*2*maxChildren {
		t.Errorf("room for %d nodes in %d levels", open, len(tree.levels))
	}
}
