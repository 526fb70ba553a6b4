package dedup

import (
	"encoding/binary"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/shard"
)

// Beside returns the chunk list of xorb x, which Lookup has named. It adds those of up to most-1
// other xorbs of the same shard. The lists make the hashes of their xorbs. A list that cannot be
// read is left out.
func (k *Index) Beside(x codec.Hash, most int) []*shard.XorbInfo {
	stored, ok := k.byHash[x]
	if !ok || stored.at == unlisted {
		return nil
	}
	i := stored.at
	// The xorbs of one shard follow each other. Those behind x are more likely to be next.
	first, end := i, i+1
	for ; int(end) < len(k.xorbs) && int(end-first) < most && k.areBeside(i, end); end++ {
	}
	for ; first > 0 && int(end-first) < most && k.areBeside(i, first-1); first-- {
	}
	var all []*shard.XorbInfo
	for at := first; at < end; at++ {
		if in := k.xorbInfo(&k.xorbs[at]); in != nil {
			all = append(all, in)
		}
	}
	return all
}

func (k *Index) areBeside(x, y uint32) bool {
	return k.xorbs[x].shard == k.xorbs[y].shard && k.xorbs[x].shard != ownFooter
}

// xorbInfo returns the chunk list of a xorb, or nil.
func (k *Index) xorbInfo(x *xorbRef) *shard.XorbInfo {
	if !k.check(x) || x.shard == ownFooter {
		return nil
	}
	in := &shard.XorbInfo{Xorb: x.hash, Chunks: make([]shard.Chunk, 0, x.chunks)}
	for index := uint32(0); index < x.chunks; index += hashesAtOnce {
		b := k.window.buf[:min(hashesAtOnce, x.chunks-index)*x.stride]
		if !k.readRecords(x, index, b) {
			return nil
		}
		for ; len(b) > 0; b = b[x.stride:] {
			size := binary.LittleEndian.Uint32(b[chunkSizeAt:])
			in.Chunks = append(in.Chunks, shard.Chunk{Hash: codec.Hash(b), Start: in.Unpacked, Size: size})
			in.Unpacked += size
		}
	}
	return in
}
