package disk

import "encoding/binary"

// A ghost remembers what was thrown away without having been used. It is two sets of
// fingerprints of which the older one goes when the newer one is full, so that it never
// grows beyond its limit, and one in four billion is taken for another.
type ghost struct {
	young, old map[uint32]struct{}
}

// maxGhosts bounds the memory of a ghost, to some 20 MiB.
const maxGhosts = 1 << 20

func fingerprint(k key, chunk uint32) uint32 {
	v := binary.LittleEndian.Uint64(k.hash[:]) ^ uint64(k.kind)
	v = (v + uint64(chunk) + 1) * 0x9e3779b97f4a7c15
	return uint32(v >> 32)
}

// add remembers a chunk among the last limit ones or a few more or less.
func (g *ghost) add(k key, chunk uint32, limit int) {
	if g.young == nil || len(g.young) >= max(16, min(limit, maxGhosts)/2) {
		g.young, g.old = make(map[uint32]struct{}), g.young
	}
	g.young[fingerprint(k, chunk)] = struct{}{}
}

// has says whether a chunk is remembered.
func (g *ghost) has(k key, chunk uint32) bool {
	f := fingerprint(k, chunk)
	if _, ok := g.young[f]; ok {
		return true
	}
	_, ok := g.old[f]
	return ok
}
