package fs

import (
	"context"
	"errors"
	iofs "io/fs"
	"maps"
	"sync"

	"github.com/xetfs/xetfs/codec/page"
)

// A node is a name that the kernel knows and may ask about by number. There may be
// millions, so it holds nothing that the tree can tell again.
type node struct {
	path    string   // in its volume
	from    *version // that the kernel was told of last
	gen     uint64   // of its identity
	lookups uint32   // how often the kernel was told
	dir     bool
}

// entry returns what a node is now: the entry at its path if that is still the same
// file, directory or link, else the entry as it was. What is open stays what it was.
func (n *node) entry(ctx context.Context) (page.Entry, *version, error) {
	now := n.from.vol.shown.Load()
	e, err := now.lookup(ctx, n.path)
	switch {
	case now == n.from:
		return e, now, err
	case err == nil && now.vol.identify(&e).gen == n.gen:
		return e, now, nil
	case err != nil && !errors.Is(err, iofs.ErrNotExist):
		return e, now, err
	}
	e, err = n.from.lookup(ctx, n.path)
	return e, n.from, err
}

// nodeShards is how many parts the table of nodes has, each with its own lock.
const nodeShards = 64

// nodes are the nodes by inode number. The kernel says when it forgets one.
type nodes struct {
	root   node // never forgotten
	shards [nodeShards]nodeShard
}

// A nodeShard is the nodes of some inode numbers.
type nodeShard struct {
	mu   sync.Mutex
	byID map[uint64]node // guarded by mu
	peak int             // most nodes that byID held; guarded by mu
}

func newNodes(root *version) *nodes {
	return &nodes{root: node{from: root, dir: true}}
}

func (n *nodes) shard(ino uint64) *nodeShard { return &n.shards[ino%nodeShards] }

// get returns the node of an inode number.
func (n *nodes) get(ino uint64) (node, bool) {
	if ino == rootID.ino {
		return n.root, true
	}
	s := n.shard(ino)
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.byID[ino]
	return found, ok
}

// tell notes that the kernel is told of an entry, and returns its number. Should two
// different entries have one number, the later gets the next that is free.
func (n *nodes) tell(id identity, path string, dir bool, from *version) uint64 {
	for ; ; id.ino = usable(id.ino + 1) {
		s := n.shard(id.ino)
		if s.tell(id, path, dir, from) {
			return id.ino
		}
	}
}

// tell is false if the number belongs to another entry.
func (s *nodeShard) tell(id identity, path string, dir bool, from *version) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.byID[id.ino]
	switch {
	case !ok && s.byID == nil:
		s.byID = make(map[uint64]node)
		fallthrough
	case !ok:
		known = node{path: path, gen: id.gen, dir: dir}
	case known.gen != id.gen:
		return false
	}
	known.from = from
	known.lookups = max(known.lookups, known.lookups+1) // so many are never forgotten
	s.byID[id.ino] = known
	s.peak = max(s.peak, len(s.byID))
	return true
}

// find returns the number of an identity, if the kernel knows it.
func (n *nodes) find(id identity) (ino uint64, ok bool) {
	if id == rootID {
		return rootID.ino, true
	}
	for ; ; id.ino = usable(id.ino + 1) {
		known, ok := n.get(id.ino)
		if !ok || known.gen == id.gen {
			return id.ino, ok
		}
	}
}

// forget takes back count tells of a node, and says whether it is gone now.
func (n *nodes) forget(ino, count uint64) bool {
	s := n.shard(ino)
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.byID[ino]
	switch {
	case !ok || known.lookups == ^uint32(0):
		return false
	case uint64(known.lookups) > count:
		known.lookups -= uint32(count)
		s.byID[ino] = known
		return false
	}
	delete(s.byID, ino)
	s.shrink()
	return true
}

// shrink gives back the memory of a map that was much larger once: a map keeps it.
func (s *nodeShard) shrink() {
	if s.peak < 1<<10 || len(s.byID) > s.peak/4 {
		return
	}
	smaller := make(map[uint64]node, len(s.byID))
	maps.Copy(smaller, s.byID)
	s.byID, s.peak = smaller, len(smaller)
}

// in returns the paths of a volume that the kernel knows, and which are directories.
func (n *nodes) in(v *volume) (paths []string, dirs map[string]uint64) {
	dirs = map[string]uint64{}
	if v.up == nil {
		dirs[""] = rootID.ino
	}
	for i := range n.shards {
		s := &n.shards[i]
		s.mu.Lock()
		for ino, known := range s.byID {
			if known.from.vol != v {
				continue
			}
			paths = append(paths, known.path)
			if known.dir {
				dirs[known.path] = ino
			}
		}
		s.mu.Unlock()
	}
	return paths, dirs
}

func (n *nodes) len() int {
	total := 1
	for i := range n.shards {
		s := &n.shards[i]
		s.mu.Lock()
		total += len(s.byID)
		s.mu.Unlock()
	}
	return total
}
