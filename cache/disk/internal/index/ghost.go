package index

import "encoding/binary"

// A ghost remembers chunks that were evicted without a use. It consists of two sets of
// fingerprints. The older set is dropped when the newer one is full, which bounds the memory.
// One chunk in four billion is taken for another.
type ghost struct {
	young, old map[uint32]struct{}
}

// maxGhosts bounds the memory of a ghost to about 20 MiB.
const maxGhosts = 1 << 20

func fingerprint(k Key, chunk uint32) uint32 {
	v := binary.LittleEndian.Uint64(k.Hash[:]) ^ uint64(k.Kind)
	v = (v + uint64(chunk) + 1) * 0x9e3779b97f4a7c15
	return uint32(v >> 32)
}

// add remembers a chunk among about the last limit ones.
func (g *ghost) add(k Key, chunk uint32, limit int) {
	if g.young == nil || len(g.young) >= max(16, min(limit, maxGhosts)/2) {
		g.young, g.old = make(map[uint32]struct{}), g.young
	}
	g.young[fingerprint(k, chunk)] = struct{}{}
}

// has reports whether a chunk is remembered.
func (g *ghost) has(k Key, chunk uint32) bool {
	f := fingerprint(k, chunk)
	if _, ok := g.young[f]; ok {
		return true
	}
	_, ok := g.old[f]
	return ok
}
