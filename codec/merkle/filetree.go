package merkle

import "github.com/xetfs/xetfs/codec"

// A FileTree computes what File returns for leaves that arrive one after the other. Its
// memory grows with the logarithm of their number. The zero FileTree has no leaves. It is
// for one goroutine, and Sum ends it.
type FileTree struct {
	levels []treeLevel // leaves first
}

// A treeLevel holds the last nodes of a level, which have no parent yet.
type treeLevel struct {
	open  []Leaf
	nodes int // of the level so far
}

// Add adds the next leaf.
func (t *FileTree) Add(leaf Leaf) {
	if t.push(0, leaf) {
		h := nodeHashers.Get().(*hasher)
		defer nodeHashers.Put(h)
		for i := 0; t.closes(i); i++ {
			t.close(i, h)
		}
	}
}

// push adds a node to level i and reports whether it completes a group.
func (t *FileTree) push(i int, node Leaf) bool {
	if i == len(t.levels) {
		t.levels = append(t.levels, treeLevel{})
	}
	l := &t.levels[i]
	l.open = append(l.open, node)
	l.nodes++
	return t.closes(i)
}

// closes reports whether the last node of level i ends a group (groupLen).
func (t *FileTree) closes(i int) bool {
	open := t.levels[i].open
	n := len(open)
	return n == maxChildren || n >= minChildren && open[n-1].Hash.Word(3)%meanCut == 0
}

// close replaces the open nodes of level i by their parent.
func (t *FileTree) close(i int, h *hasher) {
	parent := h.merge(t.levels[i].open)
	t.levels[i].open = t.levels[i].open[:0]
	t.push(i+1, parent)
}

// Sum returns the hash of the file.
func (t *FileTree) Sum() codec.Hash {
	if len(t.levels) == 0 {
		return codec.Hash{}
	}
	h := nodeHashers.Get().(*hasher)
	defer nodeHashers.Put(h)
	for i := 0; ; i++ {
		l := &t.levels[i]
		if l.nodes == 1 {
			return fileHash(l.open[0].Hash)
		}
		if len(l.open) > 0 {
			t.close(i, h)
		}
	}
}
