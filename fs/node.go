package fs

import (
	"context"
	"errors"
	iofs "io/fs"
	"sync"

	"github.com/xetfs/xetfs/codec/page"
)

// A node is a name that the kernel has looked up. There may be millions, so a node has no field
// that the tree can return.
type node struct {
	path    string   // in its volume
	ver     *version // of the last lookup
	gen     uint32   // of its identity
	lookups uint32   // lookups that the kernel has not forgotten
}

// matches reports whether a node with number ino has an identity. Colliding numbers were counted
// up.
func (n *node) matches(ino uint64, id identity) bool {
	return n.gen == uint32(id.gen) && ino-id.ino < 1<<16
}

// entry returns the current entry of a node if its identity is unchanged, else the entry of its
// own version. An open file stays the same.
func (n *node) entry(ctx context.Context, ino uint64) (page.Entry, *version, error) {
	now := n.ver.vol.current.Load()
	e, err := now.Lookup(ctx, n.path)
	switch {
	case now == n.ver:
		return e, now, err
	case err == nil && n.matches(ino, now.vol.identify(&e)):
		return e, now, nil
	case err != nil && !errors.Is(err, iofs.ErrNotExist):
		return e, now, err
	}
	e, err = n.ver.Lookup(ctx, n.path)
	return e, n.ver, err
}

// nodeShards is the number of parts of the node table. Each has a lock.
const nodeShards = 64

// nodes are the nodes by inode number. The kernel sends FORGET for unused ones.
type nodes struct {
	root   node // never forgotten
	shards [nodeShards]nodeShard
}

// A nodeShard is the nodes of the inode numbers with the same low bits.
type nodeShard struct {
	mu    sync.Mutex
	table nodeTable // guarded by mu
}

func newNodes(root *version) *nodes { return &nodes{root: node{ver: root}} }

func (n *nodes) shard(ino uint64) *nodeShard { return &n.shards[ino%nodeShards] }

// get returns the node of an inode number.
func (n *nodes) get(ino uint64) (node, bool) {
	if ino == rootID.ino {
		return n.root, true
	}
	s := n.shard(ino)
	s.mu.Lock()
	defer s.mu.Unlock()
	if i, ok := s.table.find(ino); ok {
		return s.table.nodes[i], true
	}
	return node{}, false
}

// addLookup counts a lookup of an entry and returns its number. If two entries have one number,
// the later one gets the next free number.
func (n *nodes) addLookup(id identity, path string, from *version) uint64 {
	for ino := id.ino; ; ino = usable(ino + 1) {
		if n.shard(ino).addLookup(ino, id, path, from) {
			return ino
		}
	}
}

// addLookup returns false if the number belongs to another entry.
func (s *nodeShard) addLookup(ino uint64, id identity, path string, from *version) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, ok := s.table.find(ino)
	if !ok {
		s.table.add(ino, node{path: path, ver: from, gen: uint32(id.gen), lookups: 1})
		return true
	}
	known := &s.table.nodes[i]
	if !known.matches(ino, id) {
		return false
	}
	known.ver = from
	known.lookups = max(known.lookups, known.lookups+1) // a saturated count is never forgotten
	return true
}

// find returns the number of an identity that the kernel has looked up.
func (n *nodes) find(id identity) (ino uint64, ok bool) {
	if id == rootID {
		return rootID.ino, true
	}
	for ino = id.ino; ; ino = usable(ino + 1) {
		known, ok := n.get(ino)
		if !ok || known.matches(ino, id) {
			return ino, ok
		}
	}
}

// forget takes back count lookups of a node. It reports whether the node was removed.
func (n *nodes) forget(ino, count uint64) bool {
	s := n.shard(ino)
	s.mu.Lock()
	defer s.mu.Unlock()
	i, ok := s.table.find(ino)
	if !ok {
		return false
	}
	known := &s.table.nodes[i]
	switch {
	case known.lookups == ^uint32(0):
		return false
	case uint64(known.lookups) > count:
		known.lookups -= uint32(count)
		return false
	}
	s.table.remove(i)
	return true
}

// inVolume returns the nodes of a volume by inode number.
func (n *nodes) inVolume(v *volume) map[uint64]node {
	all := map[uint64]node{}
	if v.parent == nil {
		all[rootID.ino] = n.root
	}
	for i := range n.shards {
		s := &n.shards[i]
		s.mu.Lock()
		for j, ino := range s.table.inos {
			if ino != 0 && s.table.nodes[j].ver.vol == v {
				all[ino] = s.table.nodes[j]
			}
		}
		s.mu.Unlock()
	}
	return all
}
