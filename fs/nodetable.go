package fs

import (
	"math/bits"
	"math/rand/v2"
)

// A nodeTable is a hash table from inode numbers to nodes, with linear probing. It needs less
// memory than a map, and one cache line of the processor holds most lookups.
type nodeTable struct {
	inos  []uint64 // 0: free; as long as nodes, a power of two
	nodes []node
	used  int
	seed  uint64 // odd and secret, so that no tree can fill one slot
	shift uint   // of a hash, to a slot
}

const minTable = 16

// find returns the slot of an inode number, or the free slot for it.
func (t *nodeTable) find(ino uint64) (i int, found bool) {
	if len(t.inos) == 0 {
		return 0, false
	}
	for i = t.slot(ino); t.inos[i] != 0; i = t.next(i) {
		if t.inos[i] == ino {
			return i, true
		}
	}
	return i, false
}

// slot returns the preferred slot of an inode number.
func (t *nodeTable) slot(ino uint64) int { return int(ino * t.seed >> t.shift) }

func (t *nodeTable) next(i int) int { return (i + 1) & (len(t.inos) - 1) }

// add adds a node with a new number.
func (t *nodeTable) add(ino uint64, n node) {
	if 5*(t.used+1) > 4*len(t.inos) {
		t.resize(max(minTable, 2*len(t.inos)))
	}
	i, _ := t.find(ino)
	t.inos[i], t.nodes[i] = ino, n
	t.used++
}

// remove removes the node in a slot. Displaced nodes after it move up.
func (t *nodeTable) remove(i int) {
	for j := t.next(i); t.inos[j] != 0; j = t.next(j) {
		home, mask := t.slot(t.inos[j]), len(t.inos)-1
		if (j-home)&mask >= (j-i)&mask {
			t.inos[i], t.nodes[i] = t.inos[j], t.nodes[j]
			i = j
		}
	}
	t.inos[i], t.nodes[i] = 0, node{}
	t.used--
	if len(t.inos) > minTable && 8*t.used < len(t.inos) {
		t.resize(len(t.inos) / 4)
	}
}

func (t *nodeTable) resize(size int) {
	old := *t
	*t = nodeTable{inos: make([]uint64, size), nodes: make([]node, size), seed: old.seed, shift: 64 - uint(bits.Len(uint(size-1)))}
	if t.seed == 0 {
		t.seed = rand.Uint64() | 1
	}
	for i, ino := range old.inos {
		if ino != 0 {
			t.add(ino, old.nodes[i])
		}
	}
}
