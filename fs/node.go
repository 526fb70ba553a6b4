package fs

import (
	"maps"
	"sync"

	"github.com/xetfs/xetfs/codec/page"
)

// A node is a name that the kernel knows and may ask about by number. There may be
// millions, so it holds nothing that the tree can tell again.
type node struct {
	path    string
	gen     uint64
	lookups uint64 // how often the kernel was told; guarded by nodes.mu
	kind    page.Type
}

// nodes are the nodes by inode number. The kernel says when it forgets one.
type nodes struct {
	mu   sync.RWMutex
	byID map[uint64]*node // guarded by mu
	peak int              // most nodes that byID held; guarded by mu
}

func newNodes() *nodes {
	return &nodes{byID: map[uint64]*node{rootID.ino: {kind: page.Dir, lookups: 1}}}
}

// path returns the path of a node, by which the tree knows it.
func (n *nodes) path(ino uint64) (string, bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if found, ok := n.byID[ino]; ok {
		return found.path, true
	}
	return "", false
}

// tell notes that the kernel is told of an entry, and returns its number. Should two
// different entries have one number, the later gets the next that is free.
func (n *nodes) tell(id identity, e *page.Entry) uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	for {
		known, ok := n.byID[id.ino]
		if !ok {
			n.byID[id.ino] = &node{path: e.Path, gen: id.gen, lookups: 1, kind: e.Type}
			n.peak = max(n.peak, len(n.byID))
			return id.ino
		}
		if known.gen == id.gen && known.kind == e.Type {
			known.lookups++
			return id.ino
		}
		id.ino = usable(id.ino + 1)
	}
}

// forget takes back count tells of a node. The root is never forgotten.
func (n *nodes) forget(ino, count uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	known, ok := n.byID[ino]
	if !ok || ino == rootID.ino {
		return
	}
	if known.lookups > count {
		known.lookups -= count
		return
	}
	delete(n.byID, ino)
	n.shrink()
}

// shrink gives back the memory of a map that was much larger once: a map keeps it.
func (n *nodes) shrink() {
	if n.peak < 1<<16 || len(n.byID) > n.peak/4 {
		return
	}
	smaller := make(map[uint64]*node, len(n.byID))
	maps.Copy(smaller, n.byID)
	n.byID, n.peak = smaller, len(smaller)
}

func (n *nodes) len() int {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return len(n.byID)
}
